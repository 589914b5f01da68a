"""Arguments as they are written: any spelling of a name, the place of each, and what is wrong.

Every engine takes ``max-num-seqs`` for ``max_num_seqs`` somewhere, and several have two names for
one argument. A `Section` finds a value under all of them and refuses two that disagree.
"""

from collections.abc import Mapping
from typing import TypeVar, cast

from .. import _rules as rules
from .._errors import show
from .._findings import InputError, Origin, Path
from ._command import Command
from ._lookup import Lookup
from ._records import Count, Counts, Found

_Choice = TypeVar("_Choice")


class Section(Lookup):
    """One object of arguments: all of them, or those of speculation."""

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
        return self.text_of(self.find(*names, expanded=True))

    def text_of(self, found: Found | None) -> str | None:
        """As `text`, of an argument that was looked for."""
        if found is None:
            return None
        document, value = found.origin.document, found.value
        if isinstance(document, Command):  # the type of a word is a guess
            value = document.texts.get(found.origin.path, value)
        if not isinstance(value, str):
            self.report(rules.ARGUMENT_INVALID, found, f"{show(value)} is not text")
            return None
        return value

    def flag(self, *names: str) -> bool:
        """A switch, which ``no-`` in front of its name turns off; off where it is absent. Anything
        but true and false is reported.
        """
        switch, off = self.find(*names), self.find(*(f"no_{name}" for name in names))
        for found in (switch, off):
            if found is not None and not isinstance(found.value, bool):
                fact = f"{show(found.value)} is neither true nor false"
                self.report(rules.ARGUMENT_INVALID, found, fact)
                return False
        if switch is not None and off is not None and switch.value == off.value:
            fact = f"{show(off.value)} although {switch.origin.key} is {show(switch.value)}"
            self.report(rules.ARGUMENTS_DISAGREE, off, fact)
        return switch is not None and switch.value is True

    def choose(
        self,
        found: Found,
        choices: Mapping[str, _Choice],
        rule: rules.Rule,
        *,
        any_case: bool = False,
    ) -> _Choice | None:
        """What the word stands for; None, which is reported, where it is none of the choices.

        `any_case` takes small letters for the capitals of the choices.
        """
        value = found.value
        word = value.upper() if isinstance(value, str) and any_case else value
        choice = choices.get(word) if isinstance(word, str) else None
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

    def engine_chooses(self, found: Found | Count | None) -> None:
        """Note that graph sizes are bounded by this argument, if it is given, and not given."""
        if found is not None:
            fact = "leaves the sizes below it to the engine, so they are not checked"
            self.report(rules.ARGUMENT_NOT_READ, found, fact)
