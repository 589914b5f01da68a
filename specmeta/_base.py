"""The base of every model: frozen, strict, closed, and without a way round its validation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pydantic import (
    BaseModel,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails

from ._docs import SOURCE, field_docs
from ._errors import line_error, validation_error
from ._explained import explained, not_an_object
from ._partial import MOST_UNKNOWN, FieldAbsentError, rules_of_valid, without_surplus
from ._written import is_written, with_tuples

_CONFIG = {"frozen": True, "strict": True, "extra": "forbid", "validate_default": True}


def _rebuild(model: "type[SpecModel]", fields: dict[str, Any]) -> "SpecModel":
    """Unpickle: the stored fields are validated as if they had just been given."""
    return model.model_validate(fields)


class SpecModel(
    BaseModel,
    frozen=True,
    strict=True,
    extra="forbid",
    validate_default=True,
    hide_input_in_errors=True,
):
    """Immutable, strictly typed model whose every public construction path validates.

    Construction, ``model_validate``, ``model_validate_json``, ``model_copy(update=...)``,
    ``model_construct``, ``copy.replace`` and unpickling all run the same rules and raise
    ``pydantic.ValidationError``. Copies and deep copies are the object itself: it holds only ints,
    floats, strings, tuples and other such models. Leaf models cannot be subclassed, and no subclass
    can loosen the configuration.

    What Python cannot stop: ``object.__setattr__(model, ...)``, writing to ``model.__dict__``, an
    empty ``Model.__new__(Model)``, ``BaseModel``'s methods called unbound, and a class patched or
    mixed in to take these hooks out reach past every class. They are sabotage rather than a
    mistake, and nothing here tries to detect them. ``TypeAdapter(Model).validate_python(data,
    strict=False)`` converts types, and ``extra=`` there ignores unknown names, by explicit request;
    every rule on the resulting values still runs.
    """

    how_to_build: ClassVar[str] = "pass it by keyword"
    """What the error for a missing field suggests in Python."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        setattr(cls, SOURCE, cls.__module__)
        for base in cls.__mro__[1:]:
            if base.__dict__.get("__final__"):
                fact = f"{cls.__name__} cannot subclass {base.__name__}"
                raise TypeError(f"{fact}: it is final; compose it instead")
        for key, required in _CONFIG.items():
            if cls.model_config.get(key) != required:
                fact = f"{cls.__name__} must keep {key}={required!r}"
                raise TypeError(f"{fact}: specmeta models cannot be loosened")

    @model_validator(mode="wrap")
    @classmethod
    def _run_rules(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        if (
            type(data) is cls
        ):  # valid since it was built, and immutable: a nested model costs its parent nothing
            return data
        if not isinstance(data, dict):
            # pydantic would return a mock whose __class__ claims to be this model as it is
            fact, remedy = not_an_object(data, cls.__name__, written=is_written(info))
            line = line_error("model_type", cls.__name__, fact, remedy, value=data, loc=())
            raise validation_error(cls.__name__, [line])
        if info.mode == "json":
            data = with_tuples(data)
        surplus: Iterable[InitErrorDetails] = ()
        if len(data) > MOST_UNKNOWN:
            data, surplus = without_surplus(data, cls)
        try:
            model = handler(data)
        except ValidationError as error:
            lines = [*surplus, *rules_of_valid(cls, data, error)]
            raise explained(cls, error, lines, written=is_written(info)) from None
        problems = model.broken_rules()
        if problems:
            vars(model).clear()  # pydantic has filled an __init__'s self already
            raise validation_error(cls.__name__, problems)
        return model

    def checks(self) -> Iterable[Iterable[InitErrorDetails]]:
        """The rules between fields, each a generator of its violations that reads what it needs;
        leaves extend it.
        """
        return ()

    def broken_rules(self) -> Sequence[InitErrorDetails]:
        """Violations of the rules between fields."""
        return [line for check in self.checks() for line in check]

    @classmethod
    def how_to_supply(cls, field: str, *, written: bool) -> str:
        """Remedy for a missing field: what it is, and how the model is built or written."""
        return f"{'add it' if written else cls.how_to_build} ({cls.meaning(field)})"

    @classmethod
    def meaning(cls, field: str) -> str:
        """First sentence of the field's description."""
        sentence = cls.field_docs().get(field, field).split(". ")[0]
        return sentence.rstrip(".")

    @classmethod
    def field_docs(cls) -> Mapping[str, str]:
        """The text under each field, on one line, by the field's name."""
        return field_docs(cls)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in cls.field_docs().items():
            if name in properties:
                properties[name]["description"] = text
        return schema

    # Visible to checkers, these would hide the fields' signature and allow any assignment.
    if not TYPE_CHECKING:

        def __init__(self, /, **fields: Any) -> None:
            self._fill(fields)

        # pydantic's mark for an __init__ that only validates: without it, model_validate would go
        # through __init__.
        __init__.__pydantic_base_init__ = True

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                raise FieldAbsentError(f"{type(self).__name__} has no {name} yet")
            return super().__getattr__(name)

        def __setattr__(self, name: str, value: Any) -> None:
            raise self._frozen(name, value)

        def __delattr__(self, name: str) -> None:
            raise self._frozen(name, None)

        def __setstate__(self, state: Any) -> None:
            """Validate the state of an older pickle; a built object refuses it."""
            self._fill(state.get("__dict__") if isinstance(state, dict) else state)

        def _fill(self, fields: Any) -> None:
            if self.__dict__:
                raise self._frozen("__init__", None)
            self.__pydantic_validator__.validate_python(fields, self_instance=self)

        def copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
            return self.model_copy(update=update, deep=deep)

        @classmethod
        def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
            """Validate and build: unlike pydantic's, this cannot skip the rules."""
            return cls.model_validate(values)

        @classmethod
        def model_validate(cls, obj: Any, **options: Any) -> Self:
            cls._refuse_loosening(options)
            return super().model_validate(obj, **options)

        @classmethod
        def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
            cls._refuse_loosening(options)
            try:
                return super().model_validate_json(json_data, **options)
            except ValidationError as error:  # text that is no JSON reaches no validator
                raise explained(cls, error, written=True) from None

        @classmethod
        def model_validate_strings(cls, *_args: Any, **_options: Any) -> Self:
            cls._refuse_loosening({"strict": False})

    def _frozen(self, name: str, value: object) -> ValidationError:
        fact = f"{type(self).__name__} is immutable and cannot be changed"
        remedy = "build a new object with model_copy(update={...}), metadata with with_batch(...)"
        line = line_error("frozen_instance", name, fact, remedy, value=value)
        return validation_error(type(self).__name__, [line])

    @classmethod
    def _refuse_loosening(cls, options: Mapping[str, Any]) -> None:
        for name, allowed in (
            ("strict", (None, True)),
            ("extra", (None, "forbid")),
            ("from_attributes", (None, False)),
        ):
            if options.get(name) not in allowed:
                fact = f"{options[name]!r} would loosen {cls.__name__}"
                remedy = "leave it out, and convert the values where they are read"
                line = line_error("validation_loosened", name, fact, remedy, value=options[name])
                raise validation_error(cls.__name__, [line])

    def model_copy(
        self,
        *,
        update: Mapping[str, Any] | None = None,
        deep: bool = False,  # noqa: ARG002  # pydantic's signature; there is nothing to copy deeply
    ) -> Self:
        """This object with some fields replaced, validated; itself where nothing is replaced."""
        if not update:
            return self
        fields = {**self.__dict__, **update}
        return cast("Self", self.__pydantic_validator__.validate_python(fields))

    def __replace__(self, /, **changes: Any) -> Self:
        return self.model_copy(update=changes)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self

    def __reduce__(
        self,
    ) -> tuple[Callable[..., "SpecModel"], tuple[type["SpecModel"], dict[str, Any]]]:
        return _rebuild, (type(self), dict(self.__dict__))
