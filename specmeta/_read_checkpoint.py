"""The public readers of published configurations; the forms are imported when one is read."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ._drafter import DrafterConfig
from ._errors import show
from ._findings import CheckpointError, InputError
from ._target import TargetConfig

if TYPE_CHECKING:
    from ._files import Document


def read_drafter_config(
    path: str | Path, *, stated: Mapping[str, object] | None = None
) -> DrafterConfig:
    """Read a drafter's configuration, in any published form.

    Args:
        path: a checkpoint directory, its `config.json`, or a `.gguf` file; of a target with a
            bundled drafter, that one is read.
        stated: facts that no file states, for example `{"anchor_convention": "anchor_first"}`.

    Raises:
        TypeError: `stated` is no mapping of facts by name.
        CheckpointError: the file cannot be read, or does not state what a drafter needs; the
            message names file, line, key, value and remedy of every problem.

    """
    from ._dialects import read_drafter

    facts = {} if stated is None else stated
    given: object = facts
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"stated is {show(stated)}; pass facts by name, as {{'block_size': 7}}")
    return read_drafter(_open(path), stated=facts).config


def read_target_config(path: str | Path) -> TargetConfig:
    """Read the sizes of a causal language model.

    Args:
        path: a checkpoint directory, or its `config.json`.

    Raises:
        CheckpointError: the file cannot be read or lacks a size.

    """
    from ._dialects import read_target

    return read_target(_open(path)).config


def _open(path: str | Path) -> "Document":
    from ._checkpoint import open_checkpoint

    try:
        return open_checkpoint(Path(path)).document
    except InputError as error:
        raise CheckpointError(str(error), error.findings) from None
