"""How the keys of a published `config.json` are read, whatever its layout.

What a file does not say and its layout does not fix is asked for; what it says and the draft models
do not implement is refused, because a drafter that runs on a wrong assumption still gives correct
output, only with few accepted drafts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from specmeta import ValidationError

from ._errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LAYERS = "num_hidden_layers"
"""The key that counts the layers, in all layouts but those of MTP."""

_Config = TypeVar("_Config", bound=BaseModel)


def build(
    file: Path, model: type[_Config], fields: Mapping[str, object], layers_key: str = LAYERS
) -> _Config:
    """The canonical form of these fields.

    Raises:
        CheckpointError: a value that the canonical form refuses, in one line.

    """
    try:
        return model.model_validate(dict(fields))
    except ValidationError as error:
        problems = "; ".join(problem["msg"] for problem in error.errors())
        # The file's own word for the one field that is named differently there.
        problems = problems.replace("num_layers:", f"{layers_key}:")
        raise CheckpointError(f"{file}: {problems}") from None


def required(file: Path, raw: Mapping[str, object], key: str, prefix: str = "") -> object:
    """The value of a key; `prefix` names the object that it is in, with a dot behind.

    Raises:
        CheckpointError: the key is missing or null.

    """
    if key not in raw or raw[key] is None:
        found = "is null" if key in raw else "is missing"
        raise CheckpointError(
            f"{file}: {prefix}{key} {found}; add the value that the checkpoint was trained with"
        )
    return raw[key]


def as_tuple(value: object) -> object:
    """A JSON list in the form that the canonical models take."""
    return tuple(value) if isinstance(value, list) else value


def check_values(
    file: Path, raw: Mapping[str, object], expected: Mapping[str, object], prefix: str = ""
) -> None:
    """Refuse values that would change the computation; a key that is not there is right.

    Raises:
        CheckpointError: names the first key with another value.

    """
    for key, value in expected.items():
        if key in raw and raw[key] != value:
            raise CheckpointError(
                f"{file}: {prefix}{key} is {raw[key]!r}, but only {value!r} is implemented; use a "
                "checkpoint trained that way"
            )


def dense_fields(
    file: Path, raw: Mapping[str, object], layers_key: str = LAYERS
) -> dict[str, object]:
    """What every drafter of dense decoder layers has: sizes, rotary base and window.

    Raises:
        CheckpointError: a key is missing, or has a value that is not implemented.

    """
    expected = {
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "draft_vocab_size": raw.get("vocab_size"),
    }
    check_values(file, raw, expected)
    same_name = (
        "hidden_size",
        "vocab_size",
        "max_position_embeddings",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "intermediate_size",
        "rms_norm_eps",
    )
    return {
        "num_layers": required(file, raw, layers_key),
        **{key: required(file, raw, key) for key in same_name},
        "rope_theta": _rope_theta(file, raw),
        "sliding_window": _window(file, raw, layers_key),
    }


def _rope_theta(file: Path, raw: Mapping[str, object]) -> object:
    """The base of the rotary frequencies, at the top level or in `rope_parameters`."""
    nested: Mapping[str, object] = {}
    for key in ("rope_parameters", "rope_scaling"):
        value = raw.get(key)
        if not isinstance(value, dict):
            continue
        kind = value.get("rope_type", value.get("type", "default"))
        if kind != "default":
            raise CheckpointError(
                f"{file}: {key} has rope_type {kind!r}, but only 'default' is implemented; use a "
                "checkpoint without rotary scaling"
            )
        nested = {**nested, **value}
    found = [source["rope_theta"] for source in (raw, nested) if "rope_theta" in source]
    if not found:
        return required(file, raw, "rope_theta")
    if found[0] != found[-1] and len(found) == 2:
        raise CheckpointError(
            f"{file}: rope_theta is {found[0]!r} at the top level and {found[1]!r} in "
            "rope_parameters; keep the one that the checkpoint was trained with"
        )
    return found[0]


def _window(file: Path, raw: Mapping[str, object], layers_key: str) -> object:
    """The window of the drafter's layers; None where every layer attends to the whole context."""
    types = raw.get("layer_types")
    if types is None:
        return required(file, raw, "sliding_window") if raw.get("use_sliding_window") else None
    count = raw.get(layers_key)
    if not isinstance(types, list) or len(types) != count:
        raise CheckpointError(
            f"{file}: layer_types is {types!r}, expected one type for each of the {count} layers; "
            f"list as many as {layers_key}"
        )
    kinds = set(map(str, types))
    if kinds == {"full_attention"}:
        return None
    if kinds == {"sliding_attention"}:
        return required(file, raw, "sliding_window")
    raise CheckpointError(
        f"{file}: layer_types has {sorted(kinds)}, but all layers must be 'full_attention' or all "
        "'sliding_attention'; the layers share one window"
    )
