"""What is asked for where no file states a fact, and what is said of a stated fact that is none."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from .. import _rules as rules
from .._drafter import DFlashDrafterConfig, DSparkDrafterConfig, MTPDrafterConfig
from .._findings import Finding, Origin, finding
from ._aliases import Alias
from ._spelling import nearest

_WHY: Mapping[str, str] = MappingProxyType(
    {
        "anchor_convention": "slot k predicts position anchor + k + 1 (anchor_first) or fills its "
        "own, anchor + k (mask_at_position), and the tensors are the same",
        "window_causality": "a block sees itself whole (non_causal) or only its past (causal)",
        "target_hidden_state": "the layer reads the target's last state before_final_norm or "
        "after_final_norm",
        "block_size": "it bounds the drafts of a forward",
        "mask_token_id": "it fills the block behind the anchor",
        "target_layer_ids": "the drafter reads the states of those layers",
        "markov_head_type": "the forms of the Markov head read the same tensors differently",
        "sliding_window": "its layers attend to that many positions",
    }
)
_EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "anchor_convention": "anchor_first",
        "window_causality": "non_causal",
        "target_hidden_state": "after_final_norm",
        "target_layer_ids": "[1,9,17]",
        "markov_head_type": "vanilla",
        "enable_confidence_head": "true",
        "confidence_head_with_markov": "true",
    }
)
_NAMES = {
    name
    for model in (DSparkDrafterConfig, DFlashDrafterConfig, MTPDrafterConfig)
    for name in model.model_fields
}


def question(fact: str, spelt: Sequence[Alias], file: Origin, can_state: bool) -> Finding:
    """The finding of a fact that no file states: why it matters, and how to state it."""
    why = _WHY.get(fact, "the deployment needs it")
    told = f"is not stated by this file, and {why}"
    asked = finding(rules.FACT_NOT_STATED, fact, told, value=None, origin=file)
    if not can_state:
        return replace(asked, remedy=f"add {spelt[0].key} to the file")
    example = _EXAMPLES.get(fact, "VALUE")
    in_file = f"`stated: {{{fact}: {example}}}` in a deployment file"
    ways = f"--state {fact}={example}, {in_file}, or stated={{...}} in Python"
    return replace(asked, remedy=f"state it: {ways}")


def no_fact(name: str, model: str) -> tuple[rules.Rule, str]:
    """The rule and the text for a stated fact that a drafter of this kind does not have."""
    if name in _NAMES:
        return rules.VALUE_NOT_SUPPORTED, f"is stated, and {model} has no such field"
    close = nearest(name, sorted(_NAMES))
    meant = f"did you mean {close!r}?" if close else f"the facts are {', '.join(sorted(_NAMES))}"
    return rules.KEY_MISSPELT, f"is stated and no fact of a drafter; {meant}"
