"""Plain data from YAML events: no tags, no merge keys, string keys once, aliases bounded.

Nothing here recurses, and every bound is checked before something is allocated for it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from .._findings import InputError
from .._text import shown
from ._document import Document, Place
from ._limits import MAX_DEPTH, MAX_YAML_VALUES, NumberError, encodes, input_error
from ._yaml_scalars import plain_scalar

_CORE_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"


class _Mark(Protocol):
    line: int


class Event(Protocol):
    """What the events of PyYAML have; each kind has some of it."""

    start_mark: _Mark
    anchor: str | None
    tag: str | None
    implicit: tuple[bool, bool]
    value: str


class _Node(NamedTuple):
    """A finished value: what an alias to it stands for."""

    value: object
    places: dict[str | int, Place]
    values: int
    """Values in it and itself, aliases expanded."""
    height: int
    """Containers on the way to the inmost value, itself included."""


@dataclass(slots=True, kw_only=True)
class _Container:
    """A list or mapping that is still open."""

    value: dict[str, object] | list[object]
    anchor: str | None = None
    values_before: int = 0
    places: dict[str | int, Place] = field(default_factory=dict)
    height: int = 1
    key: str | None = None
    """The key of the next value; None in a list, and where the next scalar is a key."""
    key_line: int = 0

    def put(self, value: object, places: dict[str | int, Place], line: int) -> None:
        if isinstance(self.value, list):
            self.places[len(self.value)] = Place(line, places)
            self.value.append(value)
        else:
            assert self.key is not None
            self.places[self.key] = Place(self.key_line, places)
            self.value[self.key] = value
            self.key = None


class Builder:
    """Takes the events of one YAML file and gives its document."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._root: list[object] = []
        self._open = [_Container(value=self._root)]  # the file as a list of documents
        self._anchors: dict[str, _Node] = {}
        self._values = 0

    def document(self) -> Document:
        """The document, when the last event was added.

        Raises:
            InputError: there was none.

        """
        if not self._root:
            raise input_error(self._name, None, "is empty", "pass a file with content")
        place = self._open[0].places[0]
        return Document(self._name, self._root[0], lambda: place)

    def add(self, event: Event) -> None:
        """Take the next event.

        Raises:
            InputError: it is more than plain data, or beyond a limit.

        """
        kind, line = type(event).__name__, event.start_mark.line + 1
        if kind == "ScalarEvent":
            self._scalar(event, line)
        elif kind == "AliasEvent":
            self._alias(event.anchor or "", line)
        elif kind == "SequenceStartEvent":
            self._start([], event, line)
        elif kind == "MappingStartEvent":
            self._start({}, event, line)
        elif kind in {"SequenceEndEvent", "MappingEndEvent"}:
            self._end()
        elif kind == "DocumentStartEvent" and self._root:
            fact = "a second document begins here"
            raise self._error(line, fact, "keep one document a file")

    def _scalar(self, event: Event, line: int) -> None:
        self._check_tag(event, line)
        value: object = event.value
        if not encodes(event.value):
            fact = f"{shown(event.value)} holds half of a surrogate pair"
            raise self._error(line, fact, "write the whole character")
        plain = event.implicit[0]
        if plain:
            try:
                value = plain_scalar(event.value)
            except NumberError as problem:
                raise self._error(line, problem.problem, problem.remedy) from None
        if event.anchor is not None:
            self._anchors[event.anchor] = _Node(value, {}, 1, 0)
        if self._needs_key():
            if plain and value == _MERGE:
                fact = "merge keys (<<) are not read"
                raise self._error(line, fact, "write the merged keys out")
            self._key(value, line)
        else:
            self._add_values(1, line)
            self._open[-1].put(value, {}, line)

    def _key(self, key: object, line: int) -> None:
        inmost = self._open[-1]
        if not isinstance(key, str):
            fact = f"the key {shown(str(key))} is not a string"
            raise self._error(line, fact, "quote it")
        before = inmost.places.get(key)
        if before is not None:
            fact = f"{shown(key)} is given twice, on line {before.line} and here"
            raise self._error(line, fact, "keep the one that is right")
        inmost.key, inmost.key_line = key, line

    def _start(self, value: dict[str, object] | list[object], event: Event, line: int) -> None:
        self._check_tag(event, line)
        self._check_is_value(line)
        self._check_depth(1, line)
        inner = _Container(value=value, anchor=event.anchor, values_before=self._values)
        self._add_values(1, line)
        self._open[-1].put(value, inner.places, line)
        self._open.append(inner)

    def _end(self) -> None:
        closed = self._open.pop()
        outer = self._open[-1]
        outer.height = max(outer.height, closed.height + 1)
        if closed.anchor is not None:
            values = self._values - closed.values_before
            self._anchors[closed.anchor] = _Node(closed.value, closed.places, values, closed.height)

    def _alias(self, anchor: str, line: int) -> None:
        self._check_is_value(line)
        alias = shown(f"*{anchor}")
        if any(container.anchor == anchor for container in self._open):
            fact = f"the alias {alias} stands in what it stands for"
            raise self._error(line, fact, "write the value out")
        node = self._anchors.get(anchor)
        if node is None:
            fact = f"the alias {alias} has no anchor above it"
            raise self._error(line, fact, "write the value out")
        self._check_depth(node.height, line)
        self._add_values(node.values, line)
        outer = self._open[-1]
        outer.put(node.value, node.places, line)
        outer.height = max(outer.height, node.height + 1)

    def _needs_key(self) -> bool:
        return isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _check_is_value(self, line: int) -> None:
        if self._needs_key():
            fact = "a key is a list, a mapping or an alias"
            raise self._error(line, fact, "write a string as the key")

    def _check_tag(self, event: Event, line: int) -> None:
        if event.tag is not None:
            tag = event.tag
            if tag.startswith(_CORE_TAG):
                tag = f"!!{tag.removeprefix(_CORE_TAG)}"
            fact = f"the tag {shown(tag)} is not read"
            raise self._error(line, fact, "remove it and write plain data")

    def _check_depth(self, height: int, line: int) -> None:
        if len(self._open) - 1 + height > MAX_DEPTH:
            fact = f"is nested more than {MAX_DEPTH} levels deep"
            raise self._error(line, fact, "flatten it")

    def _add_values(self, count: int, line: int) -> None:
        self._values += count
        if self._values > MAX_YAML_VALUES:
            fact = f"holds more than {MAX_YAML_VALUES} values, aliases expanded"
            raise self._error(line, fact, "pass the file that is meant")

    def _error(self, line: int, fact: str, remedy: str) -> InputError:
        return input_error(self._name, line, fact, remedy)
