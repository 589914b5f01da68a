"""The base of every model: frozen, strict, closed, and without a way round its validation."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pydantic import BaseModel, GetJsonSchemaHandler, ModelWrapValidatorHandler, ValidationError, ValidationInfo, model_validator
from pydantic_core import CoreSchema, InitErrorDetails

from ._errors import explained, line_error, validation_error

_CONFIG = {"frozen": True, "strict": True, "extra": "forbid", "validate_default": True}


def _rebuild(model: "type[SpecModel]", fields: dict[str, Any]) -> "SpecModel":
    """Unpickle: the stored fields are validated as if they had just been given."""
    return model.model_validate(fields)


def _with_tuples(data: Any) -> Any:
    """JSON data with its arrays as tuples: a wrap validator hands Python objects on, where strict means a tuple."""
    if isinstance(data, list):
        return tuple(_with_tuples(item) for item in data)
    if isinstance(data, dict):
        return {key: _with_tuples(item) for key, item in data.items()}
    return data


class SpecModel(
    BaseModel, frozen=True, strict=True, extra="forbid", validate_default=True, hide_input_in_errors=True
):
    """Immutable, strictly typed model whose every public construction path validates.

    Construction, ``model_validate``, ``model_validate_json``, ``model_copy(update=...)``, ``model_construct``,
    ``copy.replace`` and unpickling all run the same rules and raise ``pydantic.ValidationError``. Copies and deep
    copies are the object itself: it holds only ints, strings, tuples and other such models. Leaf models cannot be
    subclassed, and no subclass can loosen the configuration.

    What Python cannot stop: ``object.__setattr__(model, ...)``, writing to ``model.__dict__``, and an empty
    ``Model.__new__(Model)`` reach past every class. They are deliberate sabotage rather than a mistake, and nothing
    here tries to detect them. The same holds for ``TypeAdapter(Model).validate_python(data, strict=False)``, which
    converts types by explicit request; every rule on the converted values still runs.
    """

    how_to_build: ClassVar[str] = "pass it by keyword"
    defined_in: ClassVar[str] = __name__

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for base in cls.__mro__[1:]:
            if base.__dict__.get("__final__"):
                raise TypeError(f"{cls.__name__} cannot subclass {base.__name__}: it is final; compose it instead")
        for key, required in _CONFIG.items():
            if cls.model_config.get(key) != required:
                raise TypeError(f"{cls.__name__} must keep {key}={required!r}: specmeta models cannot be loosened")
        cls.defined_in = cls.__module__

    @model_validator(mode="wrap")
    @classmethod
    def _run_rules(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        if info.mode == "json":
            data = _with_tuples(data)
        if type(data) is cls:  # valid since it was built, and immutable: a nested model costs its parent nothing
            return cast(Self, data)
        try:
            model = handler(data)
        except ValidationError as error:
            raise explained(cls, error) from None
        problems = model._problems()
        if problems:
            raise validation_error(cls.__name__, problems)
        return model

    def _problems(self) -> list[InitErrorDetails]:
        """Violations of the rules between fields; leaves extend it."""
        return []

    @classmethod
    def how_to_supply(cls, field: str) -> str:
        """Remedy for a missing field."""
        return f"{cls.how_to_build}"

    if not TYPE_CHECKING:  # a visible __setattr__ would make checkers accept any assignment

        def __setattr__(self, name: str, value: Any) -> None:
            raise self._frozen(name, value)

        def __delattr__(self, name: str) -> None:
            raise self._frozen(name, None)

    def _frozen(self, name: str, value: object) -> ValidationError:
        remedy = "build a new object: model_copy(update={...}) validates, and metadata has with_batch(...)"
        fact = f"{type(self).__name__} is immutable and cannot be changed"
        return validation_error(
            type(self).__name__, [line_error("frozen_instance", name, fact, remedy, value=value)]
        )

    @classmethod
    def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
        """Validate and build; unlike pydantic's, this cannot skip the rules (`_fields_set` is not used)."""
        return cls.model_validate(values)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """This object with some fields replaced, validated; itself where nothing is replaced."""
        return type(self).model_validate({**self.__dict__, **update}) if update else self

    def __replace__(self, **changes: Any) -> Self:
        return self.model_copy(update=changes)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[..., "SpecModel"], tuple[type["SpecModel"], dict[str, Any]]]:
        return _rebuild, (type(self), dict(self.__dict__))
