"""Arguments as they are written: any spelling of a name, the place of each, and what is wrong.

Every engine takes ``max-num-seqs`` for ``max_num_seqs`` somewhere, and several have two names for
one argument. A `Section` finds a value under all of them and refuses two that disagree.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar, cast

from .. import _rules as rules
from .._errors import show
from .._findings import InputError, Origin, Path, finding
from ._records import Count, Counts, Found, Reading, Unchecked

_Choice = TypeVar("_Choice")

_CLOSE = 0.88
_MOST_UNKNOWN = 32


class Section:
    """One object of arguments: all of them, or those of speculation."""

    def __init__(self, reading: Reading, values: Mapping[str, object], path: Path) -> None:
        self._reading = reading
        self.path = path
        self._values = values
        self._known: set[str] = set()
        self._spellings: dict[str, list[str]] = {}
        for key in values:
            self._spellings.setdefault(_plain_name(key), []).append(key)

    def find(self, *names: str, rule: rules.Rule = rules.ARGUMENTS_DISAGREE) -> Found | None:
        """The argument with one of these names; None where it is absent or null.

        `rule` is broken where two of them have different values.
        """
        self._known.update(names)
        found: Found | None = None
        for key in (key for name in names for key in self._spellings.get(name, ())):
            value = self._values[key]
            if value is None:
                continue
            origin = Origin(self._reading.document, (*self.path, key))
            if found is None:
                found = Found(value, origin)
            elif not _equal(value, found.value):
                fact = f"{show(value)} although {found.origin.key} is {show(found.value)}"
                self.report(rule, Found(value, origin), fact)
        return found

    def put(
        self,
        fields: dict[str, object],
        canonical: Path,
        *names: str,
        rule: rules.Rule = rules.ARGUMENTS_DISAGREE,
    ) -> None:
        """Hand an argument on as the last name of `canonical`, which knows its type and bounds."""
        found = self.find(*names, rule=rule)
        if found is not None:
            self.put_found(fields, canonical, found)

    def put_found(
        self, fields: dict[str, object], canonical: Path, found: Found | Count | Counts
    ) -> None:
        """As `put`, of an argument that was found, or of a value made from it."""
        value: object = found.value
        if isinstance(value, list) and canonical[0] != "stated":  # those are compared with a file
            value = tuple(value)
        fields[str(canonical[-1])] = value
        self._reading.origins[canonical] = found.origin

    def whole(self, *names: str) -> Count | None:
        """A positive whole number that others are computed from; None where it is absent or
        something else, which is reported.
        """
        found = self.find(*names)
        if found is None:
            return None
        value = found.value
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.report(rules.ARGUMENT_INVALID, found, f"{show(value)} is no positive whole number")
            return None
        return Count(value, found.origin)

    def wholes(self, *names: str) -> Counts | None:
        """Positive whole numbers, or one of them; None where they are absent or something else,
        which is reported.
        """
        found = self.find(*names)
        if found is None:
            return None
        numbers = found.value if isinstance(found.value, list) else [found.value]
        for index, value in enumerate(numbers):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                origin = Origin(found.origin.document, (*found.origin.path, index))
                bad = Found(value, origin if numbers is found.value else found.origin)
                fact = f"{show(value)} is no positive whole number"
                self.report(rules.ARGUMENT_INVALID, bad, fact)
                return None
        return Counts(tuple(cast("list[int]", numbers)), found.origin)

    def text(self, *names: str) -> str | None:
        """A name or path; None where it is absent or something else, which is reported."""
        found = self.find(*names)
        if found is not None and not isinstance(found.value, str):
            self.report(rules.ARGUMENT_INVALID, found, f"{show(found.value)} is not text")
            return None
        return None if found is None else str(found.value)

    def flag(self, *names: str) -> bool:
        """A switch; off where it is absent. Anything but true and false is reported."""
        found = self.find(*names)
        if found is not None and not isinstance(found.value, bool):
            fact = f"{show(found.value)} is neither true nor false"
            self.report(rules.ARGUMENT_INVALID, found, fact)
            return False
        return found is not None and found.value is True

    def choose(
        self, found: Found, choices: Mapping[str, _Choice], rule: rules.Rule
    ) -> _Choice | None:
        """What the word stands for; None, which is reported, where it is none of the choices."""
        value = found.value
        choice = choices.get(value) if isinstance(value, str) else None
        if choice is None:
            self.report(rule, found, f"{show(value)} is none of {', '.join(choices)}")
        return choice

    def section(self, *names: str, needed: str | None = None) -> "Section | None":
        """The object that is an argument's value, or that its text holds as JSON; None where the
        argument is something else, which is reported, or absent, as is its name in `needed`.
        """
        found = self.find(*names)
        if found is None:
            if needed is not None:
                self.absent(needed, "is not given, so nothing is speculated")
            return None
        value = found.value
        if isinstance(value, str):
            value = self._json(found, value)
        if isinstance(value, dict):
            return Section(self._reading, value, found.origin.path)
        if value is not None:
            self.report(rules.ARGUMENT_INVALID, found, f"{show(value)} is not an object")
        return None

    def _json(self, found: Found, text: str) -> object:
        from .._files import parse_json

        try:
            return parse_json(text.encode(), found.origin.key).data
        except InputError as error:
            fact = str(error).removeprefix(found.origin.key).partition(": ")[2].split("; ")[0]
            self.report(rules.ARGUMENT_INVALID, found, f"{show(text)} {fact}")
            return None

    def engine_chooses(self, *names: str) -> None:
        """Note that graph sizes are bounded by one of these arguments and not given."""
        found = self.find(*names)
        if found is not None:
            fact = "leaves the sizes below it to the engine, so they are not checked"
            self.report(rules.ARGUMENT_NOT_READ, found, fact)

    def report(self, rule: rules.Rule, found: Found | Count, fact: str) -> None:
        """Note a violation at the place of an argument."""
        key, origin = found.origin.key, found.origin
        last = origin.path[-1]
        index = last if isinstance(last, int) else None
        noted = finding(rule, key, fact, value=found.value, index=index, origin=origin)
        if noted not in self._reading.findings:  # an argument may be looked at twice
            self._reading.findings.append(noted)

    def absent(self, name: str, fact: str) -> None:
        """Note that an argument is needed and was not given."""
        origin = Origin(self._reading.document, self.path)
        key = f"{origin.key}.{name}" if origin.key else name
        self._reading.findings.append(
            finding(rules.ARGUMENT_REQUIRED, key, fact, value=None, origin=origin)
        )

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
                if len(unknown) <= _MOST_UNKNOWN:
                    self._report_unknown(found, name.removeprefix(prefix), names)
        if len(unknown) > _MOST_UNKNOWN:
            fact = f"and {len(unknown) - _MOST_UNKNOWN - 1} more are not known here, and not read"
            self.report(rules.ARGUMENT_NOT_READ, unknown[_MOST_UNKNOWN], fact)

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
