"""What a check found: one record for every violation, with the place where it was written.

A model's `ValidationError` speaks of canonical fields. A reader knows in which file, under which
key and on which line each of them was written (its origins), and `findings_of` joins the two.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails

from ._errors import plain
from ._rules import RULES, Rule
from ._text import named, printable

if TYPE_CHECKING:
    from ._files import Document

Severity = Literal["error", "warning", "overridden"]
Path = tuple[str | int, ...]
"""Where a value lies in nested data: keys and indices."""


class Origin(NamedTuple):
    """The place of a value: in a document, or nowhere but in what the caller states."""

    document: "Document | None"
    """None for what the caller states, in Python or on the command line."""
    path: Path

    @property
    def file(self) -> str | None:
        """The file, as messages name it."""
        return None if self.document is None else self.document.name

    @property
    def line(self) -> int | None:
        """Line of the key, from 1; None where there are no lines."""
        return None if self.document is None else self.document.line_of(self.path)

    @property
    def key(self) -> str:
        """The key as the document spells it, without indices: ``dflash_config.mask_token_id``."""
        return ".".join(part for part in self.path if isinstance(part, str))


Origins = Mapping[Path, Origin]
"""Canonical location, for example ``("drafter", "block_size")``, to where it was written."""

NOTHING: Mapping[str, object] = MappingProxyType({})
"""No facts."""

NOWHERE: Origins = MappingProxyType({})
"""No places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One violation of one rule. Its texts are printable, whatever they were built from."""

    rule: str
    """Name of the rule, or pydantic's name of a bound or type."""
    severity: Severity
    """An error is refused, a warning shown; overridden is an error that was overridden by name."""
    field: str
    """Dotted key, as the file spells it where one is known."""
    index: int | None
    """Position in the field's list, from 0; None where the field is meant as a whole."""
    value: object
    """The value, or a short text of it where JSON cannot hold it."""
    fact: str
    """What is wrong."""
    remedy: str
    """What to do instead."""
    reports: tuple[str, ...] = ()
    """Public reports of the same fault."""
    file: str | None = None
    """File of the offending key; None for objects built in code, and for what the caller states."""
    line: int | None = None
    """Its line, from 1."""
    reason: str | None = None
    """Why the deployment overrides the rule."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "field", named(self.field))
        object.__setattr__(self, "fact", printable(self.fact))
        object.__setattr__(self, "remedy", printable(self.remedy))
        if self.reason is not None:
            object.__setattr__(self, "reason", printable(self.reason))

    @property
    def message(self) -> str:
        """``field[index]: fact; remedy``."""
        place = self.field if self.index is None else f"{self.field}[{self.index}]"
        return f"{place}: {self.fact}; {self.remedy}"

    def __str__(self) -> str:
        """The message, behind ``file:line:`` where they are known, and the rule's name."""
        lead = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        return f"{f'{lead}: ' if lead else ''}{self.message} [{self.rule}]"


class InputError(ValueError):
    """Input that cannot be read or used; the message names file, line, key, value and remedy.

    It is one line, or one for each finding, and everything in it is printable.
    """

    findings: tuple[Finding, ...]
    """What is wrong with it; empty where it could not be read at all."""

    def __init__(self, message: str, findings: Iterable[Finding] = ()) -> None:
        self.findings = tuple(findings)
        super().__init__(message if self.findings else printable(message))

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Self:
        """The error of these findings, each on a line of its message."""
        found = tuple(findings)
        return cls("\n".join(map(str, found)), found)

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[Finding, ...]]]:
        return type(self), (str(self), self.findings)


class CheckpointError(InputError):
    """A published checkpoint that cannot be read or used."""


def finding(
    rule: Rule,
    field: str,
    fact: str,
    *,
    value: object,
    index: int | None = None,
    origin: Origin | None = None,
) -> Finding:
    """A violation of a rule, at the place where its value was written."""
    return Finding(
        rule=rule.name,
        severity=rule.severity,
        field=field,
        index=index,
        value=plain(value),
        fact=fact,
        remedy=rule.remedy,
        reports=rule.reports,
        file=None if origin is None else origin.file,
        line=None if origin is None else origin.line,
    )


def findings_of(
    error: ValidationError, origins: Origins, *, prefix: Path = ()
) -> tuple[Finding, ...]:
    """The lines of a model's error, each at the place where its value was written.

    `prefix` stands before each of the error's locations in `origins`.
    """
    return tuple(_finding(line, origins, prefix) for line in error.errors(include_url=False))


def findings_of_lines(
    lines: Iterable[InitErrorDetails], reasons: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    """Lines that rules made without raising them: warnings, and errors overridden for a reason."""
    found = []
    for line in lines:
        error = line["type"]
        assert not isinstance(error, str)
        loc = tuple(line.get("loc", ()))
        details = ErrorDetails(
            type=error.type, loc=loc, msg=error.message(), input=None, ctx=error.context or {}
        )
        found.append(_finding(details, {}, (), (reasons or {}).get(error.type)))
    return tuple(found)


def placed(found: Finding, origins: Origins, loc: Path) -> Finding:
    """A finding without a place, at the place of the value at `loc`."""
    origin = _nearest(origins, loc)
    if origin is None:
        return found
    return Finding(
        **{
            **{name: getattr(found, name) for name in Finding.__slots__},
            "field": origin.key or found.field,
            "file": origin.file,
            "line": origin.line,
        }
    )


def _finding(
    line: ErrorDetails, origins: Origins, prefix: Path, reason: str | None = None
) -> Finding:
    context = line.get("ctx", {})
    name = line["type"]
    rule = RULES.get(name)
    field, index = str(context["field"]), context["index"]
    if index is None:  # of an object in a list
        index = next((part for part in reversed(prefix) if isinstance(part, int)), None)
    severity: Severity = "error" if rule is None else rule.severity
    found = Finding(
        rule=name,
        severity="overridden" if reason is not None else severity,
        field=".".join((*(part for part in prefix if isinstance(part, str)), field)),
        index=index,
        value=context["value"],
        fact=str(context["fact"]),
        remedy=str(context["remedy"]),
        reports=() if rule is None else rule.reports,
        reason=reason,
    )
    return placed(found, origins, (*prefix, *line["loc"]))


def _nearest(origins: Origins, loc: Path) -> Origin | None:
    """Where the value at `loc` was written, or the nearest thing around it that was."""
    for end in range(len(loc), -1, -1):
        origin = origins.get(loc[:end])
        if origin is not None:
            return Origin(origin.document, (*origin.path, *loc[end:]))
    return None
