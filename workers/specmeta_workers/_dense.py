"""What building a dense drafter needs beyond the contract: heads, widths, epsilon, rotary base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from specmeta import DrafterConfig


@attrs.frozen
class DenseShape:
    """Decoder layers of the Qwen3 kind, every size known."""

    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    rms_norm_eps: float
    rope_theta: float


def dense_shape(config: DrafterConfig) -> DenseShape:
    """The layers that a drafter's configuration describes.

    Raises:
        ValueError: it leaves sizes out, its layers are of another kind, or its head drafts from a
            vocabulary of its own.

    """
    if config.attention_kind != "grouped_query":
        raise ValueError(
            f"attention_kind: {config.attention_kind} is not implemented; the draft models have "
            "grouped_query attention"
        )
    if config.draft_vocab_size != config.vocab_size:
        raise ValueError(
            f"draft_vocab_size: {config.draft_vocab_size} is not vocab_size ({config.vocab_size}), "
            "and no map from draft tokens to tokens is implemented; use a checkpoint without one"
        )
    sizes = {field.name: getattr(config, field.name) for field in attrs.fields(DenseShape)}
    absent = [name for name, size in sizes.items() if size is None]
    if absent:
        raise ValueError(
            f"{', '.join(absent)}: not stated by the checkpoint, and a draft model needs them; add "
            "the values that it was trained with to its config.json"
        )
    return DenseShape(**sizes)
