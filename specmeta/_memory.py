"""Device memory that a worker's buffers take, from the deployment alone."""

from typing import TYPE_CHECKING, NamedTuple

from ._decoding import DecodingConfig
from ._drafter import DrafterConfig, MTPDrafterConfig
from ._engine import EngineConfig
from ._target import TargetConfig

if TYPE_CHECKING:
    from ._deployment import Deployment

_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
# Position, valid length and the flag of a known position: two 64-bit integers and a byte.
_BOOKKEEPING = 17


class BufferSizes(NamedTuple):
    """Bytes of each kind of buffer, of one rank that holds every head."""

    slot_state: int | None
    """Context windows and bookkeeping of ``num_seq_slots + 1`` slots; None where the checkpoint
    does not state its key/value heads."""

    captured_states: int
    """Target states of ``max_num_tokens`` tokens, one plane for each captured layer."""

    draft_probs: int
    """Draft probabilities ``[num_seq_slots + 1, max_draft_len, vocab_size]``, float32; 0 without
    rejection sampling."""

    @property
    def total(self) -> int:
        """All that is known."""
        return (self.slot_state or 0) + self.captured_states + self.draft_probs


def buffer_sizes(deployment: "Deployment") -> BufferSizes:
    """Bytes that the buffers of this deployment's worker take."""
    d = deployment
    return sizes_of(d.target, d.drafter, d.decoding, d.engine, d.window_size)


def sizes_of(
    target: TargetConfig,
    drafter: DrafterConfig,
    decoding: DecodingConfig,
    engine: EngineConfig,
    window_size: int,
) -> BufferSizes:
    """The same from the parts, for the rules that are run before a deployment exists."""
    rows, item = engine.num_seq_slots + 1, _BYTES[engine.dtype]
    channels, slot_state = drafter.context_channels, None
    if channels is not None:
        slot = drafter.num_layers * window_size * channels * item + _BOOKKEEPING
        if isinstance(drafter, MTPDrafterConfig):  # the state that the next draft starts from
            slot += target.hidden_size * item
        slot_state = rows * slot
    planes = 1 if isinstance(drafter, MTPDrafterConfig) else len(drafter.target_layer_ids)
    probs = rows * decoding.max_draft_len * target.vocab_size * 4
    return BufferSizes(
        slot_state=slot_state,
        captured_states=engine.max_num_tokens * planes * target.hidden_size * item,
        draft_probs=probs if decoding.use_rejection_sampling else 0,
    )
