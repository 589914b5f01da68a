"""Facts of a file under any of their spellings, compared with each other and with what the user
stated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from .. import _rules as rules
from .._errors import show
from .._files import Document
from .._findings import CheckpointError, Finding, Origin, Origins, Path, finding
from ._aliases import ALIASES, Alias
from ._spelling import WHY, example_of, misspelt, nearest_of
from ._values import Found, as_tuple, in_one_convention, same, shown

# What stands in for an absent fact while the rules on the others run.
_STAND_INS: Mapping[str, object] = {
    "anchor_convention": "anchor_first",
    "window_causality": "non_causal",
    "target_hidden_state": "after_final_norm",
}
_SECTIONS = ("dflash_config", "dspark_config", "eagle_config", "transformer_layer_config")


class Facts:
    """What is known of one drafter; every problem is collected, and raised together."""

    def __init__(
        self,
        document: Document,
        data: Mapping[str, object],
        stated: Mapping[str, object],
        stated_origins: Origins,
        aliases: Mapping[str, tuple[Alias, ...]] = ALIASES,
        prefix: Path = (),
        *,
        may_be_stated: bool = True,
    ) -> None:
        self.document = document
        self.findings: list[Finding] = []
        self.origins: dict[Path, Origin] = {(): Origin(document, prefix)}
        self._data, self._prefix, self._aliases = data, prefix, aliases
        self._stated, self._stated_origins = stated, stated_origins
        self._may_be_stated = may_be_stated
        self.asked: set[str] = set()
        """Facts whose absence is noted."""
        self._found: dict[str, Found | None] = {}
        self._compared_facts: set[str] = set()
        self._misspelt: set[str] = set()

    def get(self, fact: str) -> Found | None:
        """The fact where the file or the user states it; None where neither does."""
        if fact not in self._found:
            self._found[fact] = self._compared(fact)
        return self._found[fact]

    def value(self, fact: str, default: object = None) -> object:
        """The fact, or `default` where the file does not state it and its form fixes it.

        What the user states against the form is a disagreement, like one against the file.
        """
        found = self.get(fact)
        if found is None:
            return default
        if default is not None and found.stated and not same(found.value, default):
            told = f"{shown(found.value)} although this form of checkpoint has {shown(default)}"
            self.add(rules.FACTS_DISAGREE, found, told)
        return found.value

    def required(self, fact: str) -> object:
        """The fact; None, with a problem noted, where nobody states it."""
        found = self.get(fact)
        if found is None:
            self._ask(fact)
        return None if found is None else found.value

    def size(self, key: str, field: str | None = None, section: Path = ()) -> object:
        """A key that has one spelling and must be there; None, with a problem noted, without it."""
        value = self.of_file(key, field, section)
        if value is None:
            self._ask(key if field is None else field)
        return value

    def of_file(self, key: str, field: str | None = None, section: Path = ()) -> object:
        """A key that has one spelling, in a section of the file; None where it is not there."""
        path, name = (*section, key), key if field is None else field
        value = self.at(path)
        if value is not None:
            self.origins[(name,)] = self.origin(path)
        if name not in self._stated:
            return value
        stated = Found(self._stated[name], self._stated_place(name), stated=True)
        if value is None:
            self.origins[(name,)] = stated.origin
            return stated.value
        if not same(value, stated.value):
            told = f"{shown(stated.value)} although the file says {shown(value)}"
            self.add(rules.FACTS_DISAGREE, stated, told)
        return value

    def is_from(self, fact: str, field: str) -> None:
        """Let a field point to the place of the fact that it was taken from."""
        if (fact,) in self.origins:
            self.origins[(field,)] = self.origins[(fact,)]

    def stand_in(self, field: str) -> object:
        """A valid value for a field whose absence is noted, so that other rules can run."""
        return _STAND_INS.get(field) if field in self.asked else None

    def at(self, path: Path) -> object:
        """The value at a path of the file; None where it is not there."""
        value: object = self._data
        for part in path:
            if not isinstance(value, dict) or not isinstance(part, str):
                return None
            value = value.get(part)
        return value

    def origin(self, path: Path) -> Origin:
        """The place of a path of the file."""
        return Origin(self.document, (*self._prefix, *path))

    def unsupported(self, key: str, fact: str) -> None:
        """Note a value that no canonical form can say."""
        origin = Origin(self.document, (*self._prefix, *key.split(".")))
        self.add(rules.VALUE_NOT_SUPPORTED, Found(self.at(tuple(key.split("."))), origin), fact)

    def disagree(self, key: str, other: Found) -> None:
        """Note a key whose value is not the one that another place states."""
        origin = Origin(self.document, (*self._prefix, *key.split(".")))
        value = self.at(tuple(key.split(".")))
        told = f"{shown(value)} although {other.origin.key} says {shown(other.value)}"
        self.add(rules.FACTS_DISAGREE, Found(value, origin), told)

    def warn(self, rule: rules.Rule, fact: str, told: str) -> None:
        """Note what is worth knowing of a fact."""
        origin = self.origins.get((fact,), self.origins[()])
        self.findings.append(finding(rule, origin.key or fact, told, value=None, origin=origin))

    def check_keys(self) -> None:
        """Note keys that are nearly a drafter's, and objects of keys that are none."""
        for place in ((), *((name,) for name in _SECTIONS)):
            section = self.at(place)
            if section is None:
                continue
            if not isinstance(section, dict):
                self.unsupported(".".join(place), f"{shown(section)} is no object of keys")
                continue
            for key, close in misspelt(section):
                found = Found(section[key], self.origin((*place, key)))
                self.add(rules.KEY_MISSPELT, found, f"is no known key; did you mean {close!r}?")
                self._misspelt.add(close)

    def check_stated(self, fields: Mapping[str, object], names: frozenset[str]) -> None:
        """Note stated facts that a drafter of this kind does not have, or has otherwise."""
        for name, value in self._stated.items():
            found = Found(as_tuple(value), self._stated_place(name), stated=True)
            if name not in names:
                close = nearest_of(name, names)
                hint = f"did you mean {close!r}?" if close else f"it has {', '.join(sorted(names))}"
                self.add(rules.KEY_MISSPELT, found, f"is no fact of this drafter; {hint}")
            elif name not in self._compared_facts and not same(found.value, fields.get(name)):
                told = f"{shown(found.value)} although the checkpoint has {shown(fields.get(name))}"
                self.add(rules.FACTS_DISAGREE, found, told)

    def raise_problems(self) -> None:
        """Raise what is wrong, all of it. Raises `CheckpointError`."""
        if any(problem.severity == "error" for problem in self.findings):
            raise CheckpointError.of(self.findings)

    def add(self, rule: rules.Rule, found: Found, fact: str) -> None:
        """Note a violation at the place of a value."""
        key = found.origin.key or rule.name
        self.findings.append(finding(rule, key, fact, value=found.value, origin=found.origin))

    def _compared(self, fact: str) -> Found | None:
        found = list(self._all(fact))
        if not found:
            return None
        first = found[0]
        self._compared_facts.add(fact)
        for other in found[1:]:
            if not same(in_one_convention(other, first), in_one_convention(first, first)):
                told = f"{shown(other.value)} although {first.origin.key} says "
                self.add(rules.FACTS_DISAGREE, other, told + shown(first.value))
        self.origins[(fact,)] = first.origin
        return first

    def _all(self, fact: str) -> Iterator[Found]:
        """Every place that states the fact: the file's keys, then the user."""
        in_file = False
        for alias in self._aliases.get(fact, ()):
            # GGUF metadata is flat: its keys have dots.
            flat = self._aliases is not ALIASES
            path = (alias.key,) if flat else tuple(alias.key.split("."))
            value = self.at(path)
            if value is None or (alias.fallback and in_file):
                continue
            in_file, origin = True, self.origin(path)
            if alias.true is not None:
                if not isinstance(value, bool):
                    told = f"{show(value)} is neither true nor false"
                    self.add(rules.VALUE_NOT_SUPPORTED, Found(value, origin), told)
                    self.asked.add(fact)
                    continue
                value = alias.true if value else alias.false
            yield Found(as_tuple(value), origin, alias.convention)
        if fact in self._stated:
            yield Found(as_tuple(self._stated[fact]), self._stated_place(fact), stated=True)

    def _ask(self, fact: str) -> None:
        """Note that a fact is not stated, why it matters and how to state it."""
        if fact in self.asked:
            return
        self.asked.add(fact)
        if any(alias.key in self._misspelt for alias in self._aliases.get(fact, ())):
            return  # its misspelt key is noted
        why = WHY.get(fact, "the deployment needs it")
        example = f"{fact}: {example_of(fact)}"
        told = f"--state {example.replace(': ', '=')}, `stated: {{{example}}}` in a deployment file"
        remedy = f"state it: {told}, or stated={{...}} in Python"
        if not self._may_be_stated:
            remedy = "add the key to the file, with the value of the model"
        origin = self.origins[()]
        told = f"is not stated by this file, and {why}"
        problem = finding(rules.FACT_NOT_STATED, fact, told, value=None, origin=origin)
        self.findings.append(replace(problem, remedy=remedy))

    def _stated_place(self, fact: str) -> Origin:
        return self._stated_origins.get((fact,)) or Origin(Document("stated", None), (fact,))
