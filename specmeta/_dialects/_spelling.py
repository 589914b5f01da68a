"""Words about facts: why one matters, how to state it, and what a misspelt key is meant for."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from .. import _rules as rules
from .._findings import Finding, Origin, finding
from .._partial import MOST_UNKNOWN
from ._aliases import KNOWN, SPELT

_CLOSE = 0.88
_SHORTEST, _LONGEST = 6, 64
"""Characters of a key that is compared with known ones."""
_SQUASHED = {name.replace("_", ""): name for name in SPELT}

_WHY: Mapping[str, str] = {
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


def not_stated(fact: str, origin: Origin, *, may_be_stated: bool) -> Finding:
    """What is wrong where nobody states a fact: why it matters, and how to state it."""
    told = f"is not stated by this file, and {_WHY.get(fact, 'the deployment needs it')}"
    problem = finding(rules.FACT_NOT_STATED, fact, told, value=None, origin=origin)
    if not may_be_stated:
        return replace(problem, remedy="add the key to the file, with the value of the model")
    return replace(problem, remedy=how_to_state(fact, _EXAMPLES.get(fact, "VALUE")))


def how_to_state(fact: str, value: str) -> str:
    """Each way to state a fact."""
    ways = f"--state {fact}={value}, `stated: {{{fact}: {value}}}` in a deployment file"
    return f"state it: {ways}, or stated={{...}} in Python"


def misspelt(keys: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Keys that are nearly a drafter's, each with that one and what is wrong."""
    near = [(key, name) for key in keys if (name := _meant(key)) is not None]
    for index, (key, name) in enumerate(near[:MOST_UNKNOWN]):
        told = f"is no known key; did you mean {name!r}?"
        yield key, name, told + _others(near, index)


def unknown_facts(stated: Collection[str], names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Stated facts that are none of these, each with what is wrong."""
    unknown = [name for name in stated if name not in names]
    listed = f"it has {', '.join(sorted(names))}"
    for index, name in enumerate(unknown[:MOST_UNKNOWN]):
        close = _nearest(name, names, 0.6) if len(name) <= _LONGEST else None
        told = "is no fact of this drafter; " + (f"did you mean {close!r}? " if close else "")
        yield name, told + listed + _others(unknown, index)


def _meant(key: str) -> str | None:
    """The known key that this one is nearly, if it is none itself."""
    if key in KNOWN or not _SHORTEST <= len(key) <= _LONGEST:
        return None
    name = _SQUASHED.get(key.replace("_", "").replace("-", "").lower())
    return _nearest(key, SPELT, _CLOSE) if name is None else name


def _nearest(name: str, known: Collection[str], cutoff: float) -> str | None:
    close = get_close_matches(name, known, n=1, cutoff=cutoff)
    return close[0] if close else None


def _others(found: Collection[object], index: int) -> str:
    """Behind the last that is named: how many others there are."""
    left = len(found) - MOST_UNKNOWN
    return f", and {left} more like it" if left > 0 and index == MOST_UNKNOWN - 1 else ""
