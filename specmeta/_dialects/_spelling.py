"""Words about facts: why one matters, an example, and the key that a misspelt one is meant for."""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

from ._aliases import KNOWN, SPELT

_CLOSE = 0.88
_SQUASHED = {name.replace("_", ""): name for name in SPELT}

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


def example_of(fact: str) -> str:
    """A value that could be stated."""
    return _EXAMPLES.get(fact, "VALUE")


def misspelt(keys: Collection[str]) -> Iterator[tuple[str, str]]:
    """Keys that are nearly a drafter's, each with that one."""
    for key in keys:
        if key in KNOWN:
            continue
        name = _SQUASHED.get(key.replace("_", "").replace("-", "").lower())
        if name is None and 6 <= len(key) <= 40:
            name = nearest_of(key, SPELT, _CLOSE)
        if name is not None:
            yield key, name


def nearest_of(name: str, known: Collection[str], cutoff: float = 0.6) -> str | None:
    """The known name that this one is nearest to, if it is near."""
    close = get_close_matches(name, known, n=1, cutoff=cutoff)
    return close[0] if close else None
