"""Sizes of a drafter's decoder layers: heads, rotary positions and window."""

from .. import _rules as rules
from .._errors import show
from .._findings import Path
from ._facts import Facts
from ._values import Found, as_fact, same

SIZES = (
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "rms_norm_eps",
)
_ROTARY = ("rope_parameters", "rope_scaling")
# Forms of rotary scaling that reach beyond the max_position_embeddings of a file; llama3 and
# longrope files have the longer number there.
_SCALED = ("yarn", "linear", "dynamic")
_MAX_FACTOR = 1e6


def sizes(
    facts: Facts,
    section: Path = (),
    layers: str = "num_hidden_layers",
    *,
    mixed: bool = False,
) -> dict[str, object]:
    """What every drafter's decoder layers have; None where the file does not say.

    `mixed` is for the file of a target, whose own layers may be of several kinds.
    """
    hidden = facts.size("hidden_size", None, section)
    vocab = facts.size("vocab_size", None, section)
    return {
        "hidden_size": hidden,
        "num_layers": facts.size(layers, "num_layers", section),
        "vocab_size": vocab,
        "draft_vocab_size": draft_vocab(facts, vocab, facts.value("draft_vocab_size")),
        "attention_kind": "grouped_query",
        "max_position_embeddings": positions(facts, section),
        **{name: facts.of_file(name, None, section) for name in SIZES},
        "rope_theta": rope_theta(facts, section),
        "sliding_window": window(facts, section, layers, mixed=mixed),
    }


def positions(facts: Facts, section: Path) -> object:
    """The longest sequence: where rotary positions are scaled, the one that they are scaled to."""
    stated = facts.at((*section, "max_position_embeddings"))
    longest = 0
    for name in _ROTARY:
        rotary = facts.at((*section, name))
        if not isinstance(rotary, dict):
            continue
        kind, factor = rotary.get("rope_type", rotary.get("type")), rotary.get("factor")
        if kind not in _SCALED or factor is None:
            continue
        if type(factor) not in (int, float) or not 0 < factor <= _MAX_FACTOR:
            facts.unsupported((*section, name, "factor"), "is no factor of rotary scaling")
            continue
        trained = rotary.get("original_max_position_embeddings")
        if kind != "yarn" or trained is None:
            trained = stated
        scaled_already = str(facts.at((*section, "model_type"))).startswith("gemma3")
        if type(trained) is int and not scaled_already:
            longest = max(longest, int(trained * factor))
    return facts.of_file("max_position_embeddings", None, section, least=longest)


def window(facts: Facts, section: Path, layers: str, *, mixed: bool = False) -> object:
    """The window that all layers share; None where they attend to the whole context."""
    types, size = (
        facts.at((*section, "layer_types")),
        facts.of_file("sliding_window", None, section),
    )
    path = (*section, "layer_types")
    if types is None:
        used = facts.at((*section, "use_sliding_window")) is True
        return (facts.required("sliding_window") if size is None else size) if used else None
    count = facts.at((*section, layers))
    if not isinstance(types, list) or (type(count) is int and len(types) != count):
        layers_of = "layers" if count is None else f"{show(count)} layers"
        facts.unsupported(path, f"is not one type for each of the {layers_of}")
        return None
    kinds = {str(kind) for kind in types}
    if kinds == {"full_attention"}:
        return None
    if kinds == {"sliding_attention"}:
        return facts.required("sliding_window") if size is None else size
    if mixed:
        return None
    facts.unsupported(path, f"has {sorted(kinds)}, and the layers share one window or have none")
    return None


def rope_theta(facts: Facts, section: Path) -> object:
    """The rotary base, at the top level or in `rope_parameters`; compared where it is in both."""
    found = facts.of_file("rope_theta", None, section)
    for name in _ROTARY:
        path = (*section, name, "rope_theta")
        nested = as_fact("rope_theta", facts.at(path))
        if nested is None:
            continue
        if found is None:
            found = facts.of_file("rope_theta", None, (*section, name))
        elif not same(found, nested):
            other = Found(found, facts.origins[("rope_theta",)])
            facts.disagree(Found(nested, facts.origin(path)), other)
    return found


def draft_vocab(facts: Facts, vocab: object, own: object) -> object:
    """Rows of the head: its own number, else the vocabulary's, whose absence is noted once."""
    if vocab is None:
        facts.asked.add("draft_vocab_size")
    return vocab if own is None else own


def warn_of_rotation(facts: Facts) -> None:
    """Note rotary positions that turn neighbouring channels, which no field says."""
    for key in ("rope_is_neox_style", "is_neox_style"):
        found = facts.found((key,))
        if found.value is False:
            told = "false turns neighbouring channels, not the halves of a head"
            facts.add(rules.VALUE_NOT_READ, found, told)
