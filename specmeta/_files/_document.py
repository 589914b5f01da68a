"""A document: plain data, and the line on which each key of it was written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

_NOTHING: "Mapping[str | int, Place]" = MappingProxyType({})


class Place(NamedTuple):
    """Where a value was written, and the values in it by key or index."""

    line: int
    """Line of its key, or of the element in a list, from 1."""
    children: "Mapping[str | int, Place]" = _NOTHING


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Document:
    """What a file holds. Treat `data` as immutable: parts of it may be shared."""

    name: str
    """The file as messages name it, or ``<stdin>``."""
    data: object
    """dict, list, str, int, float, bool or None, nested."""
    places: Callable[[], Place] | None = None
    """Gives the place of the whole document; None where the format has no lines."""

    def line_of(self, path: tuple[str | int, ...]) -> int | None:
        """Line of the key at this path, of the element for an index; from 1.

        Where the path leads to nothing, the line of the nearest value around it. None where the
        format has no lines.
        """
        if self.places is None:
            return None
        place = self.places()
        for part in path:
            inner = place.children.get(part)
            if inner is None:
                break
            place = inner
        return place.line

    def __repr__(self) -> str:
        return f"Document({self.name!r})"
