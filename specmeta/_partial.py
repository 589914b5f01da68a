"""What can be said of data that is no valid model: of its unknown keys, and by the rules that need
only its valid fields.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails

from ._errors import line_error

if TYPE_CHECKING:
    from ._base import SpecModel


_Model = TypeVar("_Model", bound="SpecModel")


class FieldAbsentError(AttributeError):
    """A rule reads a field that an invalid object lacks."""


MOST_UNKNOWN = 32
"""Unknown keys of one object that are reported one by one."""


def without_surplus(
    data: Mapping[str, Any], model: "type[SpecModel]"
) -> tuple[Mapping[str, Any], Iterable[InitErrorDetails]]:
    """The data with no more than `MOST_UNKNOWN` unknown keys, and the error for the others."""
    surplus = [key for key in data if key not in model.model_fields][MOST_UNKNOWN:]
    if not surplus:
        return data, ()
    fact, remedy = surplus_text(len(surplus), model.__name__)
    line = line_error("extra_forbidden", model.__name__, fact, remedy, value=len(surplus), loc=())
    left = {*surplus}
    return {key: value for key, value in data.items() if key not in left}, (line,)


def surplus_text(count: int, what: str) -> tuple[str, str]:
    """Fact and remedy of unknown keys that are not reported one by one."""
    return f"{count} more keys are unknown too", f"remove what {what} does not have"


def rules_of_valid(
    model: "type[SpecModel]", data: Mapping[str, Any], error: ValidationError
) -> list[InitErrorDetails]:
    """Violations of the model's rules that read none of the fields that the error is about."""
    found: list[InitErrorDetails] = []
    for check in valid_fields(model, data, error).checks():
        found.extend(as_far_as_there(check))
    return found


def valid_fields(
    model: type[_Model], data: Mapping[str, Any], error: ValidationError, *without: str
) -> _Model:
    """An object with the fields alone that neither the error nor `without` is about; reading
    another one raises `FieldAbsentError`.
    """
    lines = error.errors(include_url=False, include_context=False, include_input=False)
    wrong = {*without, *(line["loc"][0] for line in lines if line["loc"])}
    partial = model.__new__(model)
    vars(partial).update(
        {
            name: _built(model, name, data[name]) if name in data else field.default
            for name, field in model.model_fields.items()
            if name not in wrong
        }
    )
    return partial


def as_far_as_there(check: Iterable[InitErrorDetails]) -> Iterator[InitErrorDetails]:
    """What a rule finds, up to where it reads a field that is not there."""
    with suppress(FieldAbsentError):
        yield from check


def _built(model: "type[SpecModel]", name: str, value: Any) -> Any:
    """A valid value; a nested model that was given as data is built again."""
    first = value[0] if isinstance(value, tuple) and value else value
    return _nested(model, name).validate_python(value) if isinstance(first, dict) else value


@cache
def _nested(model: "type[SpecModel]", name: str) -> TypeAdapter[Any]:
    field = model.model_fields[name]
    annotated: Any = Annotated[field.annotation, field]
    return TypeAdapter(annotated)
