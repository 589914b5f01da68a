"""From the arguments of an engine to the models: what is asked for, checked and computed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from .._decoding import DECODING_CONFIGS, DecodingConfig
from .._engine import EngineConfig, sized_engine
from .._findings import Finding, InputError, Origin, Origins, findings_of
from .._types import DecodingType
from .._written import show_written, validate_written

if TYPE_CHECKING:
    from ._fields import Section
    from ._records import Reading

_DTYPES = {"half": "float16", "float": "float32"}

# What is not given is asked for. These stand in for it meanwhile, so that the rest is checked too:
# no rule between fields can be broken by them.
_MEANWHILE: Mapping[str, object] = {
    "max_num_requests": 2**31,
    "max_num_tokens": 2**31,
    "max_seq_len": 2**31,
    "dtype": "bfloat16",
}


# What stands in for them is in the config.json of the target.
_IN_TARGET = frozenset({"dtype", "max_seq_len"})


class Arguments(NamedTuple):
    """The arguments of an engine in canonical form."""

    engine_name: str
    """tensorrt_llm, vllm or sglang."""
    decoding: DecodingConfig
    """What the user chose about speculation."""
    engine: EngineConfig
    """Sizes; the slot pool is computed as that engine does."""
    stated: Mapping[str, object]
    """Facts of the drafter that the arguments repeat: to be compared with its checkpoint."""
    model: str | None
    """Target, as written; not opened."""
    draft_model: str | None
    """Drafter, as written; None where it is not named, as where the target holds it."""
    origins: Origins
    """Where each field of decoding, engine and stated was written."""
    findings: tuple[Finding, ...]
    """Warnings: what is written and not checked."""


class Pool(NamedTuple):
    """How an engine sizes its pool of sequence slots."""

    of_each_stage: bool
    """A batch of seats for each pipeline stage; False: one pool, whatever the stages."""
    overlap_headroom: bool = False
    """A batch of seats more, for requests that finish while the next batch is scheduled."""
    disaggregated: bool = False
    """Twice the seats at least, for requests under transfer."""


_ONE_POOL = Pool(of_each_stage=False)


@dataclass(slots=True)
class Gathered:
    """What an engine's reader found, not yet checked."""

    spelled: Mapping[str, str]
    """Canonical field to the engine's argument, for those that are asked for."""
    section: "Section"
    """All arguments."""
    speculation: "Section | None" = None
    """Those of speculation; None where there are none."""
    method: DecodingType | None = None
    decoding: dict[str, object] = field(default_factory=dict)
    engine: dict[str, object] = field(default_factory=dict)
    pool: Pool = _ONE_POOL
    stated: dict[str, object] = field(default_factory=dict)
    model: str | None = None
    draft_model: str | None = None


def read_dtype(gathered: Gathered) -> None:
    """The type, in its other spellings too; ``auto`` is the checkpoint's, which is not opened."""
    named = gathered.section.find("dtype")
    if named is not None and named.value != "auto":
        spelled = named._replace(value=_DTYPES.get(str(named.value), named.value))
        gathered.section.put_found(gathered.engine, ("engine", "dtype"), spelled)


def build(
    reading: "Reading", gathered: Gathered, name: str, defaults: Mapping[str, object]
) -> Arguments:
    """The models of what was gathered.

    Raises:
        InputError: something is missing or refused; names all of it.

    """
    speculation = gathered.speculation or gathered.section
    reading.origins["engine",] = Origin(reading.document, gathered.section.path)
    reading.origins["decoding",] = Origin(reading.document, speculation.path)
    decoding = _decoding(reading, gathered)
    engine = _engine(reading, gathered, defaults)
    found = tuple(reading.findings)
    if decoding is None or engine is None or any(item.severity == "error" for item in found):
        raise InputError.of(found)
    return Arguments(
        engine_name=name,
        decoding=decoding,
        engine=engine,
        stated=gathered.stated,
        model=gathered.model,
        draft_model=gathered.draft_model,
        origins=reading.origins,
        findings=found,
    )


def _decoding(reading: "Reading", gathered: Gathered) -> DecodingConfig | None:
    """None where there is no method, which has been reported."""
    fields = gathered.decoding
    speculation = gathered.speculation
    if "max_draft_len" not in fields and speculation is not None:
        fields["max_draft_len"] = 1  # meanwhile
        speculation.absent(gathered.spelled["max_draft_len"], "is not given (drafts of a step)")
    if gathered.method is None:
        return None
    try:
        return validate_written(DECODING_CONFIGS[gathered.method], fields)
    except ValidationError as error:
        reading.findings.extend(findings_of(error, reading.origins, prefix=("decoding",)))
        return None


def _engine(
    reading: "Reading", gathered: Gathered, defaults: Mapping[str, object]
) -> EngineConfig | None:
    fields = gathered.engine
    for name, meanwhile in _MEANWHILE.items():
        if name in fields:
            continue
        fields[name] = defaults.get(name, meanwhile)
        if name not in defaults:
            meaning = EngineConfig.meaning(name)
            found = gathered.section.find(gathered.spelled[name])
            given = "is not given" if found is None else f"is {show_written(found.value)}"
            elsewhere = ", and no target's config.json says it" if name in _IN_TARGET else ""
            fact = f"{given}{elsewhere} ({meaning[0].lower()}{meaning[1:]})"
            gathered.section.absent(gathered.spelled[name], fact)
    try:
        return _sized(fields, gathered.pool)
    except ValidationError as error:
        reading.findings.extend(findings_of(error, reading.origins, prefix=("engine",)))
        return None


def _sized(fields: dict[str, object], pool: Pool) -> EngineConfig:
    if pool.of_each_stage:
        return sized_engine(
            fields,
            overlap_headroom=pool.overlap_headroom,
            disaggregated=pool.disaggregated,
            written=True,
        )
    rows = fields["max_num_requests"]
    seats = rows * (2 if pool.disaggregated else 1) if type(rows) is int and rows > 0 else 1
    return validate_written(EngineConfig, {**fields, "num_seq_slots": seats})
