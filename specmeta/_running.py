"""What runs, from the parts of a deployment: the window, the block, the captured layers."""

from ._decoding import DecodingConfig
from ._drafter import DrafterConfig, MTPDrafterConfig
from ._engine import EngineConfig
from ._overrides import CompileKey
from ._target import TargetConfig


def window_of(drafter: DrafterConfig, engine: EngineConfig) -> int:
    """The drafter's window, but no more than max_seq_len, which is also what no window means."""
    longest = engine.max_seq_len
    return longest if drafter.sliding_window is None else min(drafter.sliding_window, longest)


def layers_of(target: TargetConfig, drafter: DrafterConfig) -> tuple[int, ...]:
    """The captured layers: a block drafter's, the target's last for MTP."""
    if isinstance(drafter, MTPDrafterConfig):
        return (target.num_layers - 1,)
    return drafter.layers_to_capture


def block_of(drafter: DrafterConfig, decoding: DecodingConfig) -> int | None:
    """Positions of a block: the checkpoint's, or more where the drafts need it; None for MTP."""
    if isinstance(drafter, MTPDrafterConfig):
        return None
    without_draft = drafter.block_size - drafter.max_block_drafts
    return max(drafter.block_size, decoding.max_draft_len + without_draft)


def compile_key_of(
    target: TargetConfig, drafter: DrafterConfig, decoding: DecodingConfig, engine: EngineConfig
) -> CompileKey:
    """What compiled artefacts depend on."""
    block = None if isinstance(drafter, MTPDrafterConfig) else drafter
    return CompileKey(
        decoding_type=decoding.decoding_type,
        max_draft_len=decoding.max_draft_len,
        dtype=engine.dtype,
        layers_to_capture=layers_of(target, drafter),
        window_size=window_of(drafter, engine),
        block_size=block_of(drafter, decoding),
        anchor_convention=None if block is None else block.anchor_convention,
        window_causality=None if block is None else block.window_causality,
    )
