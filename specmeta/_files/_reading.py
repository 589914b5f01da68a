"""Files from disk: regular ones only, bounded, and inside the directory that names them."""

import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .._findings import InputError
from ._limits import MAX_DOCUMENT_BYTES, input_error, size
from ._paths import is_inside, shown_path

_NO_NAME = "cannot be read (no file can have this name)"
_CHECK = "check the path and its permissions"
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_bytes(path: Path, *, limit: int = MAX_DOCUMENT_BYTES, root: Path | None = None) -> bytes:
    """The content of a regular file.

    Raises:
        InputError: missing, unreadable, not a regular file, too large, or outside `root`.

    """
    with open_file(path, limit=limit, root=root) as file:
        return read_stream(file, shown_path(path), limit=limit)


def read_stream(stream: BinaryIO, name: str, *, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """The rest of a stream, of which no more than the limit and one byte is read.

    Raises:
        InputError: it cannot be read, or holds more.

    """
    try:
        content = stream.read(limit + 1)
    except OSError as problem:
        raise unreadable(name, problem) from None
    if len(content) > limit:
        fact = f"holds more than the limit of {size(limit)}"
        raise input_error(name, None, fact, "pass the file that is meant")
    return content


def open_file(path: Path, *, limit: int | None = None, root: Path | None = None) -> BinaryIO:
    """A regular file, opened for reading; its size is checked before that.

    Raises:
        InputError: missing, unreadable, not a regular file, too large, or outside `root`.

    """
    name = shown_path(path)
    with _told(name):
        found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        kind = next((kind for is_kind, kind in _KINDS if is_kind(found.st_mode)), "a special file")
        fact = f"is {kind}, not a regular file"
        raise input_error(name, None, fact, "pass the path of the file itself")
    if limit is not None and found.st_size > limit:
        fact = f"holds {size(found.st_size)}, more than the limit of {size(limit)}"
        raise input_error(name, None, fact, "pass the file that is meant")
    if root is not None:
        check_inside(path, (root,), "put the file itself into the directory")
    with _told(name):
        return path.open("rb")


def check_inside(path: Path, roots: Sequence[Path], remedy: str) -> None:
    """Refuse a path that leads, its links followed, into none of these directories.

    Raises:
        InputError: it leads elsewhere, or to nothing.

    """
    name = shown_path(path)
    with _told(name):
        target = Path(os.path.realpath(path, strict=True))
    if not any(is_inside(root, target) for root in roots):
        fact = f"leads out of {shown_path(roots[0])}, to {shown_path(target)}"
        raise input_error(name, None, fact, remedy)


def names_in(directory: Path) -> list[str]:
    """The names in a directory, sorted.

    Raises:
        InputError: there is no such directory, or it cannot be read.

    """
    with _told(shown_path(directory)):
        return sorted(entry.name for entry in directory.iterdir())


@contextmanager
def _told(name: str) -> Generator[None]:
    """Tell what the operating system says of a path as the error of its file."""
    try:
        yield
    except OSError as problem:
        raise unreadable(name, problem) from None
    except ValueError:  # a NUL byte
        raise input_error(name, None, _NO_NAME, _CHECK) from None


def unreadable(name: str, problem: OSError) -> InputError:
    """The error of a file that the operating system does not give."""
    reason = problem.strerror or str(problem)
    return input_error(name, None, f"cannot be read ({reason})", _CHECK)
