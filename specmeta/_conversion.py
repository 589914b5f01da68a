"""Conversion of a deployment file, or of an engine's arguments, to those of another engine."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ._argument_files import add_arguments, drafter_facts
from ._arguments import (
    ENGINES,
    Arguments,
    Choices,
    Command,
    Written,
    engine_of,
    to_yaml,
    write_arguments,
    write_choices,
)
from ._base import SpecModel
from ._deployment import Deployment
from ._deployment_file import is_deployment, read_deployment_file
from ._deployment_paths import BUNDLED
from ._errors import show
from ._files import Document
from ._findings import NOTHING, Finding, InputError
from ._parts import Parts

if TYPE_CHECKING:
    from ._checkpoint import Checkpoint

_NOT_READ = "target and drafter: were not read, so the arguments alone are checked"
_NO_DIRECTORIES = (
    "target and drafter: a deployment file needs their directories; give --target and --drafter, "
    "or correct the names"
)


class Options(NamedTuple):
    """What the user says beside the file."""

    engine_name: str | None = None
    """Engine of the arguments; None to tell it by their names."""
    target: Path | None = None
    """Directory of the target, for arguments."""
    drafter: Path | None = None
    """Directory of the drafter, for arguments."""
    stated: Mapping[str, object] = NOTHING
    """Facts of the drafter that no file states."""
    roots: Sequence[Path] = ()
    """Directories that the paths in a deployment file may lead to."""


class Source(NamedTuple):
    """What was read."""

    choices: Choices | None
    """What is written from; None where something was refused."""
    deployment: Deployment | None
    """The whole, where target and drafter were read too."""
    parts: Mapping[str, object]
    """Target and drafter, as a deployment file names them."""
    findings: tuple[Finding, ...]
    """Errors, warnings and overridden errors."""
    unreadable: tuple[str, ...] = ()
    """Messages of files that could not be read."""
    notes: tuple[str, ...] = ()
    """What was read otherwise than it may be meant."""


def read_source(document: Document, base: Path, options: Options) -> Source:
    """A deployment file in `base`, or the arguments of an engine.

    Raises:
        InputError: it is neither, or an option is not for it.

    """
    if options.engine_name is None and is_deployment(document.data):
        return _deployment_file(document, base, options)
    name = options.engine_name or engine_of(document)
    if name is None:
        fact = f"is no deployment file, and no arguments that are clearly of {_names()}"
        raise InputError(f"{document.name}: {fact}; say whose they are with --from")
    return _arguments(document, name, options)


def _names() -> str:
    *first, last = ENGINES.values()
    return f"{', '.join(first)} or {last}"


def _deployment_file(document: Document, base: Path, options: Options) -> Source:
    if options.target is not None or options.drafter is not None:
        fact = "a deployment file names its target and drafter itself"
        raise InputError(f"{document.name}: {fact}; leave out --target and --drafter")
    reading = read_deployment_file(
        document, base=base, roots=options.roots, stated=options.stated, weights=False
    )
    data = document.data
    assert isinstance(data, dict)
    parts = {name: data[name] for name in ("target", "drafter") if name in data}
    target, drafter, deployment = parts.get("target"), parts.get("drafter"), reading.deployment
    choices = None
    if deployment is not None:
        stated: dict[str, object] = {**options.stated}
        if isinstance(drafter, dict) and drafter.keys() <= {"checkpoint", "stated"}:
            stated |= drafter.get("stated") or {}
            drafter = drafter.get("checkpoint", BUNDLED)
        choices = Choices(
            deployment.decoding,
            deployment.engine,
            drafter if isinstance(drafter, str) and drafter != BUNDLED else None,
            target if isinstance(target, str) else None,
            deployment.drafter,
            stated,
            bundled=drafter == BUNDLED,
        )
    return Source(choices, deployment, parts, reading.findings, tuple(reading.parts.unreadable))


def _arguments(document: Document, name: str, options: Options) -> Source:
    parts, target = Parts(), None
    if options.target is not None:
        from ._checkpoint import open_checkpoint
        from ._pairs import add_target

        with parts.reading():
            target = open_checkpoint(options.target)
            add_target(parts, target)
    with parts.reading():
        read = add_arguments(parts, document, name, target)
    if parts.decoding is None:  # refused, and collected
        return Source(None, None, {}, tuple(parts.findings), tuple(parts.unreadable))
    bundled = _add_drafter(parts, read, target, options)
    choices, deployment = None, parts.compose()
    stated = {**options.stated, **read.stated}
    if not any(found.severity == "error" for found in parts.findings):
        choices = Choices(
            read.decoding,
            read.engine,
            read.draft_model or _text(options.drafter),
            read.model or _text(options.target),
            parts.drafter,
            stated,
            bundled,
        )
    drafter: object = _text(options.drafter) or (None if bundled else read.draft_model) or BUNDLED
    if stated:
        drafter = {"checkpoint": drafter, "stated": stated}
    named = {"target": _text(options.target) or read.model, "drafter": drafter}
    return Source(
        choices,
        deployment,
        {part: value for part, value in named.items() if value is not None},
        tuple(parts.findings),
        tuple(parts.unreadable),
        tuple(_notes(read, document, bundled=bundled)),
    )


def _add_drafter(
    parts: Parts, read: Arguments, target: "Checkpoint | None", options: Options
) -> bool:
    """Read the drafter where it is given, or where the target holds one; whether it was that."""
    if options.target is None and options.drafter is None:
        return False
    from ._checkpoint import open_checkpoint
    from ._dialects import has_bundled_drafter
    from ._pairs import add_drafter, gathered

    drafter = None
    with parts.reading():
        if options.drafter is not None:
            drafter = open_checkpoint(options.drafter)
        elif target is None or not has_bundled_drafter(target.document):
            return False
        sources = [(options.stated, {}), drafter_facts(read)]
        facts = gathered(sources, read.decoding.decoding_type)
        add_drafter(parts, drafter, target, facts, weights=False)
    return options.drafter is None


def _notes(read: Arguments, document: Document, *, bundled: bool) -> Iterator[str]:
    if bundled and read.draft_model not in (None, read.model):
        fact = f"the target's own was read, and {show(read.draft_model)}, which is named, was not"
        yield f"drafter: {fact}; give its directory with --drafter, if it is another one"
    for part, name in (("target", read.model), ("drafter", read.draft_model)):
        if isinstance(document, Command) and name is not None and "$" in name:
            yield f"{part} ({show(name)}): a variable of the shell is written as any other name"


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def convert(source: Source, choices: Choices, to: str) -> Written:
    """What was read, as arguments of an engine or, for ``specmeta``, as a deployment file.

    Raises:
        InputError: a deployment file needs more than was read.

    """
    if to == "specmeta":
        written = _written_file(source, choices)
    elif source.deployment is None:
        written = write_choices(choices, to)
        written = written._replace(notes=(*written.notes, _NOT_READ))
    else:
        written = write_arguments(source.deployment, choices, to)
    return written._replace(notes=(*written.notes, *source.notes))


def _written_file(source: Source, choices: Choices) -> Written:
    if "target" not in source.parts:
        raise InputError("the arguments name no target; give its directory with --target")
    deployment = source.deployment
    data: dict[str, object] = {
        **source.parts,
        "decoding": _fields(choices.decoding),
        "engine": _fields(choices.engine),
    }
    if deployment is not None and deployment.overrides:
        data["overrides"] = [_fields(override) for override in deployment.overrides]
    if deployment is not None and deployment.compiled_for is not None:
        data["compiled_for"] = _fields(deployment.compiled_for)
    notes = (_NOT_READ, _NO_DIRECTORIES) if deployment is None else ()
    return Written(to_yaml(data), [], notes)


def _fields(model: SpecModel) -> dict[str, object]:
    """The fields of a model that say something: the method first, then what is no default."""
    fields = type(model).model_fields
    names = [name for name in fields if getattr(model, name) != fields[name].default]
    method = ["decoding_type"] if "decoding_type" in fields else []
    return {name: getattr(model, name) for name in (*method, *names)}
