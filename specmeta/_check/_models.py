"""Checks of what models and engines publish: checkpoints, pairs, an engine's arguments."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from .._checkpoint import Checkpoint, is_pair, open_checkpoint
from .._deployment import Deployment
from .._dialects import dialect_of, has_bundled_drafter, read_target
from .._files import Document, is_there, shown_path
from .._findings import CheckpointError, InputError
from .._pairs import Stated, add_drafter, add_target, gathered
from .._parts import Parts
from ._options import CheckOptions, layout_of, method_of
from ._report import InputReport

_NO_ENGINE = "no engine is given: only the rules between target and drafter were checked"


def check_pair(item: InputReport, directory: Path, options: CheckOptions) -> None:
    """A directory with ``target/``, and ``drafter/`` unless the target holds its drafter."""
    item.kind = "pair"
    drafter = directory / "drafter"
    item.used.add("roots")
    opened = partial(open_checkpoint, within=(directory, *options.roots))
    target = partial(opened, directory / "target")
    _pair(item, target, partial(opened, drafter) if is_there(drafter) else None, options)


def check_checkpoint(item: InputReport, checkpoint: Checkpoint, options: CheckOptions) -> None:
    """A checkpoint: a drafter, a target, or both in one."""
    document = checkpoint.document
    if options.target is not None:
        item.used.add("target")
        if has_bundled_drafter(document):
            fact = "holds its drafter itself, and is no drafter for another --target"
            raise InputError(f"{document.name}: {fact}; leave out --target")
        dialect_of(document)
        item.kind = "pair"
        target = _named("target", options.target)
        _pair(item, partial(open_checkpoint, target), lambda: checkpoint, options)
    elif _is_drafter(document):
        item.kind = "drafter"
        _drafter(item, checkpoint, options)
    elif options.drafter is not None:
        item.kind = "pair"
        item.used.add("drafter")
        drafter = _named("drafter", options.drafter)
        _pair(item, lambda: checkpoint, partial(open_checkpoint, drafter), options)
    elif has_bundled_drafter(document):
        item.kind = "pair"
        _pair(item, lambda: checkpoint, None, options)
    else:
        item.kind = "target"
        parts = Parts()
        with parts.reading():
            add_target(parts, checkpoint)
        item.notes.append("target checkpoint without a drafter: give it with --drafter DIR")
        _collect(item, parts)


def check_arguments(
    item: InputReport, document: Document, engine: str, options: CheckOptions
) -> Deployment | None:
    """An engine's arguments, with the pair that they are for where it is given."""
    from .._argument_files import add_arguments, drafter_facts
    from .._arguments import ENGINES

    item.kind, item.dialect = "arguments", engine
    item.used |= {"target", "drafter"}
    item.notes.append(f"{ENGINES[engine]} arguments")
    parts = Parts()
    target = drafter = None
    sources: list[Stated] = [(options.stated, {})]
    with parts.reading():
        if options.target is not None:
            target = open_checkpoint(_named("target", options.target))
            add_target(parts, target)
    with parts.reading():
        sources.append(drafter_facts(add_arguments(parts, document, engine, target)))
    with parts.reading():
        if options.drafter is not None:
            drafter = open_checkpoint(_named("drafter", options.drafter))
        if drafter is not None or (target is not None and has_bundled_drafter(target.document)):
            method = options.decoding_type
            if parts.decoding is not None:
                method = parts.decoding.decoding_type
            item.used |= {"stated", "decoding_type", "weights"}
            facts = gathered(sources, method)
            add_drafter(parts, drafter, target, facts, weights=options.weights)
    with parts.reading():
        if parts.decoding is not None:
            _check_method(document.name, parts.decoding.decoding_type, options)
    absent = [
        f"--{name} DIR"
        for name, part in (("target", target), ("drafter", parts.drafter))
        if part is None and not parts.unreadable
    ]
    if absent:
        item.notes.append(f"not checked against a whole pair: give {' and '.join(absent)}")
    return _collect(item, parts)


def _pair(
    item: InputReport,
    open_target: Callable[[], Checkpoint],
    open_drafter: Callable[[], Checkpoint] | None,
    options: CheckOptions,
) -> None:
    parts, target, drafter = Parts(), None, None
    item.used |= {"stated", "decoding_type", "weights"}
    with parts.reading():
        target = open_target()
        add_target(parts, target)
    with parts.reading():
        if open_drafter is not None:
            drafter = open_drafter()
        facts = gathered([(options.stated, {})], options.decoding_type)
        add_drafter(parts, drafter, target, facts, weights=options.weights)
        _check_read_method(drafter or target, parts, options)
    _recognised(item, parts, bundled=open_drafter is None)
    if parts.target is not None and parts.drafter is not None:
        item.notes.append(_NO_ENGINE)
    _collect(item, parts)


def _drafter(item: InputReport, checkpoint: Checkpoint, options: CheckOptions) -> None:
    parts = Parts()
    item.used |= {"stated", "decoding_type", "weights"}
    with parts.reading():
        facts = gathered([(options.stated, {})], options.decoding_type)
        add_drafter(parts, checkpoint, None, facts, weights=options.weights)
        _check_read_method(checkpoint, parts, options)
    _recognised(item, parts, bundled=False)
    item.notes.append("checked alone: give its target with --target DIR to check the pair")
    _collect(item, parts)


def _named(option: Literal["target", "drafter"], path: Path) -> Path:
    """The checkpoint that an option names.

    Raises:
        InputError: it is the directory of a pair.

    """
    if not is_pair(path):
        return path
    inner = shown_path(path / option)
    raise InputError(f"--{option} {shown_path(path)}: holds a pair; pass {inner}")


def _check_read_method(checkpoint: Checkpoint | None, parts: Parts, options: CheckOptions) -> None:
    if checkpoint is not None and parts.drafter is not None:
        _check_method(checkpoint.document.name, parts.drafter.decoding_type, options)


def _check_method(name: str, found: str, options: CheckOptions) -> None:
    """Refuse a method that is asked for and not there."""
    asked = options.decoding_type
    if asked is not None and asked != found:
        fact = f"is of {method_of(found)} drafter, not of {method_of(asked)} one"
        raise InputError(f"{name}: {fact}; correct --decoding-type, or leave it out")


def _is_drafter(document: Document) -> bool:
    """Whether a checkpoint is a drafter of its own.

    Raises:
        CheckpointError: it is neither that nor a target.

    """
    if has_bundled_drafter(document):
        return False
    try:
        dialect_of(document)
    except CheckpointError as unknown:
        try:
            read_target(document)
        except CheckpointError:
            raise unknown from None
        return False
    return True


def _recognised(item: InputReport, parts: Parts, *, bundled: bool) -> None:
    item.dialect = parts.dialect
    if parts.drafter is None or parts.dialect is None:
        item.notes.append(f"{item.kind} of checkpoints" if item.kind == "pair" else "drafter")
        return
    layout, method = layout_of(parts.dialect), parts.drafter.decoding_type
    if bundled:
        item.notes.append(f"{layout} checkpoint with a bundled {method} drafter")
    else:
        item.notes.append(f"{method} drafter in the {layout} layout")


def _collect(item: InputReport, parts: Parts) -> Deployment | None:
    deployment = parts.compose()
    item.add(parts.findings)
    item.unreadable.extend(parts.unreadable)
    return None if item.has_errors else deployment
