"""A reading: a canonical configuration, where each field was written, and what is worth knowing."""

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from .. import _rules as rules
from .._base import SpecModel
from .._drafter import DFlashDrafterConfig, DrafterConfig, DSparkDrafterConfig
from .._findings import Finding, Origins, Path, findings_of
from .._target import TargetConfig
from .._written import validate_written
from ._facts import Facts
from ._values import Found, same, shown

DFLASH2 = ("selector_rank", "selector_top_k", "conv_kernel_size", "conv_group_size")
"""Names of what the layers of a DFlash2 drafter have and no others do."""

_Model = TypeVar("_Model", bound=SpecModel)
_Config = TypeVar("_Config", DrafterConfig, TargetConfig)


class Reading(NamedTuple, Generic[_Config]):
    """What a file says of a model."""

    config: _Config
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
        config = validate_written(model, given)
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
    total = _target_layers(facts)
    if total is None or max(config.layers_to_capture) < total:
        return
    index = next(i for i, layer in enumerate(config.layers_to_capture) if layer >= total)
    found = Found(config.target_layer_ids[index], facts.origins[("target_layer_ids",)])
    told = f"{config.target_layer_ids[index]} is beyond the {total} layers of the target"
    facts.add(rules.LAYER_OUT_OF_RANGE, found, told)


def _target_layers(facts: Facts) -> int | None:
    value = None if facts.target_layers is None else facts.target_layers.value
    return value if type(value) is int else None


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
    block, ids = facts.required("block_size"), facts.required("target_layer_ids")
    _check_beside(facts, block, ids)
    return {
        "block_size": block,
        "mask_token_id": facts.required("mask_token_id"),
        "target_layer_ids": ids,
        "layer_id_convention": convention,
        "target_hidden_size": width if target_width is None else target_width,
    }


def _check_beside(facts: Facts, block: object, ids: object) -> None:
    """Compare what some files say beside the block and the layer ids."""
    run = facts.found(("runtime_block_size",))
    if run.value is not None and not same(run.value, block):
        told = (
            f"{shown(run.value)} is the block of a run, and {shown(block)} that of the checkpoint"
        )
        facts.add(rules.VALUE_NOT_READ, run, told)
    count = facts.found(("num_aux_hidden_states",))
    if isinstance(ids, tuple) and count.value is not None and not same(count.value, len(ids)):
        told = f"{shown(count.value)} although {len(ids)} layer ids are listed"
        facts.add(rules.FACTS_DISAGREE, count, told)


def causality(facts: Facts, window: object, fixed: str | None) -> object:
    """What a block position sees of its block: what the file says, else what its form fixes."""
    name = "full_causality" if window is None else "windowed_causality"
    special = facts.get(name)
    if special is None:
        found = facts.value("window_causality", fixed)
        return facts.required("window_causality") if found is None else found
    general = facts.get("window_causality")
    if general is not None and general.value != special.value:
        facts.disagree(special, general)
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


def refuse_heads(facts: Facts) -> None:
    """Note heads of DSpark in the file of a drafter that has none: they would be ignored."""
    for fact in ("markov_rank", "enable_confidence_head"):
        found = facts.get(fact)
        if found is not None and not found.stated and found.value not in (0, None):
            told = f"{shown(found.value)} although this form of drafter has no such head"
            facts.add(rules.VALUE_NOT_SUPPORTED, found, told)


def refuse_dflash2(facts: Facts, paths: Iterable[Path]) -> None:
    """Note the keys at these places, which a form has for each of `DFLASH2`."""
    for path in paths:
        if facts.at(path):
            facts.unsupported(path, "is of a DFlash2 drafter, whose layers are not read")


def finish(facts: Facts, config: DrafterConfig, dialect: str) -> Reading[DrafterConfig]:
    """The reading of a drafter, with its warnings."""
    if isinstance(config, DSparkDrafterConfig | DFlashDrafterConfig):
        _warn_of_shifted_layers(facts, config)
    if (
        isinstance(config, DSparkDrafterConfig)
        and config.markov_head_type == "rnn"
        and config.anchor_convention == "mask_at_position"
    ):
        told = "'rnn' starts its state at the anchor or at the first mask, and no key says which"
        facts.warn(rules.MARKOV_START_NOT_STATED, "markov_head_type", told)
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
    total = _target_layers(facts)
    if total is None or not 8 <= total <= 10_000 or len(config.target_layer_ids) < 3:
        return
    usual = usual_layers(total, len(config.target_layer_ids))
    by_output = config.layer_id_convention == "output_of_layer"
    shift = 1 if by_output else 0
    if config.target_layer_ids == tuple(layer + shift for layer in usual):
        other = "inputs" if by_output else "outputs"
        told = f"{list(config.target_layer_ids)} are the usual ids of layer {other}"
        facts.warn(rules.LAYER_IDS_LOOK_SHIFTED, "target_layer_ids", told)
