"""Drafter checkpoints in one canonical form, whatever dialect they were published in."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, final

from pydantic import Field
from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._base import SpecModel
from ._drafting import block_problem, layer_problem
from ._errors import show
from ._types import (
    AnchorConvention,
    AttentionKind,
    BlockSize,
    EvenWidth,
    LayerCount,
    LayerIdConvention,
    LayerIds,
    MarkovHeadType,
    MarkovRank,
    MaskTokenId,
    PositiveFloat,
    PositiveInt,
    TargetHiddenState,
    VocabSize,
    Width,
    WindowCausality,
)


class _Drafter(SpecModel, frozen=True):
    """What every drafter has: sizes, and decoder layers of the dense kind."""

    hidden_size: Width
    """Width of the drafter, in channels."""

    num_layers: LayerCount
    """Drafter layers (stages); each keeps its own context window."""

    vocab_size: VocabSize
    """Rows of the drafter's token embedding."""

    draft_vocab_size: VocabSize
    """Rows of the drafter's head; fewer than vocab_size where a map leads from them to token
    ids."""

    max_position_embeddings: PositiveInt | None
    """Longest sequence that the drafter's positions allow, in tokens; None where the checkpoint
    does not state it."""

    attention_kind: AttentionKind
    """What a layer keeps of a context position: keys and values of each key/value head
    (grouped_query), or one latent vector of head_dim channels (latent)."""

    num_attention_heads: Width | None
    """Query heads of a layer; None where the checkpoint does not state them: only building a draft
    model needs this and the next five."""

    num_key_value_heads: Width | None
    """Key/value heads of a layer; divides num_attention_heads."""

    head_dim: EvenWidth | None
    """Channels of a head; even, because rotary positions turn pairs."""

    intermediate_size: Width | None
    """Width of the feed-forward layer, in channels."""

    rms_norm_eps: PositiveFloat | None
    """Epsilon of the RMS norms."""

    rope_theta: PositiveFloat | None
    """Base of the rotary frequencies."""

    sliding_window: PositiveInt | None
    """Context positions that the drafter attends to, in tokens; None where the checkpoint declares
    no window, which is the whole context."""

    def checks(self) -> Iterator[Iterable[InitErrorDetails]]:
        yield from super().checks()
        yield self._heads()
        yield self._head()
        yield self._vocabulary()

    def _heads(self) -> Iterator[InitErrorDetails]:
        queries, keys = self.num_attention_heads, self.num_key_value_heads
        if queries is not None and keys is not None and queries % keys:
            fact = f"{keys} does not divide num_attention_heads ({queries})"
            yield rules.HEADS_NOT_DIVISIBLE.broken("num_key_value_heads", fact, value=keys)

    def _head(self) -> Iterator[InitErrorDetails]:
        channels = self.head_dim
        if channels is not None and channels % 2:
            yield rules.HEAD_DIM_ODD.broken("head_dim", f"{channels} is odd", value=channels)

    def _vocabulary(self) -> Iterator[InitErrorDetails]:
        drafted, known = self.draft_vocab_size, self.vocab_size
        if drafted > known:
            fact = f"{drafted} is above vocab_size ({known})"
            yield rules.DRAFT_VOCAB_SIZE_TOO_LARGE.broken("draft_vocab_size", fact, value=drafted)

    @property
    def context_channels(self) -> int | None:
        """Numbers that a layer keeps of a context position; None where the checkpoint does not
        state the heads.
        """
        if self.attention_kind == "latent":
            return self.head_dim
        if self.num_key_value_heads is None or self.head_dim is None:
            return None
        return 2 * self.num_key_value_heads * self.head_dim


class _BlockDrafter(_Drafter, frozen=True):
    """What the drafters that fill a block of positions in one forward share."""

    block_size: BlockSize
    """Positions of a block, the anchor included; 1 to 1025."""

    mask_token_id: MaskTokenId
    """Token that fills the block behind the anchor; below vocab_size."""

    target_hidden_size: Width
    """Width of the target states that are captured, in channels; hidden_size in most drafters."""

    target_layer_ids: LayerIds
    """Target layers whose states are captured, as published: read them with layer_id_convention."""

    layer_id_convention: LayerIdConvention
    """What id i means: the output of decoder layer i (-1 is the embedding), or its input (0 is the
    embedding)."""

    anchor_convention: AnchorConvention
    """anchor_first: slot k predicts position anchor + k + 1, so a block yields block_size drafts;
    mask_at_position: slot k fills its own position anchor + k, and slot 0 yields none."""

    window_causality: WindowCausality
    """Whether a block position sees only earlier ones of its block (causal) or all (non_causal)."""

    @property
    def layers_to_capture(self) -> tuple[int, ...]:
        """Captured layers in one form whatever the convention: i is the output of layer i, -1 the
        embedding output.
        """
        if self.layer_id_convention == "output_of_layer":
            return self.target_layer_ids
        return tuple(layer - 1 for layer in self.target_layer_ids)

    @property
    def max_block_drafts(self) -> int:
        """Drafts that one block can yield under the anchor convention."""
        return self.block_size if self.anchor_convention == "anchor_first" else self.block_size - 1

    def checks(self) -> Iterator[Iterable[InitErrorDetails]]:
        yield from super().checks()
        yield self._block()
        yield self._layers()
        yield self._mask()

    def _block(self) -> Iterator[InitErrorDetails]:
        problem = block_problem(self.block_size)
        if problem is not None:
            yield problem

    def _layers(self) -> Iterator[InitErrorDetails]:
        lowest = -1 if self.layer_id_convention == "output_of_layer" else 0
        problem = layer_problem("target_layer_ids", self.target_layer_ids, lowest)
        if problem is not None:
            yield problem

    def _mask(self) -> Iterator[InitErrorDetails]:
        token = self.mask_token_id
        if token < 0:
            fact = f"{show(token)} is negative"
            yield rules.MASK_TOKEN_OUT_OF_RANGE.broken("mask_token_id", fact, value=token)
        elif token >= self.vocab_size:
            fact = f"{show(token)} is not below vocab_size ({self.vocab_size})"
            yield rules.MASK_TOKEN_OUT_OF_RANGE.broken("mask_token_id", fact, value=token)


@final
class DSparkDrafterConfig(_BlockDrafter, frozen=True):
    """A DSpark drafter: a block backbone, a sequential Markov head and a confidence head."""

    decoding_type: Literal["DSpark"] = "DSpark"
    """Method tag, by which unions are told apart."""

    markov_rank: MarkovRank
    """Rank of the Markov head that corrects each draft by the one before; 0 where the checkpoint
    has none."""

    markov_head_type: MarkovHeadType | None
    """Form of the Markov head; None exactly where markov_rank is 0."""

    enable_confidence_head: bool
    """Whether the checkpoint has a head that estimates the acceptance of each draft."""

    confidence_head_with_markov: bool
    """Whether the confidence head also reads the Markov embedding; False where either head is
    absent."""

    def checks(self) -> Iterator[Iterable[InitErrorDetails]]:
        yield from super().checks()
        yield self._markov_head()
        yield self._confidence_head()

    def _markov_head(self) -> Iterator[InitErrorDetails]:
        rank, kind = self.markov_rank, self.markov_head_type
        if (rank > 0) != (kind is not None):
            fact = f"{kind!r} does not go with markov_rank {rank}"
            yield rules.MARKOV_HEAD_INCONSISTENT.broken("markov_head_type", fact, value=kind)

    def _confidence_head(self) -> Iterator[InitErrorDetails]:
        if self.confidence_head_with_markov and not (
            self.enable_confidence_head and self.markov_rank
        ):
            absent = "Markov head" if self.enable_confidence_head else "confidence head"
            yield rules.CONFIDENCE_HEAD_INCONSISTENT.broken(
                "confidence_head_with_markov", f"True without a {absent}", value=True
            )


@final
class DFlashDrafterConfig(_BlockDrafter, frozen=True):
    """A DFlash drafter: the block backbone alone."""

    decoding_type: Literal["DFlash"] = "DFlash"
    """Method tag, by which unions are told apart."""


@final
class MTPDrafterConfig(_Drafter, frozen=True):
    """Multi-token-prediction layers behind the target's last, trained with it or after it."""

    decoding_type: Literal["MTP"] = "MTP"
    """Method tag, by which unions are told apart."""

    target_hidden_state: TargetHiddenState
    """Which state of the target the first layer reads: the output of its last decoder layer, or
    that output behind the final norm."""


DRAFTER_CONFIGS: Mapping[
    str, type[DSparkDrafterConfig | DFlashDrafterConfig | MTPDrafterConfig]
] = MappingProxyType(
    {"DSpark": DSparkDrafterConfig, "DFlash": DFlashDrafterConfig, "MTP": MTPDrafterConfig}
)

DrafterConfig = Annotated[
    DSparkDrafterConfig | DFlashDrafterConfig | MTPDrafterConfig,
    Field(discriminator="decoding_type"),
]
"""Any drafter, told apart by ``decoding_type``."""
