"""Arguments to be written, and what an engine's arguments cannot say."""

import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .._decoding import DecodingConfig
from .._drafter import DrafterConfig, DSparkDrafterConfig
from .._engine import EngineConfig
from .._errors import show
from .._findings import NOTHING

_UNKNOWN_TO_ALL: Mapping[str, tuple[str, ...]] = {
    "decoding": ("confidence_threshold", "steps_per_second"),
    "engine": (
        "max_kv_tokens_per_request",
        "kv_reserved_steps",
        "supported_window_sizes",
        "uniform_rows",
        "state_memory_limit",
    ),
}
GATE = ("acceptance_rate_window_size", "acceptance_rate_threshold")
"""The fields of the acceptance gate."""


class Choices(NamedTuple):
    """What the arguments of an engine are written from."""

    decoding: DecodingConfig
    engine: EngineConfig
    draft_model: str | None
    """Name or path of the drafter; None where it is not known, or in the target."""
    model: str | None = None
    """Name or path of the target."""
    drafter: DrafterConfig | None = None
    """The drafter, where it has been read."""
    stated: Mapping[str, object] = NOTHING
    """Facts of the drafter that were stated beside its files."""
    bundled: bool = False
    """Whether the target's checkpoint holds the drafter."""


class Written(NamedTuple):
    """Arguments of an engine, in its two forms."""

    text: str
    """A YAML configuration."""
    flags: list[str]
    """The same as flags of its command; empty where the engine has none for speculation."""
    notes: tuple[str, ...]
    """What the engine cannot be told, or decides itself."""


class Wording(NamedTuple):
    """How notes speak of an engine."""

    label: str
    """Name of the engine."""
    pool: int
    """Sequence slots that it computes from the written arguments."""
    eager: str
    """How it is told to capture no graph."""
    draft_model: str
    """Argument that names the drafter."""
    unsupported: tuple[str, ...] = ()
    """Further fields of decoding that it has no argument for."""
    facts: tuple[str, ...] = ()
    """Facts of the drafter that it has arguments for."""
    whole_block: bool = False
    """Whether DSpark must draft exactly its checkpoint's block."""


def notes_on(choices: Choices, wording: Wording) -> Iterator[str]:
    """What is lost on the way to the engine."""
    decoding, engine, label = choices.decoding, choices.engine, wording.label
    unknown = {
        "decoding": (*wording.unsupported, *_UNKNOWN_TO_ALL["decoding"]),
        "engine": _UNKNOWN_TO_ALL["engine"],
    }
    for part, model in (("decoding", decoding), ("engine", engine)):
        for name in unknown[part]:
            field = type(model).model_fields.get(name)
            value = getattr(model, name, None)
            if field is not None and value != field.default:
                yield f"{part}.{name} ({_text(value)}): {label} has no argument for it"
    for name, value in choices.stated.items():
        if name not in wording.facts:
            yield f"drafter.stated.{name} ({_text(value)}): {label} has no argument for it"
    if engine.dtype == "float64":
        yield f"engine.dtype (float64): {label} does not run it; it is left out"
    if engine.num_seq_slots != wording.pool:
        yield (
            f"engine.num_seq_slots ({engine.num_seq_slots}): is no argument; {label} computes "
            f"{wording.pool} from these"
        )
    if not engine.cuda_graph_batch_sizes:
        yield (
            f"engine.cuda_graph_batch_sizes (): {label} captures sizes of its own choice; "
            f"{wording.eager} to run every batch eagerly"
        )
    if choices.draft_model is None and not (choices.bundled or decoding.decoding_type == "MTP"):
        yield (
            f"drafter: is not named; add {wording.draft_model}, unless the target's checkpoint "
            "holds it"
        )
    drafter, length = choices.drafter, decoding.max_draft_len
    if (
        wording.whole_block
        and isinstance(drafter, DSparkDrafterConfig)
        and drafter.block_size != length
    ):
        yield (
            f"decoding.max_draft_len ({length}): {label} drafts DSpark by the checkpoint's block "
            f"({drafter.block_size}) and may refuse another length"
        )


def dtype_of(engine: EngineConfig) -> str | None:
    """The type as every engine spells it; None where none of them has it."""
    return None if engine.dtype == "float64" else engine.dtype


def given(fields: Mapping[str, object]) -> dict[str, object]:
    """The arguments that say something."""
    return {name: value for name, value in fields.items() if value is not None}


def parallel(size: int) -> int | None:
    """A parallel size, unless it is that of no parallelism."""
    return None if size == 1 else size


def flags_of(fields: Mapping[str, object]) -> list[str]:
    """The words of a command: one for each flag with its value, whatever that begins with; lists
    as several, true as a bare flag.
    """
    words: list[str] = []
    for name, value in fields.items():
        if isinstance(value, tuple | list):
            words += [f"--{name}", *map(str, value)]
        else:
            words.append(f"--{name}" if value is True else f"--{name}={value}")
    return words


def flags_text(words: list[str]) -> str:
    """The words as a shell takes them, one flag a line."""
    lines: list[str] = []
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            lines.append(f"{name}{equals}{shlex.quote(value)}" if equals else name)
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return " \\\n".join(lines) + "\n"


def _text(value: object) -> str:
    return str(value) if isinstance(value, tuple | list) else show(value)
