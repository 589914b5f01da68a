"""Checkpoints as parts of a deployment, their tensors compared with their configuration."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from ._checkpoint import Checkpoint
from ._dialects import Reading, agree, check_weights, read_bundled, read_drafter, read_target
from ._drafter import DrafterConfig
from ._errors import show
from ._files import weights_in
from ._findings import NOTHING, NOWHERE, InputError, Origin, Origins, Path, finding
from ._parts import Parts
from ._rules import FACTS_DISAGREE, WEIGHTS_NOT_READ
from ._target import TargetConfig

# A width that a file leaves out is the other one.
_DERIVED = {"target_hidden_size": "hidden_size", "draft_vocab_size": "vocab_size"}

Stated = tuple[Mapping[str, object], Origins]
"""Facts by name, and where they were stated."""


class Known(NamedTuple):
    """What is known of a drafter beside its files."""

    stated: Mapping[str, object] = NOTHING
    """Facts that no file states, by their canonical name."""

    origins: Origins = NOWHERE
    """Where each of them was stated."""

    decoding_type: str | None = None
    """Which of a checkpoint's drafters is meant."""


def add_target(parts: Parts, checkpoint: Checkpoint) -> None:
    """Read a target.

    Raises:
        CheckpointError: it is none that is read.

    """
    reading = read_target(checkpoint.document)
    parts.target = reading.config
    _add(parts, "target", reading, checkpoint)


def add_drafter(
    parts: Parts,
    checkpoint: Checkpoint | None,
    target: Checkpoint | None,
    facts: Known,
    *,
    weights: bool,
) -> None:
    """Read a drafter; one without a checkpoint of its own is in the target's.

    Raises:
        CheckpointError: it is none that is read, or breaks a rule.

    """
    if checkpoint is not None:
        reading = read_drafter(
            checkpoint.document,
            stated=facts.stated,
            stated_origins=facts.origins,
            target=None if target is None else target.document,
            decoding_type=facts.decoding_type,
        )
    elif target is not None:
        reading = read_bundled(
            target.document,
            stated=facts.stated,
            stated_origins=facts.origins,
            decoding_type=facts.decoding_type,
        )
        checkpoint = target
    else:  # the target could not be read, and says so
        return
    parts.drafter, parts.dialect = reading.config, reading.dialect
    _add(parts, "drafter", reading, checkpoint)
    if weights and checkpoint.directory is not None:
        tensors, unread = weights_in(checkpoint.directory)
        if tensors is not None:
            parts.findings.extend(check_weights(reading, tensors, target=parts.target))
        elif unread is not None:
            whole = Origin(checkpoint.document, ())
            told = finding(WEIGHTS_NOT_READ, "weights", unread, value=None, origin=whole)
            parts.findings.append(told)


def gathered(sources: Iterable[Stated], decoding_type: str | None) -> Known:
    """The facts of several places together, the later ones' places preferred.

    Raises:
        InputError: two places state different values of one fact.

    """
    stated: dict[str, object] = {}
    origins: dict[Path, Origin] = {}
    found = []
    for facts, places in sources:
        for name, value in facts.items():
            if name in stated and not agree(name, stated[name], value):
                fact = f"{show(value)} although {show(stated[name])} is stated too"
                place = places.get((name,)) or origins[(name,)]
                found.append(finding(FACTS_DISAGREE, name, fact, value=value, origin=place))
            stated[name] = value
            origins[(name,)] = places.get((name,)) or Origin(None, (name,))
    if found:
        raise InputError.of(found)
    return Known(stated, origins, decoding_type)


def _add(
    parts: Parts,
    part: Literal["target", "drafter"],
    reading: Reading[DrafterConfig] | Reading[TargetConfig],
    checkpoint: Checkpoint,
) -> None:
    parts.origins[(part,)] = Origin(checkpoint.document, ())
    origins = dict(reading.origins)
    for name, source in _DERIVED.items():
        if (source,) in origins:
            origins.setdefault((name,), origins[(source,)])
    parts.origins.update({(part, *path): origin for path, origin in origins.items()})
    parts.findings.extend(reading.findings)
