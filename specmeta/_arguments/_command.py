"""The command that starts an engine, as a document of its flags."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .._files import Document
from .._findings import Path
from ._words import Word


class Repeat(NamedTuple):
    """The first value of a flag that is given again with another; the last is in the data."""

    value: object
    line: int


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Command(Document):
    """The flags of a command, ``--max-num-seqs 16`` as the key ``max-num-seqs``."""

    engine_name: str | None
    """The engine that its program is; None for flags alone."""
    texts: Mapping[Path, str]
    """Values as they are written, of flags that have one."""
    repeats: Mapping[Path, Repeat]
    """Flags with different values."""
    expanded: frozenset[Path]
    """Flags that a shell puts something into, which is not known."""
    unread: tuple[Word, ...]
    """Words that a shell turns into further flags."""

    def is_expanded(self, path: Path, value: object) -> bool:
        """Whether a shell puts something into the value of a flag, or of a field in its object."""
        if not isinstance(value, str) or not ("$" in value or "`" in value):
            return False
        return any(path[:end] in self.expanded for end in range(1, len(path) + 1))
