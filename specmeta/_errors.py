"""One form for every validation error: field, index, value, rule, remedy.

Every model raises ``pydantic.ValidationError``. Each of its errors has a stable snake_case ``type``, a ``loc`` of field
and index, and a ``ctx`` with ``field``, ``index``, ``value`` and ``remedy``. pydantic's own errors (a missing field, an
unknown one, a wrong type) are rewritten into the same form by `explained`.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

if TYPE_CHECKING:
    from ._base import SpecModel

_PLAIN = (int, float, str, bytes, bool, type(None))
_LONGEST = 60


def show(value: object) -> str:
    """Text of a value that is short, and safe for objects whose repr is dear (a device tensor would synchronise)."""
    kind = type(value)
    if kind in _PLAIN:
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    if isinstance(value, list | tuple | dict | set | frozenset):
        return f"a {kind.__name__} of {len(value)}"
    if kind.__module__ == "numpy" and not getattr(value, "shape", (0,)):
        return repr(value)
    return f"an object of type {kind.__module__}.{kind.__qualname__}"


def _plain(value: object) -> object:
    """The value itself where JSON can hold it, else its text: ``ValidationError.json()`` prints the context."""
    return value if type(value) in (int, float, str, bool, type(None)) else show(value)


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
    if loc is None:
        names = tuple(field.split("."))
        loc = names if index is None else (*names, index)
    place = field if index is None else f"{field}[{index}]"
    context = {"field": field, "index": index, "value": _plain(value), "remedy": remedy}
    # Braces are doubled nowhere: the template only substitutes names that are in the context.
    error = PydanticCustomError(kind, f"{place}: {fact}; {remedy}", context)  # type: ignore[arg-type]  # LiteralString
    return InitErrorDetails(type=error, loc=loc, input=value)


def validation_error(title: str, lines: Iterable[InitErrorDetails]) -> ValidationError:
    """A ``ValidationError`` of these lines, without pydantic's copy of the input behind each."""
    return ValidationError.from_exception_data(title, list(lines), hide_input=True)


def explained(model: "type[SpecModel]", error: ValidationError) -> ValidationError:
    """The same error with every pydantic line rewritten to name field, index, value, rule and remedy."""
    lines = [_explain(model, details) for details in error.errors(include_url=False)]
    return validation_error(error.title, lines)


def _explain(model: "type[SpecModel]", details: ErrorDetails) -> InitErrorDetails:
    context: Mapping[str, Any] = details.get("ctx", {})
    kind, loc, value = details["type"], details["loc"], details["input"]
    if "remedy" in context:  # written by a nested model: the outer one only adds to the location
        error = PydanticCustomError(kind, details["msg"], dict(context))  # type: ignore[arg-type]  # LiteralString
        return InitErrorDetails(type=error, loc=loc, input=value)
    index = loc[-1] if loc and isinstance(loc[-1], int) else None
    names = [str(part) for part in loc if not isinstance(part, int)]
    field = ".".join(names) or model.__name__
    if kind == "missing":
        return line_error(
            kind, field, "is required and was not given", model.how_to_supply(names[-1]), value=None, loc=loc
        )
    if kind == "extra_forbidden":
        fact = f"is not a field of {model.__name__} (got {show(value)})"
        return line_error(kind, field, fact, _nearest(field, model.model_fields), value=value, loc=loc)
    fact, remedy = _type_text(kind, value, details["msg"], context)
    return line_error(kind, field, fact, remedy, value=value, index=index, loc=loc)


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"the fields are {', '.join(names)}"


def _type_text(kind: str, value: object, message: str, context: Mapping[str, Any]) -> tuple[str, str]:
    """Rule and remedy for pydantic's own type and bound errors."""
    got = show(value)
    rule = message.removeprefix("Input ").removeprefix("Value ")
    rule = rule.replace("should be", "must be").replace("valid ", "")
    fact = f"{got}: {rule[:1].lower()}{rule[1:]}"
    if kind in ("int_type", "int_from_float", "int_parsing"):
        return f"{got} is not an int", _int_remedy(value)
    if kind == "tuple_type":
        remedy = "convert it with tuple(...)" if isinstance(value, list | set | frozenset) else "pass a tuple"
        return f"{got} is not a tuple", remedy
    if kind == "literal_error":
        if isinstance(value, str):
            choices = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ").split(", ")
            close = get_close_matches(value, choices, n=1, cutoff=0.4)
            if close:
                return fact, f"did you mean {close[0]!r}?"
        return fact, "pass one of the values named"
    if kind == "union_tag_not_found":
        return f"{got} has no decoding_type", 'add "decoding_type": one of "DSpark", "DFlash", "MTP"'
    if kind == "union_tag_invalid":
        return f"decoding_type {context.get('tag')!r} is unknown", f"use one of {context.get('expected_tags')}"
    if kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        return f"{got} {rule.replace('must be', 'must be', 1)}", "pass a value within the bound"
    if kind.startswith("model_"):
        return fact, "pass that model itself, or a mapping of its fields"
    return fact, "pass a value of that type"


def _int_remedy(value: object) -> str:
    if isinstance(value, bool):
        return "a bool is not a number here: pass the int that is meant"
    if hasattr(value, "tolist"):
        return "convert with .tolist() first (array.tolist() gives plain ints)"
    if isinstance(value, str):
        return "parse it with int(...) where it is read"
    return "pass a plain int"
