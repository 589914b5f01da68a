"""Arguments of engines: TensorRT-LLM, vLLM and SGLang, read into the models and written from them.

They are read without the engine: nothing that a name points to is opened, and what is not written
is asked for rather than taken from a default, which depends on the engine's version and machine.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from .. import _rules as rules
from .._errors import show
from .._findings import NOTHING, InputError, Origin, Path
from . import _sglang, _tensorrt_llm, _vllm
from ._build import Arguments as Arguments
from ._build import Gathered, build
from ._command import Command as Command
from ._emit import to_yaml as to_yaml
from ._fields import Section
from ._flags import is_command as is_command
from ._flags import parse_command as parse_command
from ._records import Found, Reading
from ._written import Choices as Choices
from ._written import Written as Written
from ._written import flags_text as flags_text

if TYPE_CHECKING:
    from .._deployment import Deployment
    from .._files import Document


class _Engine(NamedTuple):
    label: str
    own: frozenset[str]
    read: Callable[[Section], Gathered]
    write: Callable[[Choices], Written]


_ENGINES: Mapping[str, _Engine] = {
    name: _Engine(engine.LABEL, engine.OWN, engine.read, engine.write)
    for name, engine in (("tensorrt_llm", _tensorrt_llm), ("vllm", _vllm), ("sglang", _sglang))
}

ENGINES: Mapping[str, str] = MappingProxyType(
    {name: engine.label for name, engine in _ENGINES.items()}
)
"""Name of each engine, and how messages call it."""


def engine_named(name: str) -> str | None:
    """The engine of a name, in which a hyphen is an underscore; None where there is none."""
    spelled = name.replace("-", "_")
    return spelled if spelled in ENGINES else None


def engine_of(document: "Document") -> str | None:
    """The engine whose arguments a document holds, by the command that starts it or the names of
    its keys; None where it is not clear.
    """
    if isinstance(document, Command) and document.engine_name is not None:
        return document.engine_name
    if not isinstance(document.data, dict):
        return None
    keys = {str(key).replace("-", "_") for key in document.data}
    section = document.data.get("speculative_config")
    if isinstance(section, dict) and "decoding_type" in section:
        return "tensorrt_llm"
    counts = {name: len(keys & engine.own) for name, engine in _ENGINES.items()}
    best = max(counts, key=lambda name: counts[name])
    rivals = [name for name, count in counts.items() if count == counts[best]]
    return best if counts[best] and len(rivals) == 1 else None


def read_arguments(
    document: "Document",
    engine_name: str,
    *,
    defaults: Mapping[str, object] = NOTHING,
    at: Path = (),
) -> Arguments:
    """The arguments of an engine, in canonical form.

    `defaults` gives canonical fields that are not written and that the caller knows otherwise: the
    dtype of the target's config, for example. `at` is where the arguments lie in the document.

    Raises:
        InputError: an argument is missing, refused, or contradicts another; its findings are all
            of them.
        KeyError: no such engine: see `ENGINES`.

    """
    engine = _ENGINES[engine_name]
    started = document.engine_name if isinstance(document, Command) else None
    if started not in (None, engine_name):
        fact = f"the command starts {ENGINES[started]}, not {engine.label}"
        place = f"{document.name}:{document.line_of(())}"
        raise InputError(f"{place}: {fact}; name the engine that it starts")
    values = document.data
    for part in at:
        values = values.get(part) if isinstance(values, dict) else None
    if not isinstance(values, dict):
        place = f"{document.name}:{document.line_of(at)}" if at else document.name
        fact = f"{show(values)} holds no arguments of {engine.label}"
        raise InputError(f"{place}: {fact}; write them as an object, or as flags")
    reading = Reading(document, engine.label)
    section = Section(reading, values, at)
    gathered = engine.read(section)
    further = section.find("config", "extra_llm_api_options")
    if further is not None:
        fact = "names a file of further arguments, which is not opened: check that, too"
        section.report(rules.ARGUMENT_NOT_READ, further, fact)
    if isinstance(document, Command):
        for word in document.unread:
            found = Found(word.text, Origin(document, (word.text,)))
            section.report(rules.ARGUMENT_NOT_READ, found, "may hold further flags, not known here")
    section.negations()
    return build(reading, gathered, engine_name, defaults)


def write_arguments(deployment: "Deployment", choices: Choices, engine_name: str) -> Written:
    """The arguments with which an engine runs a deployment, and what it cannot be told.

    Raises:
        KeyError: no such engine: see `ENGINES`.

    """
    written, label = write_choices(choices, engine_name), ENGINES[engine_name]
    notes = [*written.notes]
    if deployment.overrides:
        names = ", ".join(override.rule for override in deployment.overrides)
        notes.append(f"overrides ({names}): {label} knows none, and may refuse what they allow")
    if deployment.compiled_for is not None:
        notes.append(f"compiled_for: {label} keeps no such record")
    return written._replace(notes=tuple(notes))


def write_choices(choices: Choices, engine_name: str) -> Written:
    """As `write_arguments`, where the target is not at hand.

    Raises:
        KeyError: no such engine: see `ENGINES`.

    """
    return _ENGINES[engine_name].write(choices)
