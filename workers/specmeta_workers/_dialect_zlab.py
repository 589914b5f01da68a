"""The z-lab layout: `architectures: ["DFlashDraftModel"]`, with a `dflash_config` object.

Its layer ids name layer outputs, its window is non-causal, and a block slot fills its own position
unless `sample_from_anchor` says that it predicts the next. The published reader has defaults for
absent layer ids and lets the mask token be absent; here both are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specmeta import DFlashDrafterConfig

from ._config_keys import as_tuple, build, check_values, dense_fields, required
from ._errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ARCHITECTURE = "DFlashDraftModel"
NESTED = "dflash_config"
_EITHER = ("block_size", "mask_token_id", "target_layer_ids", "sample_from_anchor", "causal")


def read(file: Path, raw: Mapping[str, object]) -> DFlashDrafterConfig:
    """The canonical form of a z-lab configuration.

    Raises:
        CheckpointError: a key is missing, is given twice with two values, or has a value that is
            not implemented.

    """
    own = _merged(file, raw)
    check_values(file, own, {"causal": False}, f"{NESTED}.")
    check_values(file, raw, {"is_causal": False})
    fields = dense_fields(file, raw)
    if fields["sliding_window"] is not None:
        check_values(file, raw, {"sliding_window_non_causal": True})
    fields |= {
        "block_size": required(file, own, "block_size"),
        "mask_token_id": required(file, own, "mask_token_id", f"{NESTED}."),
        "target_layer_ids": as_tuple(required(file, own, "target_layer_ids", f"{NESTED}.")),
        "layer_id_convention": "output_of_layer",
        "anchor_convention": _anchor_convention(file, own),
        "window_causality": "non_causal",
    }
    return build(file, DFlashDrafterConfig, fields)


def _merged(file: Path, raw: Mapping[str, object]) -> dict[str, object]:
    """DFlash's own keys, which checkpoints have at the top level or in `dflash_config`."""
    nested = raw.get(NESTED, {})
    if not isinstance(nested, dict):
        raise CheckpointError(
            f"{file}: {NESTED} is {nested!r}, expected an object; put the mask_token_id and the "
            "target_layer_ids of the checkpoint in it"
        )
    merged: dict[str, object] = {}
    for key in _EITHER:
        found = [place[key] for place in (raw, nested) if place.get(key) is not None]
        if len(found) == 2 and found[0] != found[1]:
            raise CheckpointError(
                f"{file}: {key} is {found[0]!r} at the top level and {found[1]!r} in {NESTED}; "
                "keep the one that the checkpoint was trained with"
            )
        if found or key in raw or key in nested:
            merged[key] = found[0] if found else None
    return merged


def _anchor_convention(file: Path, own: Mapping[str, object]) -> str:
    sample = own.get("sample_from_anchor", False)
    if not isinstance(sample, bool):
        raise CheckpointError(
            f"{file}: sample_from_anchor is {sample!r}, expected true or false; set what the "
            "checkpoint was trained with"
        )
    return "anchor_first" if sample else "mask_at_position"
