"""Facts of a file under any of their spellings, compared with each other and with what the user
stated.
"""

from collections.abc import Iterator, Mapping

from .. import _rules as rules
from .._errors import show
from .._files import Document
from .._findings import CheckpointError, Finding, Origin, Origins, Path, finding
from ._aliases import ALIASES, Alias
from ._spelling import misspelt, not_stated, unknown_facts
from ._values import Found, as_fact, in_one_convention, is_choice, same, shown

# What stands in for an absent fact while the rules on the others run.
_STAND_INS: Mapping[str, object] = {
    "anchor_convention": "anchor_first",
    "window_causality": "non_causal",
    "target_hidden_state": "after_final_norm",
}
_SECTIONS = ("dflash_config", "dspark_config", "eagle_config", "transformer_layer_config")
_MOST_KEYS = 4096
"""Keys of one object: far above any published configuration."""


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
        self.target_layers: Found | None = None
        """How many layers the target has, where that is known."""
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
        disagrees = default is not None and found.stated and not same(found.value, default)
        if disagrees and is_choice(fact, found.value):  # else it is refused as such
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

    def of_file(
        self, key: str, field: str | None = None, section: Path = (), *, least: int = 0
    ) -> object:
        """A key that has one spelling, in a section of the file; None where it is not there.

        A number below `least` is read as that: another key of the file raises it.
        """
        path, name = (*section, key), key if field is None else field
        value = written = as_fact(name, self.at(path))
        if type(value) is int and least and value > 0:
            value = max(value, least)
        if value is not None:
            self.origins[(name,)] = self.origin(path)
        if name not in self._stated:
            return value
        stated = Found(as_fact(name, self._stated[name]), self._stated_place(name), stated=True)
        if value is None:
            self.origins[(name,)] = stated.origin
            return stated.value
        self._compared_facts.add(name)
        if not same(value, stated.value) and not same(written, stated.value):
            self.disagree(stated, Found(written, self.origin(path)))
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

    def found(self, path: Path) -> Found:
        """The value at a path of the file, and its place."""
        return Found(self.at(path), self.origin(path))

    def unsupported(self, path: Path, fact: str) -> None:
        """Note a value that no canonical form can say."""
        self.add(rules.VALUE_NOT_SUPPORTED, self.found(path), fact)

    def disagree(self, found: Found, other: Found) -> None:
        """Note a value that is not the one that another place states."""
        told = f"{shown(found.value)} although {other.origin.key} says {shown(other.value)}"
        self.add(rules.FACTS_DISAGREE, found, told)

    def warn(self, rule: rules.Rule, fact: str, told: str) -> None:
        """Note what is worth knowing of a fact."""
        origin = self.origins.get((fact,), self.origins[()])
        self.findings.append(finding(rule, origin.key or fact, told, value=None, origin=origin))

    def check_keys(self) -> None:
        """Note keys that are nearly a drafter's, and objects of keys that are none.

        Raises:
            CheckpointError: an object has more keys than any configuration.

        """
        for place in ((), *((name,) for name in _SECTIONS)):
            section = self.at(place)
            if section is None:
                continue
            if not isinstance(section, dict):
                self.unsupported(place, f"{shown(section)} is no object of keys")
                continue
            if len(section) > _MOST_KEYS:
                where = f"{'.'.join(place)} holds" if place else "holds"
                told = f"{where} {len(section)} keys, and a configuration at most {_MOST_KEYS}"
                raise CheckpointError(f"{self.document.name}: {told}; pass a model's config.json")
            for key, close, told in misspelt(section):
                self.add(rules.KEY_MISSPELT, self.found((*place, key)), told)
                self._misspelt.add(close)

    def check_stated(self, fields: Mapping[str, object], names: frozenset[str]) -> None:
        """Note stated facts that a drafter of this kind does not have, or has otherwise."""
        for name, told in unknown_facts(self._stated, names):
            found = Found(self._stated[name], self._stated_place(name), stated=True)
            self.add(rules.KEY_MISSPELT, found, told)
        for name in sorted((names & self._stated.keys()) - self._compared_facts):
            found = Found(as_fact(name, self._stated[name]), self._stated_place(name), stated=True)
            other = as_fact(name, fields.get(name))
            if not same(found.value, other):
                held = "this drafter has none" if other is None else f"it has {shown(other)}"
                self.add(rules.FACTS_DISAGREE, found, f"{shown(found.value)} although {held}")

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
            if fact == "target_layer_ids" and self._adds_last_layer(first, other):
                first = other._replace(convention=first.convention)
            elif other.stated and not is_choice(fact, other.value):
                first = other  # refused as such: what is no choice cannot disagree
            elif not same(in_one_convention(other, first), in_one_convention(first, first)):
                self.disagree(other, first)
        self.origins[(fact,)] = first.origin
        return first

    def _adds_last_layer(self, listed: Found, stated: Found) -> bool:
        """Whether the user adds the target's last layer to the ids of the file: some engines
        capture it beyond those that a file lists.
        """
        ids, longer, total = listed.value, stated.value, self.target_layers
        if not (stated.stated and isinstance(ids, tuple) and isinstance(longer, tuple)):
            return False
        if not (longer and same(longer[:-1], ids)):
            return False
        last = 0 if listed.convention == "input_of_layer" else 1
        return total is None or (type(total.value) is int and longer[-1] == total.value - last)

    def _all(self, fact: str) -> Iterator[Found]:
        """Every place that states the fact: the file's keys, then the user."""
        in_file = False
        for alias in self._aliases.get(fact, ()):
            value = as_fact(fact, self.at(alias.path))
            if value is None or (alias.fallback and in_file):
                continue
            in_file, origin = True, self.origin(alias.path)
            if alias.true is not None:
                if not isinstance(value, bool):
                    self.unsupported(alias.path, f"{show(value)} is neither true nor false")
                    self.asked.add(fact)
                    continue
                value = alias.true if value else alias.false
            yield Found(value, origin, alias.convention)
        value = as_fact(fact, self._stated.get(fact))
        if value is not None or (in_file and fact in self._stated):
            yield Found(value, self._stated_place(fact), stated=True)

    def _ask(self, fact: str) -> None:
        """Note that a fact is not stated, why it matters and how to state it."""
        if fact in self.asked:
            return
        self.asked.add(fact)
        if any(alias.path[-1] in self._misspelt for alias in self._aliases.get(fact, ())):
            return  # its misspelt key is noted
        self.findings.append(not_stated(fact, self.origins[()], may_be_stated=self._may_be_stated))

    def _stated_place(self, fact: str) -> Origin:
        return self._stated_origins.get((fact,)) or Origin(None, (fact,))
