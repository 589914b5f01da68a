"""One form for every validation error: field, index, value, rule, remedy.

Every model raises ``pydantic.ValidationError``. Each of its errors has a stable snake_case
``type``, a ``loc`` of field and index, and a ``ctx`` with ``field``, ``index``, ``value``, ``fact``
and ``remedy``. pydantic's own errors (a missing field, an unknown one, a wrong type) are rewritten
into the same form by `_explained.explained`.
"""

from collections.abc import Callable, Iterable

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from ._text import named, printable, shown

_PLAIN = (int, float, bytes, bool, type(None))
_LONGEST = 60
_WIDEST = 128


def show(value: object) -> str:
    """Short text of a value, without the repr of large objects: a device tensor's synchronises."""
    kind = type(value)
    if kind is str:
        return shown(str(value))
    if isinstance(value, int) and value.bit_length() > _WIDEST:  # a very long int has no repr
        return f"an int of {value.bit_length()} bits"
    if kind in _PLAIN:
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    if isinstance(value, list | tuple | dict | set | frozenset):
        return f"a {kind.__name__} of {len(value)}"
    if kind.__module__ == "numpy" and not getattr(value, "shape", (0,)):
        return repr(value)
    return f"an object of type {kind.__module__}.{kind.__qualname__}"


def plain(value: object) -> object:
    """The value where JSON can hold it, else its text, so that every error can be written as JSON,
    be pickled, and keeps no tensor alive.
    """
    if isinstance(value, str):
        return _unicode(value)
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return show(value)
    if isinstance(value, list | tuple):  # whatever the list was written as
        return f"{len(value)} items"
    return value if type(value) in (int, float, bool, type(None)) else show(value)


def _unicode(text: str) -> str:
    """The text with lone surrogates escaped: pydantic's errors cannot hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


# pydantic asks for literal strings, which a table of rules cannot give.
custom_error: Callable[..., PydanticCustomError] = PydanticCustomError


def line_error(
    kind: str,
    field: str,
    fact: str,
    remedy: str,
    *,
    value: object,
    index: int | None = None,
    loc: tuple[int | str, ...] | None = None,
) -> InitErrorDetails:
    """One error line ``field[index]: fact; remedy``; ``loc`` defaults to field and index."""
    field = _unicode(field)
    if loc is None:
        names = tuple(field.split("."))
        loc = names if index is None else (*names, index)
    fact, remedy = printable(fact), printable(remedy)
    place = named(field) if index is None else f"{named(field)}[{index}]"
    context = {
        "field": field, "index": index, "value": plain(value), "fact": fact, "remedy": remedy
    }  # fmt: skip
    error = custom_error(kind, f"{place}: {fact}; {remedy}", context)
    loc = tuple(_unicode(part) if isinstance(part, str) else part for part in loc)
    return InitErrorDetails(type=error, loc=loc, input=plain(value))


def validation_error(title: str, lines: Iterable[InitErrorDetails]) -> ValidationError:
    """A ``ValidationError`` of these lines, without pydantic's copy of the input behind each."""
    return ValidationError.from_exception_data(title, list(lines), hide_input=True)
