"""Facts of a file under any of their spellings, compared with each other and with what the user
stated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from typing import NamedTuple

from .. import _rules as rules
from .._errors import show
from .._files import Document
from .._findings import CheckpointError, Finding, Origin, Origins, Path, finding
from ._aliases import ALIASES, KNOWN, SPELT, Alias

_CLOSE = 0.88

WHY: Mapping[str, str] = {
    "anchor_convention": "slot k predicts position anchor + k + 1 (anchor_first) or fills its own, "
    "anchor + k (mask_at_position), and the tensors are the same",
    "window_causality": "a windowed block sees itself whole (non_causal) or only its past (causal)",
    "target_hidden_state": "the layer reads the target's last state before_final_norm or "
    "after_final_norm",
    "block_size": "it bounds the drafts of a forward",
    "mask_token_id": "it fills the block behind the anchor",
    "target_layer_ids": "the drafter reads the states of those layers",
}
_EXAMPLES = {
    "anchor_convention": "anchor_first",
    "window_causality": "non_causal",
    "target_hidden_state": "after_final_norm",
    "target_layer_ids": "[1,9,17]",
}


class Found(NamedTuple):
    """A fact, and where it was written."""

    value: object
    origin: Origin
    convention: str | None = None


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

    def get(self, fact: str) -> Found | None:
        """The fact where the file or the user states it; None where neither does."""
        found = list(self._all(fact))
        if not found:
            return None
        first = found[0]
        for other in found[1:]:
            if _comparable(other) != _comparable(first):
                told = f"{_shown(other.value)} although {first.origin.key} says "
                self._add(rules.FACTS_DISAGREE, other, told + _shown(first.value))
        self.origins.setdefault((fact,), first.origin)
        return first

    def value(self, fact: str, default: object = None) -> object:
        """The fact, or `default` where nobody states it and the layout fixes it."""
        found = self.get(fact)
        return default if found is None else found.value

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

    def _ask(self, fact: str) -> None:
        """Note that a fact is not stated, why it matters and how to state it."""
        why = WHY.get(fact, "the deployment needs it")
        example = _EXAMPLES.get(fact, "VALUE")
        told = f"--state {fact}={example}, `stated: {{{fact}: {example}}}` in a deployment file"
        problem = finding(
            rules.FACT_NOT_STATED,
            fact,
            f"is not stated by this file, and {why}",
            value=None,
            origin=self.origins[()],
        )
        remedy = f"state it: {told}, or stated={{...}} in Python"
        if not self._may_be_stated:
            remedy = "add the key to the file, with the value of the model"
        close = self._near(fact)
        if close is not None:
            remedy += f"; did you mean it by {close!r}?"
        self.findings.append(replace(problem, remedy=remedy))

    def of_file(self, key: str, field: str | None = None, section: Path = ()) -> object:
        """A key that has one spelling, in a section of the file; None where it is not there."""
        value = self.at((*section, key))
        name = key if field is None else field
        if name in self._stated:
            stated = self._stated[name]
            origin = self._stated_place(name)
            if value is not None and value != stated:
                told = f"{_shown(stated)} although the file says {_shown(value)}"
                self._add(rules.FACTS_DISAGREE, Found(stated, origin), told)
            value = stated if value is None else value
            self.origins.setdefault((name,), origin)
        if self.at((*section, key)) is not None:
            self.origins[(name,)] = Origin(self.document, (*self._prefix, *section, key))
        return value

    def at(self, path: Path) -> object:
        """The value at a path of the file; None where it is not there."""
        value: object = self._data
        for part in path:
            if not isinstance(value, dict):
                return None
            value = value.get(part)
        return value

    def origin(self, path: Path) -> Origin:
        """The place of a path of the file."""
        return Origin(self.document, (*self._prefix, *path))

    def unsupported(self, key: str, fact: str) -> None:
        """Note a value that no canonical form can say."""
        origin = Origin(self.document, (*self._prefix, *key.split(".")))
        self._add(rules.VALUE_NOT_SUPPORTED, Found(self.at(tuple(key.split("."))), origin), fact)

    def disagree(self, key: str, other: Found) -> None:
        """Note a key whose value is not the one that another place states."""
        origin = Origin(self.document, (*self._prefix, *key.split(".")))
        value = self.at(tuple(key.split(".")))
        told = f"{_shown(value)} although {other.origin.key} says {_shown(other.value)}"
        self._add(rules.FACTS_DISAGREE, Found(value, origin), told)

    def warn(self, rule: rules.Rule, fact: str, told: str) -> None:
        """Note what is worth knowing of a fact."""
        origin = self.origins.get((fact,), self.origins[()])
        self.findings.append(finding(rule, origin.key or fact, told, value=None, origin=origin))

    def check_spelling(self) -> None:
        """Note keys that are nearly a drafter's."""
        for place in ((), ("dflash_config",), ("dspark_config",)):
            section = self.at(place)
            for key in section if isinstance(section, dict) else ():
                close = None if key in KNOWN else _nearest(key)
                if close is not None:
                    origin = Origin(self.document, (*self._prefix, *place, key))
                    told = f"is no known key; did you mean {close!r}?"
                    self._add(rules.KEY_MISSPELT, Found(self.at((*place, key)), origin), told)

    def raise_problems(self) -> None:
        """Raise what is wrong, all of it. Raises `CheckpointError`."""
        if any(problem.severity == "error" for problem in self.findings):
            raise CheckpointError.of(self.findings)

    def _all(self, fact: str) -> Iterator[Found]:
        """Every place that states the fact: the file's keys, then the user."""
        in_file = False
        for alias in self._aliases.get(fact, ()):
            if alias.fallback and in_file:
                continue
            path = self._path(alias.key)
            value = self.at(path)
            if value is None:
                continue
            in_file = True
            origin = Origin(self.document, (*self._prefix, *path))
            if alias.true is not None:
                if not isinstance(value, bool):
                    told = f"{show(value)} is neither true nor false"
                    self._add(rules.VALUE_NOT_SUPPORTED, Found(value, origin), told)
                    continue
                value = alias.true if value else alias.false
            yield Found(as_tuple(value), origin, alias.convention)
        if fact in self._stated:
            yield Found(as_tuple(self._stated[fact]), self._stated_place(fact))

    def _path(self, key: str) -> Path:
        # GGUF metadata is flat: its keys have dots.
        return (key,) if self._aliases is not ALIASES else tuple(key.split("."))

    def _stated_place(self, fact: str) -> Origin:
        return self._stated_origins.get((fact,)) or Origin(Document("stated", None), (fact,))

    def _near(self, fact: str) -> str | None:
        for key in self._data:
            close = None if key in KNOWN else _nearest(key)
            if close is not None and any(a.key == close for a in self._aliases.get(fact, ())):
                return key
        return None

    def _add(self, rule: rules.Rule, found: Found, fact: str) -> None:
        key = found.origin.key or rule.name
        self.findings.append(finding(rule, key, fact, value=found.value, origin=found.origin))


def as_tuple(value: object) -> object:
    """A JSON list in the form that the models take."""
    return tuple(value) if isinstance(value, list) else value


def _comparable(found: Found) -> object:
    """The value in one convention, so that ids of layer inputs compare with ids of outputs."""
    if found.convention == "input_of_layer" and isinstance(found.value, tuple):
        return tuple(i - 1 if type(i) is int else i for i in found.value)
    return found.value


def _shown(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) and len(value) <= 16 else show(value)


def _nearest(key: str) -> str | None:
    """The drafter key that this one is nearly, if any."""
    squashed = key.replace("_", "").replace("-", "").lower()
    for name in SPELT:
        if squashed == name.replace("_", ""):
            return name
    if len(key) < 6 or len(key) > 40:
        return None
    best = max(SPELT, key=lambda name: SequenceMatcher(None, key, name).ratio())
    return best if SequenceMatcher(None, key, best).ratio() >= _CLOSE else None
