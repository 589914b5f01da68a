"""JSON as RFC 8259 has it: unique keys, finite numbers of at most 64 bits, bounded depth.

The standard library parses, at C speed. Lines are found only when a message needs one, by a pass
over the text; a document without a finding never pays for it.
"""

import re
from collections.abc import Iterator
from functools import cache, partial
from json import JSONDecodeError, JSONDecoder
from typing import NamedTuple

from .._text import shown
from ._document import Document, Place
from ._limits import (
    MAX_DEPTH,
    MAX_DOCUMENT_BYTES,
    MAX_JSON_VALUES,
    NumberError,
    decimal,
    decode,
    encodes,
    input_error,
    integer,
    not_finite,
    size,
)

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRUCTURE = re.compile(rf"{_STRING}|[][{{}},]")
_TOKEN = re.compile(rf'{_STRING}|[][{{}}:,]|\n|[^][{{}}:,\s"]+')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_FETCH_AGAIN = "correct it there, or fetch the file again if it is cut off"


class _DuplicateError(ValueError):
    """An object with a key twice; the pass over the text says which."""


class _Text(NamedTuple):
    """The text of a document, which begins on a line of its file."""

    name: str
    text: str
    first_line: int

    def line(self, position: int) -> int:
        return self.first_line + self.text.count("\n", 0, position)


def parse_json(content: bytes, name: str, *, first_line: int = 1) -> Document:
    """The document of a JSON text, which begins on `first_line` of its file.

    Raises:
        InputError: not valid JSON, or beyond a limit.

    """
    return parse(content, name, MAX_DOCUMENT_BYTES, MAX_JSON_VALUES, first_line=first_line)


def parse(
    content: bytes, name: str, limit: int, most_values: int, *, first_line: int = 1
) -> Document:
    """As `parse_json`, with limits on the size of the text and on the number of its values.

    Raises:
        InputError: not valid JSON, or beyond a limit.

    """
    if len(content) > limit:
        fact = f"holds {size(len(content))} of JSON, more than the limit of {size(limit)}"
        raise input_error(name, None, fact, "pass the file that is meant")
    source = _Text(name, decode(content, name, first_line), first_line)
    _check_bounds(source, most_values)
    data = _parse(source)
    if _SURROGATE.search(source.text):
        _check_surrogates(source)
    return Document(name, data, cache(partial(_places, source)))


def _parse(source: _Text) -> object:
    try:
        return _DECODER.decode(source.text)
    except NumberError as problem:
        line = next((line for token, line in _tokens(source) if token == problem.text), None)
        raise input_error(source.name, line, problem.problem, problem.remedy) from None
    except _DuplicateError:
        _places(source)  # raises, with the lines of both
        raise
    except JSONDecodeError as problem:
        column = problem.pos - source.text.rfind("\n", 0, problem.pos)
        line = source.line(problem.pos)
        if problem.msg == "Extra data":
            fact = f"goes on behind its end, at column {column}"
            raise input_error(source.name, line, fact, "keep one JSON value") from None
        reason = problem.msg.removesuffix(" at")
        fact = f"is not valid JSON ({reason} at column {column})"
        raise input_error(source.name, line, fact, _FETCH_AGAIN) from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _DuplicateError
    return result


def _constant(text: str) -> object:
    raise not_finite(text)


_DECODER = JSONDecoder(
    object_pairs_hook=_object, parse_int=integer, parse_float=decimal, parse_constant=_constant
)


def _check_bounds(source: _Text, most_values: int) -> None:
    """Bound depth and number of values before the parser allocates anything for them."""
    text = source.text
    openers = text.count("[") + text.count("{")
    if openers <= MAX_DEPTH and openers + text.count(",") < most_values:
        return
    depth, values = 0, 1
    for match in _STRUCTURE.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            values += 1
            if depth > MAX_DEPTH:
                fact = f"is nested more than {MAX_DEPTH} levels deep"
                raise input_error(source.name, source.line(match.start()), fact, "flatten it")
        elif token in "]}":
            depth -= 1
        elif token == ",":
            values += 1
        if values > most_values:
            fact = f"holds more than {most_values} values"
            remedy = "pass the file that is meant"
            raise input_error(source.name, source.line(match.start()), fact, remedy)


def _check_surrogates(source: _Text) -> None:
    """Refuse a string that could not be printed in a message."""
    for token, line in _tokens(source):
        if token[0] == '"' and _SURROGATE.search(token) and not encodes(_DECODER.decode(token)):
            fact = f"{shown(token[1:-1])} holds half of a surrogate pair"
            raise input_error(source.name, line, fact, "write the whole character")


def _tokens(source: _Text) -> Iterator[tuple[str, int]]:
    """Tokens of a text that is valid as far as they are asked for, each with its line."""
    line = source.first_line
    for match in _TOKEN.finditer(source.text):
        token = match[0]
        if token != "\n":
            yield token, line
        else:
            line += 1


def _places(source: _Text) -> Place:
    """Places of all values.

    Raises:
        InputError: an object has a key twice.

    """
    root: dict[str | int, Place] = {}
    open_: list[dict[str | int, Place]] = [root]  # the containers around the next token
    keys: list[str | int | None] = [0]  # the next value's key or index in each; None: a key is next
    key_line = source.first_line
    scalar = Place(key_line)  # shared by the scalars of a line
    for token, line in _tokens(source):
        key = keys[-1]
        if token == ",":
            keys[-1] = len(open_[-1]) if isinstance(key, int) else None
        elif token in "]}":
            open_.pop()
            keys.pop()
        elif token == ":":
            continue
        elif key is None:
            name = str(_DECODER.decode(token))
            before = open_[-1].get(name)
            if before is not None:
                fact = f"{shown(name)} is given twice, on line {before.line} and here"
                raise input_error(source.name, line, fact, "keep the one that is right")
            keys[-1], key_line = name, line
        else:
            at = line if isinstance(key, int) else key_line
            if token in "[{":
                inside: dict[str | int, Place] = {}
                open_[-1][key] = Place(at, inside)
                open_.append(inside)
                keys.append(0 if token == "[" else None)
            else:
                if scalar.line != at:
                    scalar = Place(at)
                open_[-1][key] = scalar
    return root[0]
