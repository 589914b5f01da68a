"""What a published configuration says and the draft models do not implement.

It is refused by its key: a drafter that runs on a wrong assumption still gives correct output, only
with few accepted drafts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specmeta import CheckpointError

if TYPE_CHECKING:
    from ._checkpoint import Config

_ARCHITECTURES = ("Qwen3DSparkModel", "DFlashDraftModel", "Qwen3MTPModel")
_ONLY: dict[str, object] = {
    "attention_bias": False,
    "mlp_bias": False,
    "hidden_act": "silu",
    "rope_is_neox_style": True,
    "is_neox_style": True,
}


def check_implemented(config: Config) -> None:
    """Refuse other forms, and values that a draft model would ignore; an absent key is right.

    Raises:
        CheckpointError: names the first key with another value.

    """
    raw = config.raw
    found = raw.get("architectures")
    if found not in [[name] for name in _ARCHITECTURES]:
        raise CheckpointError(
            f"{config.place('architectures')} is {found!r}, whose tensors no draft model has; use "
            f"a checkpoint of {', '.join(_ARCHITECTURES)}"
        )
    for key, value in _ONLY.items():
        if key in raw and raw[key] != value:
            raise CheckpointError(
                f"{config.place(key)} is {raw[key]!r}, but only {value!r} is implemented; use a "
                "checkpoint trained that way"
            )
    for key in ("rope_parameters", "rope_scaling"):
        rotary = raw.get(key)
        if not isinstance(rotary, dict):
            continue
        kind = rotary.get("rope_type", rotary.get("type", "default"))
        if kind != "default":
            raise CheckpointError(
                f"{config.place(key)} has rope_type {kind!r}, but only 'default' is implemented; "
                "use a checkpoint without rotary scaling"
            )
