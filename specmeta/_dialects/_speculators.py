"""The speculators form: facts at the top level, sizes in `transformer_layer_config`.

Its ids name layer inputs. Its schema has defaults for block, convention and vocabulary, which
releases have changed; a file that does not state them is asked for them.
"""

from .. import _rules as rules
from .._drafter import DFlashDrafterConfig, DSparkDrafterConfig, MTPDrafterConfig
from .._findings import CheckpointError, finding
from ._facts import Facts
from ._reading import Reading, block_fields, build, causality, dspark_fields, finish, sizes

MARKS = ("speculators_model_type", "speculators_config", "speculators_version")
_BODY = ("transformer_layer_config",)


def read(facts: Facts) -> Reading:
    """The canonical form. Raises `CheckpointError` with every problem."""
    kind = _algorithm(facts)
    if kind == "mtp":
        fields = sizes(facts, _BODY)
        fields["num_layers"] = facts.value("num_mtp_layers", 1)
        facts.is_from("num_mtp_layers", "num_layers")
        fields["target_hidden_state"] = facts.required("target_hidden_state")
        return finish(facts, build(facts, MTPDrafterConfig, fields), "speculators")
    fields = sizes(facts, _BODY)
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
    found = [(path, facts.at(path)) for path in places if facts.at(path) is not None]
    path, kind = found[0] if found else (("speculators_model_type",), None)
    if len({str(value) for _, value in found}) > 1:
        origin = facts.origin(found[1][0])
        told = f"{found[1][1]!r} although {'.'.join(path)} says {kind!r}"
        raise CheckpointError.of(
            [finding(rules.FACTS_DISAGREE, origin.key, told, value=found[1][1], origin=origin)]
        )
    if kind in ("dflash", "dspark", "mtp"):
        return str(kind)
    origin = facts.origin(path)
    told = f"{kind!r} is no block drafter and no MTP: dflash, dspark and mtp are read"
    raise CheckpointError.of(
        [finding(rules.CHECKPOINT_NOT_RECOGNIZED, origin.key, told, value=kind, origin=origin)]
    )
