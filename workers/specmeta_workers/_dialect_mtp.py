"""This project's MTP layout: `architectures: ["Qwen3MTPModel"]`.

No published layout has a dense multi-token-prediction layer in a checkpoint of its own, so this one
names its keys as others do: the sizes of a Qwen3 layer, and `num_nextn_predict_layers` of
DeepSeek-V3. `target_hidden_state` says what no published key does: which state of the target the
layer reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specmeta import MTPDrafterConfig

from ._config_keys import build, check_values, dense_fields, required

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ARCHITECTURE = "Qwen3MTPModel"
LAYERS = "num_nextn_predict_layers"


def read(file: Path, raw: Mapping[str, object]) -> MTPDrafterConfig:
    """The canonical form of an MTP configuration.

    Raises:
        CheckpointError: a key is missing, or has a value that is not implemented.

    """
    check_values(file, raw, {"is_causal": True})
    fields = dense_fields(file, raw, LAYERS)
    fields["target_hidden_state"] = required(file, raw, "target_hidden_state")
    return build(file, MTPDrafterConfig, fields, LAYERS)
