"""A checkpoint on disk: its configuration, and the directory that its tensors lie in."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ._files import (
    Document,
    check_inside,
    gguf_document,
    is_directory,
    is_there,
    read_document,
    shown_path,
)
from ._findings import InputError


class Checkpoint(NamedTuple):
    """What `open_checkpoint` found."""

    document: Document
    """The configuration; of a .gguf file, its header."""

    directory: Path | None
    """Where tensors lie beside the configuration; None for a .gguf file, which has its own."""


def is_pair(path: Path) -> bool:
    """Whether a directory holds a target, beside its drafter or with it inside."""
    return is_directory(path / "target") and not is_there(path / "config.json")


def open_checkpoint(path: Path, *, within: Sequence[Path] = ()) -> Checkpoint:
    """The checkpoint of a directory, of its config.json or of a .gguf file.

    Where `within` is given, the path, its links followed, lies in one of those directories.

    Raises:
        InputError: there is none, it cannot be read, or it lies elsewhere.

    """
    if within:
        remedy = "put the checkpoint itself there, or allow its directory with --root DIR"
        check_inside(path, within, remedy)
    if is_directory(path):
        if is_pair(path):
            inner = f"{shown_path(path / 'target')} or {shown_path(path / 'drafter')}"
            raise InputError(f"{shown_path(path)}: holds a pair, {inner}; pass one of those")
        return Checkpoint(read_document(path / "config.json", root=path), path)
    if path.suffix == ".gguf":
        return Checkpoint(gguf_document(path), None)
    return Checkpoint(read_document(path), path.parent)
