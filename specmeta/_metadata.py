"""The batch that a worker is told about each step."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, ClassVar, Literal, Self, final

from pydantic import Field
from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._base import SpecModel
from ._batching import concatenated, fill, rank_counts, sampling_of_next, selected
from ._drafting import drafting_is_valid, explain_drafting
from ._errors import show, validation_error
from ._rows import explain_rows, rows_are_valid
from ._sampling import SamplingParams, SamplingRows
from ._types import (
    BlockSize,
    DraftLen,
    DType,
    LayerCount,
    LayerIds,
    NonNegativeInt,
    Positions,
    PositiveInt,
    RankCounts,
    RequestId,
    RequestIds,
    SeqLens,
    Width,
)


class _SpecMetadata(SpecModel, frozen=True):
    """What the metadata of every method shares.

    Rows are in batch order: contexts first, then generations, then padding. Immutable, so a decode
    step whose batch did not change reuses the same object, and workers key their host work on its
    identity.
    """

    how_to_build: ClassVar[str] = (
        "build metadata with specmeta.get_spec_metadata(deployment, ...) "
        "or a factory of specmeta.testing"
    )

    request_ids: RequestIds
    """Ids of the real rows, contexts first: unique, positive, below 2**64 - 1 - (2 * max_draft_len
    + 1). 0 and the ids above belong to dummy requests, which are counted in num_padding."""

    num_contexts: NonNegativeInt
    """Context (prefill) rows; they are the first of request_ids."""

    seq_lens: SeqLens
    """Target tokens of each row in this forward: a context its chunk, a generation row its last
    token and its drafts, 1 to max_draft_len + 1."""

    context_positions: Positions
    """Absolute position of the first token of each context chunk, in tokens; 0 starts a request."""

    num_seq_slots: PositiveInt
    """Sequence slots of the engine. Sizes slot-indexed state, and stays the same in every graph
    bucket."""

    max_num_requests: PositiveInt
    """Rows that this forward shape can hold; a graph bucket narrows it."""

    max_num_tokens: PositiveInt
    """Target tokens that this forward shape can hold."""

    max_draft_len: DraftLen
    """Draft tokens of a step (K), in tokens."""

    hidden_size: Width
    """Width of the target's hidden states, in channels."""

    dtype: DType
    """Type of the target's hidden states."""

    num_stages: LayerCount
    """Drafter layers, each with its own state in a slot."""

    num_padding: NonNegativeInt = 0
    """Dummy rows at the tail, max_draft_len + 1 tokens each; they only touch the scratch slot."""

    finished_request_ids: RequestIds = ()
    """Ids whose slots the worker releases before this step; none of them is in request_ids."""

    is_cuda_graph: bool = False
    """Whether this is the shape of a captured graph."""

    uniform_rows: bool = False
    """Whether the engine's kernels need every real row to have the same seq_len."""

    all_rank_num_generations: RankCounts | None = None
    """Generation rows of each attention-DP rank; None without attention DP."""

    sampling: SamplingRows | None = None
    """How each real row is sampled, in the order of request_ids; None verifies every row
    greedily. Given exactly where the deployment uses rejection sampling."""

    @property
    def num_generations(self) -> int:
        """Generation rows, without padding."""
        return len(self.request_ids) - self.num_contexts

    @property
    def num_rows(self) -> int:
        """Rows of the forward, with padding."""
        return len(self.request_ids) + self.num_padding

    @property
    def num_tokens(self) -> int:
        """Target tokens of the real rows."""
        return sum(self.seq_lens)

    @property
    def scratch_slot(self) -> int:
        """Slot that padding rows use: the one behind the pool."""
        return self.num_seq_slots

    def checks(self) -> Iterator[Iterable[InitErrorDetails]]:
        yield from explain_rows(self)

    def broken_rules(self) -> Sequence[InitErrorDetails]:
        return () if rows_are_valid(vars(self)) else super().broken_rules()

    def with_batch(
        self,
        *,
        request_ids: tuple[RequestId, ...],
        num_contexts: int,
        seq_lens: tuple[int, ...],
        context_positions: tuple[int, ...],
        num_padding: int | None = None,
        finished_request_ids: tuple[RequestId, ...] = (),
        all_rank_num_generations: tuple[int, ...] | None = None,
        sampling: tuple[SamplingParams, ...] | None = None,
    ) -> Self:
        """The metadata of the next batch in the same shape, validated.

        Without `num_padding`, a graph bucket is padded to its size and any other shape is not
        padded. Rank counts and sampling parameters must be given again where this batch has them.
        Raises ``pydantic.ValidationError`` for rows that break a rule.
        """
        if num_padding is None:
            num_padding = fill(self, request_ids) if self.is_cuda_graph else 0
        return self.model_copy(
            update={
                "request_ids": request_ids,
                "num_contexts": num_contexts,
                "seq_lens": seq_lens,
                "context_positions": context_positions,
                "num_padding": num_padding,
                "finished_request_ids": finished_request_ids,
                "all_rank_num_generations": rank_counts(self, all_rank_num_generations),
                "sampling": sampling_of_next(self, sampling),
            }
        )

    def create_cuda_graph_metadata(self, max_batch_size: int) -> Self:
        """This batch in the shape of a graph bucket of `max_batch_size` rows, the tail padded.

        `max_num_requests` becomes the bucket; `num_seq_slots` does not change, because slot-indexed
        state is the engine's. Raises ``pydantic.ValidationError`` for a bucket below the real rows
        or above the batch shape.
        """
        rows = len(self.request_ids)
        if (
            type(max_batch_size) is not int
            or not max(rows, 1) <= max_batch_size <= self.max_num_requests
        ):
            bounds = f"{max(rows, 1)} (rows) to {self.max_num_requests} (max_num_requests)"
            fact = f"{show(max_batch_size)} is not an int from {bounds}"
            line = rules.GRAPH_BUCKET_OUT_OF_RANGE.broken(
                "max_batch_size", fact, value=max_batch_size
            )
            raise validation_error(type(self).__name__, [line])
        return self.model_copy(
            update={
                "max_num_requests": max_batch_size,
                "num_padding": max_batch_size - rows,
                "is_cuda_graph": True,
            }
        )

    def select(
        self, rows: Sequence[int], *, all_rank_num_generations: tuple[int, ...] | None = None
    ) -> Self:
        """The batch of these rows (indices into `request_ids`), contexts first, each group in the
        given order.

        Fields that are not per row stay as they are, finished_request_ids among them; a graph
        bucket is padded again to its size, and under attention DP the new counts must be given.
        Raises ``pydantic.ValidationError`` for an index that is out of range, repeated or not an
        int.
        """
        update = selected(self, rows)
        update["all_rank_num_generations"] = rank_counts(self, all_rank_num_generations)
        return self.model_copy(update=update)

    def concat(
        self, *others: Self, all_rank_num_generations: tuple[int, ...] | None = None
    ) -> Self:
        """The rows of this batch and of `others` in one batch of the same shape: all contexts
        first, then all generations.

        Padding adds up, except that a graph bucket is padded to its size; finished ids are united.
        Raises ``pydantic.ValidationError`` where a field that is not per batch differs, where only
        some parts have sampling parameters, or where the rows break a rule.
        """
        update = concatenated(self, others)
        for part in (self, *others):
            update["all_rank_num_generations"] = rank_counts(part, all_rank_num_generations)
        return self.model_copy(update=update)


class _BlockSpecMetadata(_SpecMetadata, frozen=True):
    """What block drafters need beyond the batch."""

    layers_to_capture: LayerIds
    """Target layers whose states are captured, strictly increasing: i is the output of layer i, -1
    the embedding's."""

    window_size: PositiveInt
    """Context positions that the drafter attends to, in tokens: its window, or max_seq_len without
    one."""

    block_size: BlockSize
    """Positions of the drafter's block, the anchor included."""

    def checks(self) -> Iterator[Iterable[InitErrorDetails]]:
        yield from super().checks()
        yield from explain_drafting(self)

    def broken_rules(self) -> Sequence[InitErrorDetails]:
        fields = vars(self)
        valid = rows_are_valid(fields) and drafting_is_valid(fields)
        return () if valid else SpecModel.broken_rules(self)


@final
class DSparkSpecMetadata(_BlockSpecMetadata, frozen=True):
    """The batch of a step of a DSpark worker."""

    decoding_type: Literal["DSpark"] = "DSpark"
    """Method tag, by which unions are told apart."""


@final
class DFlashSpecMetadata(_BlockSpecMetadata, frozen=True):
    """The batch of a step of a DFlash worker."""

    decoding_type: Literal["DFlash"] = "DFlash"
    """Method tag, by which unions are told apart."""


@final
class MTPSpecMetadata(_SpecMetadata, frozen=True):
    """The batch of a step of an MTP worker."""

    decoding_type: Literal["MTP"] = "MTP"
    """Method tag, by which unions are told apart."""


SpecMetadata = Annotated[
    DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata, Field(discriminator="decoding_type")
]
"""The batch of any method, told apart by ``decoding_type``."""
