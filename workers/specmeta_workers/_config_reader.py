"""Published configurations in canonical form: the DeepSpec drafter layout, and its target.

What the file does not say and this layout does not fix is asked for; what it says and these classes
do not implement is refused, because a drafter that runs on a wrong assumption still gives correct
output, only with few accepted drafts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from specmeta import DSparkDrafterConfig, TargetConfig, ValidationError

from ._checkpoint import read_config
from ._errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ARCHITECTURE = "Qwen3DSparkModel"
_Config = TypeVar("_Config", DSparkDrafterConfig, TargetConfig)


def read_drafter_config(path: str | Path) -> DSparkDrafterConfig:
    """Read a drafter in the published DeepSpec layout (architecture `Qwen3DSparkModel`).

    The layout is anchor-first and non-causal, and its layer ids name layer outputs (-1 is the
    embedding); no key says so, the class does. That holds for DeepSpec's `dflash_*` checkpoints
    too: they are this class with `markov_rank` 0.

    Args:
        path: a checkpoint directory, or its `config.json`.

    Raises:
        CheckpointError: the file cannot be read, is of another layout, lacks a key, or has a value
            that is not implemented. The message names the file, the key, the value and the remedy.

    """
    file, raw = read_config(path)
    _check_layout(file, raw)
    _check_implemented(file, raw)
    rank = _required(file, raw, "markov_rank")
    confidence = _required(file, raw, "enable_confidence_head")
    return _build(
        file,
        DSparkDrafterConfig,
        {
            "hidden_size": _required(file, raw, "hidden_size"),
            "num_layers": _required(file, raw, "num_hidden_layers"),
            "vocab_size": _required(file, raw, "vocab_size"),
            "max_position_embeddings": _required(file, raw, "max_position_embeddings"),
            "num_attention_heads": _required(file, raw, "num_attention_heads"),
            "num_key_value_heads": _required(file, raw, "num_key_value_heads"),
            "head_dim": _required(file, raw, "head_dim"),
            "intermediate_size": _required(file, raw, "intermediate_size"),
            "rms_norm_eps": _required(file, raw, "rms_norm_eps"),
            "rope_theta": _rope_theta(file, raw),
            "block_size": _required(file, raw, "block_size"),
            "mask_token_id": _required(file, raw, "mask_token_id"),
            "target_layer_ids": _as_tuple(_required(file, raw, "target_layer_ids")),
            "layer_id_convention": "output_of_layer",
            "anchor_convention": "anchor_first",
            "window_causality": "non_causal",
            "sliding_window": _window(file, raw),
            "markov_rank": rank,
            # The published reader needs each of these two keys only where its head exists.
            "markov_head_type": _required(file, raw, "markov_head_type") if rank else None,
            "enable_confidence_head": confidence,
            "confidence_head_with_markov": (
                _required(file, raw, "confidence_head_with_markov") if confidence else False
            ),
        },
    )


def read_target_config(path: str | Path) -> TargetConfig:
    """Read the sizes of a `transformers` causal language model.

    Args:
        path: a checkpoint directory, or its `config.json`.

    Raises:
        CheckpointError: the file cannot be read or lacks a key.

    """
    file, raw = read_config(path)
    text = raw.get("text_config")
    sizes = text if isinstance(text, dict) else raw  # models with a vision part nest the text model
    fields = {
        "hidden_size": _required(file, sizes, "hidden_size"),
        "num_layers": _required(file, sizes, "num_hidden_layers"),
        "vocab_size": _required(file, sizes, "vocab_size"),
        "max_position_embeddings": _required(file, sizes, "max_position_embeddings"),
    }
    if "hc_mult" in sizes:
        fields["hc_mult"] = sizes["hc_mult"]
    return _build(file, TargetConfig, fields)


def _build(file: Path, model: type[_Config], fields: dict[str, object]) -> _Config:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problems = "; ".join(problem["msg"] for problem in error.errors())
        # The file's own word for the one field that is named differently there.
        problems = problems.replace("num_layers:", "num_hidden_layers:")
        raise CheckpointError(f"{file}: {problems}") from None


def _required(file: Path, raw: Mapping[str, object], key: str) -> object:
    if key not in raw or raw[key] is None:
        found = "is null" if key in raw else "is missing"
        raise CheckpointError(
            f"{file}: {key} {found}; add the value that the checkpoint was trained with"
        )
    return raw[key]


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _check_layout(file: Path, raw: Mapping[str, object]) -> None:
    """Refuse the other published layouts by name."""
    found = raw.get("architectures")
    names = found if isinstance(found, list) else []
    other = None
    if "speculators_model_type" in raw or "speculators_config" in raw:
        other = "the speculators layout"
    elif any(key.startswith("dspark_") for key in raw):
        other = "a DeepSeek-V4 checkpoint with its drafter bundled in"
    elif "dflash_config" in raw or "DFlashDraftModel" in names:
        other = "the z-lab DFlash layout, whose block slots fill their own positions"
    if other is None and names == [_ARCHITECTURE]:
        return
    what = f"is {other}" if other else f"architectures is {found!r}"
    raise CheckpointError(
        f"{file}: {what}; this reader takes the DeepSpec layout (architectures: "
        f"[{_ARCHITECTURE!r}]), so pass such a checkpoint or convert this one"
    )


def _check_implemented(file: Path, raw: Mapping[str, object]) -> None:
    """Refuse values that would change the computation."""
    expected: dict[str, object] = {
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "is_causal": False,
        "sample_from_anchor": True,
        "draft_vocab_size": raw.get("vocab_size"),
    }
    for key, value in expected.items():
        if key in raw and raw[key] != value:
            raise CheckpointError(
                f"{file}: {key} is {raw[key]!r}, but only {value!r} is implemented; use a "
                "checkpoint trained that way"
            )


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
        return _required(file, raw, "rope_theta")
    if found[0] != found[-1] and len(found) == 2:
        raise CheckpointError(
            f"{file}: rope_theta is {found[0]!r} at the top level and {found[1]!r} in "
            "rope_parameters; keep the one that the checkpoint was trained with"
        )
    return found[0]


def _window(file: Path, raw: Mapping[str, object]) -> object:
    """The window of the drafter's layers; None where every layer attends to the whole context."""
    types = raw.get("layer_types")
    if types is None:
        return _required(file, raw, "sliding_window") if raw.get("use_sliding_window") else None
    count = raw.get("num_hidden_layers")
    if not isinstance(types, list) or len(types) != count:
        raise CheckpointError(
            f"{file}: layer_types is {types!r}, expected one type for each of the {count} layers; "
            "list as many as num_hidden_layers"
        )
    kinds = set(map(str, types))
    if kinds == {"full_attention"}:
        return None
    if kinds == {"sliding_attention"}:
        return _required(file, raw, "sliding_window")
    raise CheckpointError(
        f"{file}: layer_types has {sorted(kinds)}, but all layers must be 'full_attention' or all "
        "'sliding_attention'; the layers share one window"
    )
