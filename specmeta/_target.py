"""The target model, as far as speculation needs to know it."""

from typing import final

from ._base import SpecModel
from ._types import LayerCount, PositiveInt, VocabSize, Width


@final
class TargetConfig(SpecModel, frozen=True):
    """Sizes of the target model, read from its checkpoint."""

    hidden_size: Width
    """Width of the hidden states that the drafter reads, in channels."""

    num_layers: LayerCount
    """Number of decoder layers."""

    vocab_size: VocabSize
    """Rows of the token embedding, which may exceed the tokenizer's size."""

    max_position_embeddings: PositiveInt | None
    """Longest sequence that the target's positions allow, in tokens; None where its checkpoint does
    not state it."""

    hc_mult: PositiveInt = 1
    """Hyper-connection residual streams; a captured state is their mean. 1 is an ordinary residual
    stream."""
