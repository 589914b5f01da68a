"""Data that was written in a file: its lists are arrays, and what is wrong is told in its terms."""

from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationInfo

from ._errors import show

if TYPE_CHECKING:
    from ._base import SpecModel

_Model = TypeVar("_Model", bound="SpecModel")

WRITTEN: Final = object()
"""The validation context of data from a file."""


def validate_written(model: type[_Model], data: object) -> _Model:
    """The model of data from a file.

    Raises ``pydantic.ValidationError`` as ``model_validate`` does, in the terms of files.
    """
    return model.model_validate(with_tuples(data), context=WRITTEN)


def is_written(info: ValidationInfo) -> bool:
    """Whether what is validated comes from a file or from JSON."""
    return info.mode == "json" or info.context is WRITTEN


def with_tuples(data: Any) -> Any:
    """The data with arrays as tuples: models are strict, and hold no lists."""
    if isinstance(data, list):
        return tuple(with_tuples(item) for item in data)
    if isinstance(data, dict):
        return {key: with_tuples(item) for key, item in data.items()}
    return data


def show_written(value: object) -> str:
    """Short text of a value, in the words of files."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, tuple | list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    return show(value)
