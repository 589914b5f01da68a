"""The embedding and the head that a drafter shares with its target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from specmeta import CheckpointError, MTPDrafterConfig

from ._checkpoint import read_config, read_tensors, stored_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specmeta import DrafterConfig

    from ._checkpoint import Config, Stored

EMBEDDING = "embed_tokens.weight"
HEAD = "lm_head.weight"


def borrowed_weights(
    directory: Path,
    config: DrafterConfig,
    file: Config,
    expected: Mapping[str, tuple[int, ...]],
    stored: Mapping[str, Stored],
    target: nn.Module | str | Path | None,
) -> dict[str, Tensor]:
    """Embedding and head that a checkpoint leaves out: tied to each other, or the target's.

    `file` is the drafter's config.json, `expected` has the shapes that the draft model needs,
    `stored` the checkpoint's own tensors. Nothing is returned for what neither has.

    Raises:
        CheckpointError: the target's states have another width than the drafter's, or the target
            gives none, or one of another shape.

    """
    absent = [name for name in (EMBEDDING, HEAD) if name not in stored]
    if absent == [HEAD] and file.raw.get("tie_word_embeddings") is True:
        return {HEAD: read_tensors(stored, [EMBEDDING])[EMBEDDING]}
    if absent and not isinstance(config, MTPDrafterConfig):
        _check_width(directory, config.hidden_size, config.target_hidden_size, absent)
    if not absent or target is None:
        return {}
    source = _from_module(target) if isinstance(target, nn.Module) else _from_directory(target)
    for name in absent:
        if (found := tuple(source[name].shape)) != expected[name]:
            raise CheckpointError(
                f"{directory}: the target's {name} is {list(found)}, expected "
                f"{list(expected[name])}; pass the target that the drafter was trained for"
            )
    return {name: source[name] for name in absent}


def _check_width(directory: Path, width: int, target_width: int, absent: list[str]) -> None:
    if width != target_width:
        raise CheckpointError(
            f"{directory}: {', '.join(absent)} missing, and the target's cannot be shared: "
            f"hidden_size is {width}, target_hidden_size {target_width}; use a checkpoint that has "
            "them"
        )


def _from_module(target: nn.Module) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, getter in ((EMBEDDING, "get_input_embeddings"), (HEAD, "get_output_embeddings")):
        method = getattr(target, getter, None)
        layer: Any = method() if callable(method) else None
        if layer is None:
            raise CheckpointError(
                f"target: {type(target).__name__} gives no {getter}(), needed for {name}; pass a "
                "transformers causal language model or its directory"
            )
        found[name] = layer.weight
    return found


def _from_directory(target: str | Path) -> dict[str, Tensor]:
    directory = Path(target)
    stored = stored_tensors(directory)
    raw = read_config(directory).raw
    homes: dict[str, str] = {}
    for name in (EMBEDDING, HEAD):
        homes[name] = next((n for n in (f"model.{name}", name) if n in stored), "")
    if not homes[HEAD] and raw.get("tie_word_embeddings") is True:
        homes[HEAD] = homes[EMBEDDING]
    for name, home in homes.items():
        if not home:
            raise CheckpointError(
                f"{directory}: {name} is missing; pass the directory of a causal language model"
            )
    tensors = read_tensors(stored, set(homes.values()))
    return {name: tensors[home] for name, home in homes.items()}
