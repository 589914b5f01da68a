"""The speculators form: facts at the top level, sizes in `transformer_layer_config`.

Its ids name layer inputs. Its schema has defaults for block, convention and vocabulary, which
releases have changed; a file that does not state them is asked for them.
"""

from .. import _rules as rules
from .._drafter import DFlashDrafterConfig, DrafterConfig, DSparkDrafterConfig, MTPDrafterConfig
from .._findings import CheckpointError
from ._facts import Facts
from ._layers import sizes
from ._reading import Reading, block_fields, build, causality, dspark_fields, finish
from ._values import same, shown

MARKS = ("speculators_model_type", "speculators_config", "speculators_version")
_BODY = ("transformer_layer_config",)
_KINDS = ("dflash", "dspark", "mtp")


def read(facts: Facts) -> Reading[DrafterConfig]:
    """The canonical form. Raises `CheckpointError` with every problem."""
    kind = _algorithm(facts)
    fields = sizes(facts, _BODY)
    if kind == "mtp":
        fields["num_layers"] = facts.value("num_mtp_layers", 1)
        facts.is_from("num_mtp_layers", "num_layers")
        fields["target_hidden_state"] = facts.required("target_hidden_state")
        return finish(facts, build(facts, MTPDrafterConfig, fields), "speculators")
    fields["draft_vocab_size"] = facts.required("draft_vocab_size")
    fields |= block_fields(facts, fields["hidden_size"], "input_of_layer")
    fields["anchor_convention"] = facts.required("anchor_convention")
    fixed = "non_causal" if fields["sliding_window"] is None else None
    fields["window_causality"] = causality(facts, fields["sliding_window"], fixed)
    if kind == "dflash":
        return finish(facts, build(facts, DFlashDrafterConfig, fields), "speculators")
    fields |= dspark_fields(facts)
    return finish(facts, build(facts, DSparkDrafterConfig, fields), "speculators")


def _algorithm(facts: Facts) -> str:
    """dflash, dspark or mtp; every other algorithm has no canonical form."""
    places = (("speculators_model_type",), ("speculators_config", "algorithm"))
    found = [facts.found(path) for path in places if facts.at(path) is not None]
    first = found[0] if found else facts.found(places[0])
    for other in found[1:]:
        if not same(other.value, first.value):
            facts.disagree(other, first)
    facts.raise_problems()
    if isinstance(first.value, str) and first.value in _KINDS:
        return first.value
    told = f"{shown(first.value)} is no block drafter and no MTP: dflash, dspark and mtp are read"
    facts.add(rules.CHECKPOINT_NOT_RECOGNIZED, first, told)
    raise CheckpointError.of(facts.findings)
