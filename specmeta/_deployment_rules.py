"""Rules between the parts of a deployment, each group on the parts that it needs.

A pair of checkpoints is checked without an engine, so the groups take parts and not a `Deployment`.
"""

from collections.abc import Collection, Iterable, Iterator
from types import MappingProxyType

from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._decoding import DecodingConfig, DSparkDecodingConfig
from ._drafter import DrafterConfig, DSparkDrafterConfig, MTPDrafterConfig
from ._engine import EngineConfig
from ._errors import show
from ._memory import sizes_of
from ._overrides import CompileKey, RuleOverride
from ._partial import as_far_as_there
from ._running import compile_key_of, window_of
from ._target import TargetConfig

PARTS = ("target", "drafter", "decoding", "engine")
Lines = Iterator[InitErrorDetails]

READS = MappingProxyType(
    {
        rules.DRAFT_BEYOND_BLOCK.name: frozenset({"drafter", "decoding"}),
        rules.DRAFT_BEYOND_MTP_LAYERS.name: frozenset({"drafter", "decoding"}),
        rules.WINDOW_NOT_SUPPORTED.name: frozenset({"drafter", "decoding", "engine"}),
        rules.MAX_SEQ_LEN_BEYOND_POSITIONS.name: frozenset({"target", "drafter", "engine"}),
        rules.STATE_BEYOND_MEMORY_LIMIT.name: frozenset(PARTS),
    }
)
"""The parts that each overridable rule runs on."""


def pairing(target: TargetConfig, drafter: DrafterConfig) -> Lines:
    """Whether the drafter can read this target's states and draft its tokens."""
    name = "hidden_size" if isinstance(drafter, MTPDrafterConfig) else "target_hidden_size"
    width = getattr(drafter, name)
    if width != target.hidden_size:
        fact = f"{width} is not the target's hidden_size ({target.hidden_size})"
        yield rules.HIDDEN_SIZE_DIFFERS.broken(f"drafter.{name}", fact, value=width)
    if drafter.vocab_size != target.vocab_size:
        fact = f"{drafter.vocab_size} is not the target's vocab_size ({target.vocab_size})"
        yield rules.VOCAB_SIZE_DIFFERS.broken("drafter.vocab_size", fact, value=drafter.vocab_size)
    if isinstance(drafter, MTPDrafterConfig):
        return
    last = target.num_layers - 1
    for index, layer in enumerate(drafter.layers_to_capture):
        if layer > last:
            published = drafter.target_layer_ids[index]
            what = f"{show(published)} ({drafter.layer_id_convention})"
            fact = f"{what} is beyond the target's {last + 1} layers"
            yield rules.LAYER_OUT_OF_RANGE.broken(
                "drafter.target_layer_ids", fact, value=published, index=index
            )
            break


def method(drafter: DrafterConfig, decoding: DecodingConfig) -> Lines:
    """Whether the choices are of the drafter's method, and of what its heads can do."""
    if decoding.decoding_type != drafter.decoding_type:
        fact = f"{decoding.decoding_type} is not the drafter's type ({drafter.decoding_type})"
        if isinstance(drafter, DSparkDrafterConfig) and not (
            drafter.markov_rank or drafter.enable_confidence_head
        ):  # published under the name of DFlash
            fact += ": the class of its checkpoint is DSpark's, with markov_rank 0 and no head"
        yield rules.DECODING_TYPE_DIFFERS.broken(
            "decoding.decoding_type", fact, value=decoding.decoding_type
        )
    if (
        isinstance(decoding, DSparkDecodingConfig)
        and isinstance(drafter, DSparkDrafterConfig)
        and not drafter.enable_confidence_head
    ):
        for name in ("confidence_threshold", "steps_per_second"):
            value = getattr(decoding, name)
            if value is not None:
                fact = f"{show(value)} although drafter.enable_confidence_head is False"
                yield rules.CONFIDENCE_HEAD_ABSENT.broken(f"decoding.{name}", fact, value=value)


def draft_length(drafter: DrafterConfig, decoding: DecodingConfig) -> Lines:
    """Whether the drafter yields that many drafts."""
    length, field = decoding.max_draft_len, "decoding.max_draft_len"
    if isinstance(drafter, MTPDrafterConfig):
        layers = drafter.num_layers
        if length > layers and length % layers:
            fact = f"{length} is above num_layers ({layers}) and no multiple of it"
            yield rules.DRAFT_BEYOND_MTP_LAYERS.broken(field, fact, value=length)
    elif length > drafter.max_block_drafts:
        block = f"a block of {drafter.block_size} ({drafter.anchor_convention})"
        fact = f"{length} is above the {drafter.max_block_drafts} drafts of {block}"
        yield rules.DRAFT_BEYOND_BLOCK.broken(field, fact, value=length)


def window(drafter: DrafterConfig, decoding: DecodingConfig, engine: EngineConfig) -> Lines:
    """Whether the drafter's window holds a step, and the backend has kernels for it."""
    size, width = window_of(drafter, engine), decoding.max_draft_len + 1
    by_engine = size == engine.max_seq_len
    field = "engine.max_seq_len" if by_engine else "drafter.sliding_window"
    if size < width:
        fact = f"{size} is below max_draft_len + 1 ({width})"
        yield rules.WINDOW_TOO_SMALL.broken(field, fact, value=size)
    supported = engine.supported_window_sizes
    # Without a window there is no kernel for one to miss.
    if drafter.sliding_window is not None and supported and size not in supported:
        sizes = ", ".join(map(str, supported[:8]))
        fact = f"{size} is not one of engine.supported_window_sizes ({sizes})"
        yield rules.WINDOW_NOT_SUPPORTED.broken(field, fact, value=size)


def positions(target: TargetConfig, drafter: DrafterConfig, engine: EngineConfig) -> Lines:
    """Whether both models have the positions that the engine serves."""
    for name, part in (("target", target), ("drafter", drafter)):
        limit = part.max_position_embeddings
        if limit is not None and engine.max_seq_len > limit:
            fact = f"{engine.max_seq_len} is above the {name}'s max_position_embeddings ({limit})"
            yield rules.MAX_SEQ_LEN_BEYOND_POSITIONS.broken(
                "engine.max_seq_len", fact, value=engine.max_seq_len
            )


def tokens(decoding: DecodingConfig, engine: EngineConfig) -> Lines:
    """Whether one forward holds a full batch."""
    needed = engine.max_num_requests * (decoding.max_draft_len + 1)
    if engine.max_num_tokens < needed:
        fact = f"{engine.max_num_tokens} is below max_num_requests * (max_draft_len + 1) ({needed})"
        yield rules.MAX_NUM_TOKENS_TOO_SMALL.broken(
            "engine.max_num_tokens", fact, value=engine.max_num_tokens
        )


def kv_row(decoding: DecodingConfig, engine: EngineConfig) -> Lines:
    """Whether a row of the KV map holds the longest sequence with its drafts."""
    row, steps = engine.max_kv_tokens_per_request, engine.kv_reserved_steps
    needed = engine.max_seq_len + steps * (decoding.max_draft_len + 1)
    if row is not None and row < needed:
        fact = f"{row} is below max_seq_len + {steps} * (max_draft_len + 1) ({needed})"
        yield rules.KV_ROW_TOO_SMALL.broken("engine.max_kv_tokens_per_request", fact, value=row)


def memory(
    target: TargetConfig, drafter: DrafterConfig, decoding: DecodingConfig, engine: EngineConfig
) -> Lines:
    """Whether the buffers stay within the memory that they may take."""
    limit = engine.state_memory_limit
    if limit is not None:
        sizes = sizes_of(target, drafter, decoding, engine, window_of(drafter, engine))
        if sizes.total > limit:
            fact = f"{limit} bytes are below the {sizes.total} that the buffers take"
            yield rules.STATE_BEYOND_MEMORY_LIMIT.broken(
                "engine.state_memory_limit", fact, value=limit
            )


def unstated(target: TargetConfig, drafter: DrafterConfig) -> Lines:
    """Facts that a rule would need and no file states: warnings."""
    for name, part in (("target", target), ("drafter", drafter)):
        if part.max_position_embeddings is None:
            # Of a pair in one file, this is one finding: the field or the file names the part.
            yield rules.POSITIONS_NOT_STATED.broken(
                f"{name}.max_position_embeddings", "is not stated by the checkpoint", value=None
            )


def compiled(
    target: TargetConfig,
    drafter: DrafterConfig,
    decoding: DecodingConfig,
    engine: EngineConfig,
    stored: CompileKey,
) -> Lines:
    """Whether artefacts were compiled for this deployment."""
    now = compile_key_of(target, drafter, decoding, engine)
    for name in CompileKey.model_fields:
        before, value = getattr(stored, name), getattr(now, name)
        if before != value:
            fact = f"{_text(before)} is not this deployment's {name} ({_text(value)})"
            yield rules.COMPILED_FOR_OTHER.broken(f"compiled_for.{name}", fact, value=before)


def between(
    target: TargetConfig | None,
    drafter: DrafterConfig | None,
    decoding: DecodingConfig | None,
    engine: EngineConfig | None,
    stored: CompileKey | None,
) -> Lines:
    """Every rule that these parts allow, errors and warnings: a deployment has all four, and what
    could be read of one may have fewer, or lack fields.
    """
    for group in _groups(target, drafter, decoding, engine, stored):
        yield from as_far_as_there(group)


def _groups(
    target: TargetConfig | None,
    drafter: DrafterConfig | None,
    decoding: DecodingConfig | None,
    engine: EngineConfig | None,
    stored: CompileKey | None,
) -> Iterator[Lines]:
    if target and drafter:
        yield pairing(target, drafter)
        yield unstated(target, drafter)
    if drafter and decoding:
        yield method(drafter, decoding)
        yield draft_length(drafter, decoding)
    if drafter and decoding and engine:
        yield window(drafter, decoding, engine)
    if target and drafter and engine:
        yield positions(target, drafter, engine)
    if decoding and engine:
        yield tokens(decoding, engine)
        yield kv_row(decoding, engine)
    if target and drafter and decoding and engine:
        yield memory(target, drafter, decoding, engine)
        if stored is not None:
            yield compiled(target, drafter, decoding, engine, stored)


def reasons(overrides: Iterable[RuleOverride]) -> dict[str, str]:
    """Why each rule is broken, of those that may be; the first reason of two."""
    found: dict[str, str] = {}
    for override in overrides:
        rule = rules.RULES.get(override.rule)
        if rule is not None and rule.overridable:
            found.setdefault(override.rule, override.reason)
    return found


def overriding(overrides: Iterable[tuple[int, RuleOverride]]) -> Lines:
    """Overrides, by their index, of what is no rule, or none that may be overridden, or the same
    one twice.
    """
    first: dict[str, int] = {}
    for index, override in overrides:
        name, rule = override.rule, rules.RULES.get(override.rule)
        if rule is None or not rule.overridable:
            fact = f"{show(name)} {'is no rule' if rule is None else 'cannot be overridden'}"
            yield rules.OVERRIDE_INVALID.broken("overrides", fact, value=name, index=index)
        elif name in first:
            fact = f"{show(name)} is overridden by overrides[{first[name]}] already"
            yield rules.OVERRIDE_REPEATED.broken("overrides", fact, value=name, index=index)
        first.setdefault(name, index)


def unused(
    overrides: Iterable[tuple[int, RuleOverride]], broken: Collection[str], present: Collection[str]
) -> Lines:
    """Overrides, by their index, of rules that ran on the present parts and are not broken."""
    for index, override in overrides:
        name = override.rule
        if name in READS and name not in broken and READS[name].issubset(present):
            fact = f"{show(name)} is not broken"
            yield rules.OVERRIDE_UNUSED.broken("overrides", fact, value=name, index=index)


def is_warning(line: InitErrorDetails) -> bool:
    return rules.RULES[name_of(line)].severity == "warning"


def name_of(line: InitErrorDetails) -> str:
    """The rule that a line is of."""
    kind = line["type"]
    return kind if isinstance(kind, str) else kind.type


def _text(value: object) -> str:
    return str(value) if isinstance(value, tuple) else show(value)
