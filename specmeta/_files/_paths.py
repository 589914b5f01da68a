"""Questions about paths of any length and content; none of them raises."""

import os
from pathlib import Path

from .._text import named

_SNAPSHOTS = "snapshots"
_BLOBS = "blobs"
_LONGEST = 4096  # no path that is longer can be opened


def shown_path(path: Path | str) -> str:
    """The path as messages name it: printable, and whole where a file can have it."""
    return named(str(path), _LONGEST)


def is_directory(path: Path) -> bool:
    """Whether a path leads to a directory; false where that cannot be told."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # too long, no permission, a NUL byte
        return False


def is_there(path: Path) -> bool:
    """Whether there is anything of this name, a link to nothing included."""
    return os.path.lexists(path)


def is_inside(root: Path, path: Path) -> bool:
    """Whether a path, its links followed, stays in a directory.

    In the cache of Hugging Face, a file of ``snapshots/REVISION`` is a link into the ``blobs`` of
    the same repository, which counts as inside. What cannot be followed is not.
    """
    try:
        top, target = root.resolve(), path.resolve()
    except (OSError, RuntimeError, ValueError):  # too long; a loop, before 3.13; a NUL byte
        return False
    if target.is_relative_to(top):
        return True
    folders = [folder for folder in top.parents if folder.name == _SNAPSHOTS]
    return bool(folders) and target.parent == folders[0].parent / _BLOBS
