"""pydantic's own errors in this form: of a missing field, an unknown one, a type or a bound.

Each is told in the terms of Python, or in those of the file that the data was read from.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails

from ._errors import custom_error, line_error, show, validation_error
from ._written import show_written

if TYPE_CHECKING:
    from ._base import SpecModel

_INTS = ("int_type", "int_from_float", "int_parsing")


def explained(
    model: "type[SpecModel]",
    error: ValidationError,
    more: Iterable[InitErrorDetails] = (),
    *,
    written: bool,
) -> ValidationError:
    """The same error, every line of pydantic's naming field, index, value, rule and remedy.

    `more` are further lines, and `written` is whether the data comes from a file.
    """
    lines = [
        _explain(model, details, written=written) for details in error.errors(include_url=False)
    ]
    return validation_error(error.title, [*lines, *more])


def not_an_object(value: object, name: str, *, written: bool) -> tuple[str, str]:
    """Fact and remedy of what is given for a model and is no data for one."""
    if written:
        return f"{_shown(value, written=True)} is no object of fields", "write its fields"
    fact = f"{show(value)} is not a dictionary or instance of {name}"
    return fact, "pass an object of fields"


def _explain(model: "type[SpecModel]", details: ErrorDetails, *, written: bool) -> InitErrorDetails:
    context: Mapping[str, Any] = details.get("ctx", {})
    kind, loc, value = details["type"], details["loc"], details["input"]
    remedy: str | None
    index = next((part for part in loc if isinstance(part, int)), None)
    names = [str(part) for part in loc if not isinstance(part, int)]
    field = ".".join(names) or model.__name__
    if "remedy" in context:  # written by a nested model: the outer one only adds to the location
        if kind == "model_type" and loc:  # the nested one knows no field that it would be in
            fact, told = context["fact"], context["remedy"]
            return line_error(kind, field, fact, told, value=value, index=index, loc=loc)
        error = custom_error(kind, details["msg"], dict(context))
        return InitErrorDetails(type=error, loc=loc, input=value)
    if kind == "missing":
        fact, value = "is required and was not given", None
        remedy = model.how_to_supply(names[-1], written=written)
    elif kind == "extra_forbidden":
        fact = f"is not a field of {model.__name__} (got {_shown(value, written=written)})"
        remedy = _nearest(field, model.model_fields)
    else:
        fact, remedy = _type_text(details, written=written)
        if remedy is None:
            meaning = f" ({model.meaning(names[0])})" if names else ""
            remedy = f"{'write' if written else 'pass'} a valid value{meaning}"
    return line_error(kind, field, fact, remedy, value=value, index=index, loc=loc)


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"the fields are {', '.join(names)}"


def _type_text(details: ErrorDetails, *, written: bool) -> tuple[str, str | None]:
    """Rule of pydantic's own type and bound errors; the remedy where the type alone decides it."""
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    got = _shown(value, written=written)
    if kind in _INTS and written:
        return f"{got} is not an integer", _written_int_remedy(value)
    if kind in _INTS:
        return f"{got} is not an int", _int_remedy(value)
    if kind == "tuple_type" and written:
        return f"{got} is not a list", None
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
    rule = details["msg"].replace("a valid ", "a ")
    for subject in ("Input ", "Value ", "String ", "Tuple "):
        rule = rule.removeprefix(subject)
    fact = f"{got} {rule.replace('should be', 'is not', 1)}"
    if kind == "literal_error" and isinstance(value, str):
        choices = str(context.get("expected", "")).replace(" or ", ", ").replace("'", "")
        close = get_close_matches(value[:64], choices.split(", "), n=1, cutoff=0.4)
        told = f"{'write' if written else 'pass'} one of those named"
        return fact, f"did you mean {close[0]!r}?" if close else told
    return fact, None


def _int_remedy(value: object) -> str | None:
    if isinstance(value, bool):
        return "a bool is no number here: pass the int that is meant"
    if hasattr(value, "tolist"):
        return "convert with .tolist() first (array.tolist() gives plain ints)"
    if isinstance(value, str):
        return "parse it with int(...) where it is read"
    return None


def _written_int_remedy(value: object) -> str | None:
    if isinstance(value, bool):
        return "true and false are no numbers here: write the number that is meant"
    if isinstance(value, str):
        return "write the number, without quotes"
    if isinstance(value, float):
        return "write it without a fraction or an exponent"
    return None


def _shown(value: object, *, written: bool) -> str:
    return show_written(value) if written else show(value)
