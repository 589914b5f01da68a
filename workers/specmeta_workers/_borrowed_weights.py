"""The embedding and the head that a drafter shares with its target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from specmeta import CheckpointError

from ._checkpoint import read_config, read_tensors, weight_files

if TYPE_CHECKING:
    from collections.abc import Mapping

EMBEDDING = "embed_tokens.weight"
HEAD = "lm_head.weight"


def borrowed_weights(
    directory: Path,
    expected: Mapping[str, tuple[int, ...]],
    files: Mapping[str, Path],
    target: nn.Module | str | Path | None,
) -> dict[str, Tensor]:
    """Embedding and head that a checkpoint leaves out: tied to each other, or the target's.

    `expected` has the shapes that the draft model needs, `files` the checkpoint's own tensors.
    Nothing is returned for what neither has.

    Raises:
        CheckpointError: the target gives none, or one of another shape.

    """
    absent = [name for name in (EMBEDDING, HEAD) if name not in files]
    _, raw = read_config(directory)
    if absent == [HEAD] and raw.get("tie_word_embeddings") is True:
        return {HEAD: read_tensors(files, [EMBEDDING])[EMBEDDING]}
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
    files = weight_files(directory)
    _, raw = read_config(directory)
    homes: dict[str, str] = {}
    for name in (EMBEDDING, HEAD):
        homes[name] = next((n for n in (f"model.{name}", name) if n in files), "")
    if not homes[HEAD] and raw.get("tie_word_embeddings") is True:
        homes[HEAD] = homes[EMBEDDING]
    for name, home in homes.items():
        if not home:
            raise CheckpointError(
                f"{directory}: {name} is missing; pass the directory of a causal language model"
            )
    tensors = read_tensors(files, set(homes.values()))
    return {name: tensors[home] for name, home in homes.items()}
