"""The DeepSpec layout: `architectures: ["Qwen3DSparkModel"]`.

It is anchor-first and non-causal, and its layer ids name layer outputs (-1 is the embedding); no
key says so, the class does. That holds for DeepSpec's `dflash_*` checkpoints too: they are this
class with `markov_rank` 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specmeta import DSparkDrafterConfig

from ._config_keys import as_tuple, build, check_values, dense_fields, required

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ARCHITECTURE = "Qwen3DSparkModel"


def read(file: Path, raw: Mapping[str, object]) -> DSparkDrafterConfig:
    """The canonical form of a DeepSpec configuration.

    Raises:
        CheckpointError: a key is missing, or has a value that is not implemented.

    """
    check_values(file, raw, {"is_causal": False, "sample_from_anchor": True})
    rank = required(file, raw, "markov_rank")
    confidence = required(file, raw, "enable_confidence_head")
    fields = {
        **dense_fields(file, raw),
        "block_size": required(file, raw, "block_size"),
        "mask_token_id": required(file, raw, "mask_token_id"),
        "target_layer_ids": as_tuple(required(file, raw, "target_layer_ids")),
        "layer_id_convention": "output_of_layer",
        "anchor_convention": "anchor_first",
        "window_causality": "non_causal",
        "markov_rank": rank,
        # The published reader needs each of these two keys only where its head exists.
        "markov_head_type": required(file, raw, "markov_head_type") if rank else None,
        "enable_confidence_head": confidence,
        "confidence_head_with_markov": (
            required(file, raw, "confidence_head_with_markov") if confidence else False
        ),
    }
    return build(file, DSparkDrafterConfig, fields)
