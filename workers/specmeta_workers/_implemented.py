"""Keys of a published configuration that would change the computation of a draft model.

What a file says and the draft models do not implement is refused: a drafter that runs on a wrong
assumption still gives correct output, only with few accepted drafts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specmeta import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ONLY: dict[str, object] = {"attention_bias": False, "mlp_bias": False, "hidden_act": "silu"}


def check_implemented(file: Path, raw: Mapping[str, object]) -> None:
    """Refuse values that a draft model would ignore; a key that is not there is right.

    Raises:
        CheckpointError: names the first key with another value.

    """
    draft_vocab, vocab = raw.get("draft_vocab_size"), raw.get("vocab_size")
    if draft_vocab is not None and draft_vocab != vocab:
        _refuse(file, "draft_vocab_size", draft_vocab, vocab)
    for key, value in _ONLY.items():
        if key in raw and raw[key] != value:
            _refuse(file, key, raw[key], value)
    for key in ("rope_parameters", "rope_scaling"):
        rotary = raw.get(key)
        if not isinstance(rotary, dict):
            continue
        kind = rotary.get("rope_type", rotary.get("type", "default"))
        if kind != "default":
            raise CheckpointError(
                f"{file}: {key} has rope_type {kind!r}, but only 'default' is implemented; use a "
                "checkpoint without rotary scaling"
            )


def _refuse(file: Path, key: str, value: object, implemented: object) -> None:
    raise CheckpointError(
        f"{file}: {key} is {value!r}, but only {implemented!r} is implemented; use a checkpoint "
        "trained that way"
    )
