"""One argument with the place where it was written, and what has been read so far."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .._findings import Finding, Origin, Path

if TYPE_CHECKING:
    from .._files import Document


class Unchecked(NamedTuple):
    """An argument that changes speculation in a way that the contracts do not describe."""

    neutral: object
    """Value that changes nothing."""
    effect: str
    """What any other one does."""


class Found(NamedTuple):
    """One argument: its value and where it was written."""

    value: object
    origin: Origin


class Count(NamedTuple):
    """An argument that is a positive whole number."""

    value: int
    """The number."""
    origin: Origin
    """Where it was written."""


class Counts(NamedTuple):
    """An argument that holds several whole numbers."""

    value: tuple[int, ...]
    """The numbers."""
    origin: Origin
    """Where they were written."""


@dataclass(slots=True)
class Reading:
    """What has been read of a document so far."""

    document: "Document"
    engine: str
    """Name of the engine, as messages have it."""
    origins: dict[Path, Origin] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
