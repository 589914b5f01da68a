"""One form for every validation error: field, index, value, rule, remedy.

Every model raises ``pydantic.ValidationError``. Each of its errors has a stable snake_case
``type``, a ``loc`` of field and index, and a ``ctx`` with ``field``, ``index``, ``value`` and
``remedy``. pydantic's own errors (a missing field, an unknown one, a wrong type) are rewritten into
the same form by `explained`.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

if TYPE_CHECKING:
    from ._base import SpecModel

_PLAIN = (int, float, str, bytes, bool, type(None))
_LONGEST = 60
_WIDEST = 128


def show(value: object) -> str:
    """Short text of a value, without the repr of large objects: a device tensor's synchronises."""
    kind = type(value)
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
    return value if type(value) in (int, float, bool, type(None)) else show(value)


def _unicode(text: str) -> str:
    """The text with lone surrogates escaped: pydantic's errors cannot hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


# pydantic asks for literal strings, which a table of rules cannot give.
_custom_error: Callable[..., PydanticCustomError] = PydanticCustomError


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
    place = field if index is None else f"{field}[{index}]"
    context = {"field": field, "index": index, "value": plain(value), "remedy": remedy}
    error = _custom_error(kind, f"{place}: {fact}; {remedy}", context)
    loc = tuple(_unicode(part) if isinstance(part, str) else part for part in loc)
    return InitErrorDetails(type=error, loc=loc, input=plain(value))


def validation_error(title: str, lines: Iterable[InitErrorDetails]) -> ValidationError:
    """A ``ValidationError`` of these lines, without pydantic's copy of the input behind each."""
    return ValidationError.from_exception_data(title, list(lines), hide_input=True)


def explained(model: "type[SpecModel]", error: ValidationError) -> ValidationError:
    """The same error, every line of pydantic's naming field, index, value, rule and remedy."""
    lines = [_explain(model, details) for details in error.errors(include_url=False)]
    return validation_error(error.title, lines)


def _explain(model: "type[SpecModel]", details: ErrorDetails) -> InitErrorDetails:
    context: Mapping[str, Any] = details.get("ctx", {})
    kind, loc, value = details["type"], details["loc"], details["input"]
    remedy: str | None
    index = next((part for part in loc if isinstance(part, int)), None)
    names = [str(part) for part in loc if not isinstance(part, int)]
    field = ".".join(names) or model.__name__
    if "remedy" in context:  # written by a nested model: the outer one only adds to the location
        if kind == "model_type" and loc:  # the nested one knows no field that it would be in
            fact = details["msg"].removeprefix(f"{context['field']}: ").split("; ")[0]
            told = context["remedy"]
            return line_error(kind, field, fact, told, value=value, index=index, loc=loc)
        error = _custom_error(kind, details["msg"], dict(context))
        return InitErrorDetails(type=error, loc=loc, input=value)
    if kind == "missing":
        fact, remedy, value = "is required and was not given", model.how_to_supply(names[-1]), None
    elif kind == "extra_forbidden":
        fact = f"is not a field of {model.__name__} (got {show(value)})"
        remedy = _nearest(field, model.model_fields)
    else:
        fact, remedy = _type_text(details)
        if remedy is None:
            wanted = (
                f"a valid value ({model.meaning(names[0])})" if names else "an object of fields"
            )
            remedy = f"pass {wanted}"
    return line_error(kind, field, fact, remedy, value=value, index=index, loc=loc)


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"the fields are {', '.join(names)}"


def _type_text(details: ErrorDetails) -> tuple[str, str | None]:
    """Rule of pydantic's own type and bound errors; the remedy where the type alone decides it."""
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    got = show(value)
    if kind in ("int_type", "int_from_float", "int_parsing"):
        return f"{got} is not an int", _int_remedy(value)
    if kind == "tuple_type":
        is_sequence = isinstance(value, list | set | frozenset)
        return f"{got} is not a tuple", "convert it with tuple(...)" if is_sequence else None
    if kind == "union_tag_not_found":
        return f"{got} has no decoding_type", 'add decoding_type: "DSpark", "DFlash" or "MTP"'
    if kind == "union_tag_invalid":
        fact = f"decoding_type {context.get('tag')!r} is unknown"
        return fact, f"use one of {context.get('expected_tags')}"
    if kind == "json_invalid":
        return details["msg"], "pass one JSON object"
    if kind == "invalid_key":
        return f"{got} is not a string", "name the fields with strings"
    rule = details["msg"].removeprefix("Input ").removeprefix("Value ").replace("a valid ", "a ")
    fact = f"{got} {rule.replace('should be', 'is not', 1)}"
    if kind == "literal_error" and isinstance(value, str):
        choices = str(context.get("expected", "")).replace(" or ", ", ").replace("'", "")
        close = get_close_matches(value, choices.split(", "), n=1, cutoff=0.4)
        return fact, f"did you mean {close[0]!r}?" if close else "pass one of those named"
    return fact, None


def _int_remedy(value: object) -> str | None:
    if isinstance(value, bool):
        return "a bool is no number here: pass the int that is meant"
    if hasattr(value, "tolist"):
        return "convert with .tolist() first (array.tolist() gives plain ints)"
    if isinstance(value, str):
        return "parse it with int(...) where it is read"
    return None
