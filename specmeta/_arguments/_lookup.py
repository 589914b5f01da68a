"""Arguments under any spelling of their names, and what is wrong with them or unknown."""

from collections.abc import Mapping
from difflib import get_close_matches

from .. import _rules as rules
from .._errors import show
from .._findings import Origin, Path, finding
from .._partial import MOST_UNKNOWN
from ._command import Command
from ._records import Count, Counts, Found, Reading, Unchecked

_CLOSE = 0.88


class Lookup:
    """One object of arguments: where each of them was written, and which have been looked for."""

    def __init__(self, reading: Reading, values: Mapping[str, object], path: Path) -> None:
        self._reading = reading
        self.path = path
        self._values = values
        self._known: set[str] = set()
        self._spellings: dict[str, list[str]] = {}
        for key in values:
            self._spellings.setdefault(_plain_name(key), []).append(key)

    def find(
        self, *names: str, rule: rules.Rule = rules.ARGUMENTS_DISAGREE, expanded: bool = False
    ) -> Found | None:
        """The argument with one of these names; None where it is absent or null, or where a command
        leaves open what it is, which is reported.

        `rule` is broken where two of them have different values. `expanded` takes a value that
        holds a variable of the shell, too.
        """
        self._known.update(names)
        found: Found | None = None
        for key in (key for name in names for key in self._spellings.get(name, ())):
            value = self._values[key]
            if value is None:
                continue
            one = Found(value, Origin(self._reading.document, (*self.path, key)))
            if self._is_open(one, expanded=expanded):
                continue
            if found is None:
                found = one
            elif not _equal(value, found.value):
                fact = f"{show(value)} although {found.origin.key} is {show(found.value)}"
                self.report(rule, one, fact)
        return found

    def _is_open(self, found: Found, *, expanded: bool) -> bool:
        """Whether a command does not say which value a flag has; reported."""
        command, path = found.origin.document, found.origin.path
        if not isinstance(command, Command):
            return False
        repeat = command.repeats.get(path)
        if repeat is not None:
            twice = f"{show(repeat.value)} on line {repeat.line}, then {show(found.value)}"
            self.report(rules.ARGUMENTS_DISAGREE, found, f"is given twice: {twice}")
        elif not expanded and command.is_expanded(path, found.value):
            fact = f"{show(found.value)} holds a variable of the shell, which is not known here"
            self.report(rules.ARGUMENT_INVALID, found, fact)
        else:
            return False
        return True

    def locate(self, canonical: Path, found: Found) -> None:
        """Note where a value was written that is not handed on as it is."""
        self._reading.origins[canonical] = found.origin

    def report(self, rule: rules.Rule, found: Found | Count | Counts, fact: str) -> None:
        """Note a violation at the place of an argument."""
        key, origin = found.origin.key, found.origin
        last = origin.path[-1]
        index = last if isinstance(last, int) else None
        value = [*found.value] if isinstance(found, Counts) else found.value
        noted = finding(rule, key, fact, value=value, index=index, origin=origin)
        if noted not in self._reading.findings:  # an argument may be looked at twice
            self._reading.findings.append(noted)

    def absent(self, name: str, fact: str) -> None:
        """Note that an argument is needed and was not given, unless what was given is reported."""
        origin = Origin(self._reading.document, self.path)
        key = f"{origin.key}.{name}" if origin.key else name
        findings = self._reading.findings
        if all(_plain_name(found.field) != _plain_name(key) for found in findings):
            required = rules.ARGUMENT_REQUIRED
            findings.append(finding(required, key, fact, value=None, origin=origin))

    def negations(self) -> None:
        """Report a ``no-`` in front of an argument that is no switch."""
        for key, value in self._values.items():
            name = _plain_name(key)
            known = name.removeprefix("no_")
            if name not in self._known and known != name and known in self._known:
                found = Found(value, Origin(self._reading.document, (*self.path, key)))
                self._report_unknown(found, known, {known: known})

    def unread(
        self, unchecked: Mapping[str, Unchecked], irrelevant: frozenset[str], *, prefix: str = ""
    ) -> None:
        """Report the arguments behind `prefix` that nothing has read and that may matter: those
        that change speculation beyond the contracts, those that are misspelt, and unknown ones.
        """
        known = self._known | unchecked.keys() | irrelevant
        names = {name.removeprefix(prefix): name for name in known if name.startswith(prefix)}
        unknown: list[Found] = []
        for key, value in self._values.items():
            name = _plain_name(key)
            found = Found(value, Origin(self._reading.document, (*self.path, key)))
            if name in unchecked:
                if value is not None and not _equal(value, unchecked[name].neutral):
                    self.report(rules.ARGUMENT_NOT_READ, found, unchecked[name].effect)
            elif name.startswith(prefix) and name not in known:
                unknown.append(found)
                if len(unknown) <= MOST_UNKNOWN:
                    self._report_unknown(found, name.removeprefix(prefix), names)
        if len(unknown) > MOST_UNKNOWN:
            fact = f"and {len(unknown) - MOST_UNKNOWN - 1} more are not known here, and not read"
            self.report(rules.ARGUMENT_NOT_READ, unknown[MOST_UNKNOWN], fact)

    def _report_unknown(self, found: Found, name: str, names: Mapping[str, str]) -> None:
        near = get_close_matches(name, names, n=1, cutoff=_CLOSE)
        if near:
            fact = f"is unknown to {self._reading.engine}, which has {names[near[0]]!r}"
            self.report(rules.ARGUMENT_MISSPELT, found, fact)
        else:
            self.report(rules.ARGUMENT_NOT_READ, found, "is not known here, and not read")


def _plain_name(key: str) -> str:
    return key.replace("-", "_")


def _equal(one: object, other: object) -> bool:
    """Equality that tells true from 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
