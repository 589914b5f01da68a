"""A reading: a canonical configuration, where each field was written, and what is worth knowing."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from .. import _rules as rules
from .._base import SpecModel
from .._drafter import DFlashDrafterConfig, DrafterConfig, DSparkDrafterConfig
from .._findings import Finding, Origins, Path, findings_of
from .._target import TargetConfig
from ._facts import Facts
from ._values import Found

_Model = TypeVar("_Model", bound=SpecModel)

SIZES = (
    "max_position_embeddings",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "rms_norm_eps",
)


class Reading(NamedTuple):
    """What a file says of a model."""

    config: DrafterConfig | TargetConfig
    """In canonical form."""

    origins: Origins
    """Canonical field to the key that it was written under; ``()`` is the file."""

    dialect: str
    """Name of the published form."""

    findings: tuple[Finding, ...]
    """Warnings."""


def build(facts: Facts, model: type[_Model], fields: Mapping[str, object]) -> _Model:
    """The canonical form of these fields; raises what is wrong with them and with the facts.

    A fact whose absence is noted gets a stand-in, so that the rules on the others run too.

    Raises:
        CheckpointError: every problem at once, each at its key.

    """
    given = {
        name: facts.stand_in(name) if value is None else value for name, value in fields.items()
    }
    facts.check_stated(fields, frozenset(model.model_fields) - {"decoding_type"})
    try:
        config = model.model_validate(given)
    except ValidationError as error:
        facts.findings += [
            problem
            for problem in findings_of(error, facts.origins)
            if problem.value is not None or not (_leaves(problem) & facts.asked)
        ]
        facts.raise_problems()
        raise
    if isinstance(config, DSparkDrafterConfig | DFlashDrafterConfig):
        _check_layers(facts, config)
    facts.raise_problems()
    return config


def _leaves(problem: Finding) -> set[str]:
    return {problem.field, problem.field.rpartition(".")[2]}


def _check_layers(facts: Facts, config: DSparkDrafterConfig | DFlashDrafterConfig) -> None:
    """Ids beyond the target's layers, where the drafter's file says how many those are."""
    total = facts.at(("num_target_layers",))
    if type(total) is not int or max(config.layers_to_capture) < total:
        return
    index = next(i for i, layer in enumerate(config.layers_to_capture) if layer >= total)
    found = Found(config.target_layer_ids[index], facts.origins[("target_layer_ids",)])
    told = f"{config.target_layer_ids[index]} is beyond the {total} layers of num_target_layers"
    facts.add(rules.LAYER_OUT_OF_RANGE, found, told)


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
        **{name: facts.of_file(name, None, section) for name in SIZES},
        "rope_theta": _rope_theta(facts, section),
        "sliding_window": window(facts, section, layers, mixed=mixed),
    }


def window(facts: Facts, section: Path, layers: str, *, mixed: bool = False) -> object:
    """The window that all layers share; None where they attend to the whole context."""
    types, size = (
        facts.at((*section, "layer_types")),
        facts.of_file("sliding_window", None, section),
    )
    key = ".".join(str(part) for part in (*section, "layer_types"))
    if types is None:
        used = facts.at((*section, "use_sliding_window")) is True
        return (facts.required("sliding_window") if size is None else size) if used else None
    count = facts.at((*section, layers))
    if not isinstance(types, list) or (type(count) is int and len(types) != count):
        facts.unsupported(key, f"is not one type for each of the {count} layers")
        return None
    kinds = {str(kind) for kind in types}
    if kinds == {"full_attention"}:
        return None
    if kinds == {"sliding_attention"}:
        return facts.required("sliding_window") if size is None else size
    if mixed:
        return None
    facts.unsupported(key, f"has {sorted(kinds)}, and the layers share one window or have none")
    return None


def _rope_theta(facts: Facts, section: Path) -> object:
    """The rotary base, at the top level or in `rope_parameters`; compared where it is in both."""
    found = facts.of_file("rope_theta", None, section)
    for name in ("rope_parameters", "rope_scaling"):
        nested = facts.at((*section, name, "rope_theta"))
        if nested is None:
            continue
        if found is None:
            found = facts.of_file("rope_theta", None, (*section, name))
        elif found != nested:
            origin = facts.origins[("rope_theta",)]
            key = ".".join(str(part) for part in (*section, name, "rope_theta"))
            facts.disagree(key, Found(found, origin))
    return found


def draft_vocab(facts: Facts, vocab: object, own: object) -> object:
    """Rows of the head: its own number, else the vocabulary's, whose absence is noted once."""
    if vocab is None:
        facts.asked.add("draft_vocab_size")
    return vocab if own is None else own


def block_fields(
    facts: Facts, width: object, convention: str = "output_of_layer"
) -> dict[str, object]:
    """What the block drafters share: block, mask, layers, and what their ids count in this form
    where the user states them.
    """
    target_width = facts.value("target_hidden_size")
    layers = facts.get("target_layer_ids")
    if layers is not None and layers.convention is not None:
        convention = layers.convention
    return {
        "block_size": facts.required("block_size"),
        "mask_token_id": facts.required("mask_token_id"),
        "target_layer_ids": facts.required("target_layer_ids"),
        "layer_id_convention": convention,
        "target_hidden_size": width if target_width is None else target_width,
    }


def causality(facts: Facts, window: object, fixed: str | None) -> object:
    """What a block position sees of its block: what the file says, else what its form fixes."""
    name = "full_causality" if window is None else "windowed_causality"
    special = facts.get(name)
    if special is None:
        found = facts.value("window_causality", fixed)
        return facts.required("window_causality") if found is None else found
    general = facts.get("window_causality")
    if general is not None and general.value != special.value:
        facts.disagree(special.origin.key, general)
    facts.is_from(name, "window_causality")
    return special.value


def dspark_fields(facts: Facts) -> dict[str, object]:
    """What the heads of a DSpark drafter are."""
    rank, confidence = facts.required("markov_rank"), facts.required("enable_confidence_head")
    with_markov = facts.required("confidence_head_with_markov") if confidence else False
    kind = facts.value("markov_head_type")
    if rank == 0:  # a file may keep the type of a head that it has not
        kind = None
    elif rank is not None:
        kind = facts.required("markov_head_type")
    return {
        "markov_rank": rank,
        "markov_head_type": kind,
        "enable_confidence_head": confidence,
        "confidence_head_with_markov": with_markov,
    }


def finish(facts: Facts, config: DrafterConfig | TargetConfig, dialect: str) -> Reading:
    """The reading of a configuration, with its warnings."""
    if isinstance(config, DSparkDrafterConfig | DFlashDrafterConfig):
        _warn_of_shifted_layers(facts, config)
    return Reading(config, facts.origins, dialect, tuple(facts.findings))


def usual_layers(target_layers: int, count: int) -> tuple[int, ...]:
    """The layer outputs that z-lab's code captures where a file names none: one in the middle, or
    evenly spaced from 1 to the third layer from the end.
    """
    if count == 1:
        return (target_layers // 2,)
    step = (target_layers - 4) / (count - 1)
    return tuple(round(1 + step * index) for index in range(count))


def _warn_of_shifted_layers(
    facts: Facts, config: DSparkDrafterConfig | DFlashDrafterConfig
) -> None:
    """Ids that are the usual ones of the other convention."""
    total = facts.at(("num_target_layers",))
    if type(total) is not int or not 8 <= total <= 10_000 or len(config.target_layer_ids) < 3:
        return
    usual = usual_layers(total, len(config.target_layer_ids))
    by_output = config.layer_id_convention == "output_of_layer"
    shift = 1 if by_output else 0
    if config.target_layer_ids == tuple(layer + shift for layer in usual):
        other = "inputs" if by_output else "outputs"
        told = f"{list(config.target_layer_ids)} are the usual ids of layer {other}"
        facts.warn(rules.LAYER_IDS_LOOK_SHIFTED, "target_layer_ids", told)
