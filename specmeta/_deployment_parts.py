"""The parts of a deployment file that are written out, and how what is wrong is collected."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from pydantic import ValidationError

from ._base import SpecModel
from ._decoding import DECODING_CONFIGS
from ._engine import EngineConfig, sized_engine
from ._errors import line_error, validation_error
from ._files import Document
from ._findings import Origin, findings_of
from ._findings import Path as Location
from ._overrides import MOST_OVERRIDES, CompileKey, RuleOverride
from ._partial import MOST_UNKNOWN, surplus_text, valid_fields
from ._parts import Parts
from ._written import show_written, validate_written, with_tuples

_SIZED = {*EngineConfig.sized.__annotations__} - {"return"}
_POOL = ("overlap_headroom", "disaggregated")
_Model = TypeVar("_Model", bound=SpecModel)


def given_keys(data: Mapping[str, object]) -> dict[str, object]:
    """What is given: a key with null is as if it were absent."""
    return {key: value for key, value in data.items() if value is not None}


class FieldReader:
    """Reads fields into `parts`, and collects what is wrong with them."""

    def __init__(self, document: Document, parts: Parts) -> None:
        self.document = document
        self.parts = parts

    def problem(
        self, kind: str, path: Location, fact: str, remedy: str, value: object = None
    ) -> None:
        """Collect an error that is no rule's: of form, type or presence."""
        field = ".".join(part for part in path if isinstance(part, str)) or "deployment"
        line = line_error(kind, field, fact, remedy, value=value, loc=path)
        found = findings_of(validation_error(field, [line]), self.parts.origins)
        self.parts.findings.extend(found)

    def unknown(
        self, path: Location, keys: Iterable[object], known: Iterable[str], what: str
    ) -> None:
        """Collect the keys of the object at `path` that nothing reads."""
        names = sorted(known)
        surplus = [str(key) for key in keys if key not in names]
        for key in surplus[:MOST_UNKNOWN]:
            close = get_close_matches(key[:64], names, n=1, cutoff=0.6)
            remedy = f"did you mean {close[0]!r}?" if close else f"the keys are {', '.join(names)}"
            self.problem("extra_forbidden", (*path, key), f"is no key of {what}", remedy)
        more = len(surplus) - MOST_UNKNOWN
        if more > 0:
            self.problem("extra_forbidden", path, *surplus_text(more, what), more)

    def decoding(self, data: Mapping[str, object]) -> None:
        """Read the choices."""
        value = self.given(data, "decoding", "decoding_type and max_draft_len")
        if value is not None:
            self.parts.decoding = self.tagged(DECODING_CONFIGS, value, ("decoding",))

    def engine(self, data: Mapping[str, object]) -> None:
        """Read the capacity: the fields, or `sized` with the arguments that give them."""
        told = "the fields of EngineConfig, or 'sized' with the arguments of EngineConfig.sized"
        value = self.given(data, "engine", told)
        if value is None:
            return
        if not isinstance(value, dict) or value.get("sized") is None:
            self.parts.engine = self.model(EngineConfig, value, ("engine",))
            return
        path: Location = ("engine", "sized")
        self.unknown(("engine",), value, ("sized",), "an engine with 'sized'")
        sized = value["sized"]
        if not isinstance(sized, dict):
            self.problem("dict_type", path, f"{show_written(sized)} is no object", f"give {told}")
            return
        self.unknown(path, sized, _SIZED, "'sized'")
        for key in (name for name in _POOL if name not in sized):
            self.problem("missing", (*path, key), "is required and was not given", "add it")
        self.parts.origins[("engine",)] = Origin(self.document, path)
        fields = {name: sized[name] for name in sized if name in _SIZED and name not in _POOL}
        try:
            self.parts.engine = sized_engine(
                fields, **{name: sized.get(name, False) for name in _POOL}, written=True
            )
        except ValidationError as error:
            found = findings_of(error, self.parts.origins, prefix=("engine",))
            self.parts.findings.extend(found)
            partial = valid_fields(EngineConfig, with_tuples(fields), error, "num_seq_slots")
            self.parts.partial["engine"] = partial

    def extras(self, data: Mapping[str, object]) -> None:
        """Read what is optional: overrides, and what was compiled."""
        overrides, path = data.get("overrides"), ("overrides",)
        if isinstance(overrides, list):
            if len(overrides) > MOST_OVERRIDES:
                fact = f"a list of {len(overrides)} is longer than {MOST_OVERRIDES}"
                self.problem("too_long", path, fact, "override each rule once")
                overrides = []
            for index, item in enumerate(overrides):
                override = self.model(RuleOverride, item, (*path, index))
                if override is not None:
                    self.parts.overrides[index] = override
        elif overrides is not None:
            fact = f"{show_written(overrides)} is not a list"
            self.problem("tuple_type", path, fact, "write [{rule: ..., reason: ...}]")
        compiled = data.get("compiled_for")
        if compiled is not None:
            self.parts.compiled_for = self.model(CompileKey, compiled, ("compiled_for",))

    def given(self, data: Mapping[str, object], key: str, told: str) -> object:
        """A required part; None where it is absent, which is collected."""
        value = data.get(key)
        if value is None:
            self.problem("missing", (key,), "is required and was not given", f"give {told}")
        return value

    def model(self, model: type[_Model], value: object, path: Location) -> _Model | None:
        try:
            return validate_written(model, value)
        except ValidationError as error:
            self.parts.findings.extend(findings_of(error, self.parts.origins, prefix=path))
            if isinstance(value, dict) and len(path) == 1:
                (part,) = path
                self.parts.partial[str(part)] = valid_fields(model, with_tuples(value), error)
            return None

    def tagged(
        self, models: Mapping[str, type[_Model]], value: object, path: Location
    ) -> _Model | None:
        """The model that the value's decoding_type names."""
        names = ", ".join(models)
        if not isinstance(value, dict):
            fact = f"{show_written(value)} is no object of fields"
            self.problem("dict_type", path, fact, f"give decoding_type ({names}) and its fields")
            return None
        tag, place = value.get("decoding_type"), (*path, "decoding_type")
        if tag is None:
            fact = "is required and was not given"
            self.problem("union_tag_not_found", place, fact, f"give one of {names}")
        elif not isinstance(tag, str) or tag not in models:
            close = get_close_matches(str(tag)[:64], models, n=1, cutoff=0.4)
            remedy = f"did you mean {close[0]!r}?" if close else f"give one of {names}"
            fact = f"{show_written(tag)} is no method"
            self.problem("union_tag_invalid", place, fact, remedy, tag)
        else:
            return self.model(models[tag], value, path)
        return None
