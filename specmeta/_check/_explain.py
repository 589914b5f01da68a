"""What a rule id of a report means: a rule of the registry, or a bound or type of one field."""

from collections.abc import Iterator
from typing import NamedTuple

from .._rules import FAMILIES, RULES, Family


class Explanation(NamedTuple):
    """What is printed of a rule; the fields are those of `Rule`."""

    name: str
    family: Family | None
    """None for a bound or a type of one field."""
    protects: str
    remedy: str
    reports: tuple[str, ...] = ()
    severity: str = "error"
    overridable: bool = False


class _Kind(NamedTuple):
    names: tuple[str, ...]
    protects: str
    remedy: str


_KINDS = (
    _Kind(
        ("missing",),
        "a required field has no default that could be right, and none is assumed",
        "give the field",
    ),
    _Kind(
        ("extra_forbidden", "invalid_key"),
        "a misspelt or unknown key would be ignored, and its value with it",
        "correct the key, or remove it",
    ),
    _Kind(
        (
            "greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number",
        ),
        "a number outside its bounds is one that no worker can run with",
        "choose a number inside the bounds that the finding names",
    ),
    _Kind(
        ("too_short", "too_long", "string_too_short", "string_too_long"),
        "a list or a text that is shorter or longer than its field allows says too little or too "
        "much",
        "give as many elements or characters as the finding names",
    ),
    _Kind(
        ("literal_error", "union_tag_invalid", "union_tag_not_found"),
        "a value that is none of the choices would be taken for one of them",
        "use one of the choices that the finding names",
    ),
    _Kind(
        (
            "int_type", "int_from_float", "int_parsing", "int_parsing_size", "float_type",
            "float_parsing", "bool_type", "bool_parsing", "string_type", "string_unicode",
            "tuple_type", "dict_type", "model_type",
        ),
        "a value of another type than its field's would be converted to one that is not meant",
        "write a value of the type that the finding names",
    ),
    _Kind(
        ("value_error", "string_pattern_mismatch", "json_invalid"),
        "a value that its field cannot have would fail later, or not at all",
        "correct the value as the finding says",
    ),
    _Kind(
        ("frozen_instance", "validation_loosened"),
        "metadata that changes behind a worker's back, or that skips its checks, is what the "
        "contracts prevent",
        "build a new object, with every check",
    ),
)  # fmt: skip

_BY_NAME = {name: kind for kind in _KINDS for name in kind.names}


def explanation(name: str) -> Explanation | None:
    """What a rule id means; None where it is none."""
    rule = RULES.get(name)
    if rule is not None:
        return Explanation(**rule._asdict())
    kind = _BY_NAME.get(name)
    return None if kind is None else Explanation(name, None, kind.protects, kind.remedy)


def known_names() -> list[str]:
    """Every rule id that can be explained."""
    return [*RULES, *_BY_NAME]


def lines_of(found: Explanation) -> Iterator[str]:
    """An explanation as text."""
    yield found.name
    if found.family is None:
        yield "  of one field: its type, its bounds, or that it is there"
    else:
        yield f"  family: {found.family}, {FAMILIES[found.family]}"
    yield f"  severity: {found.severity}"
    yield f"  overridable: {'yes' if found.overridable else 'no'}"
    yield f"  protects: {found.protects}"
    yield f"  remedy: {found.remedy}"
    yield f"  reports: {', '.join(found.reports) or 'none'}"
