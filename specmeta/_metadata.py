"""The batch that a worker is told about each step."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, final

from pydantic import Field
from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._base import SpecModel
from ._errors import validation_error
from ._rows import explain_rows, rows_are_valid
from ._types import (
    DType,
    LayerIds,
    NonNegativeInt,
    PositiveInt,
    Positions,
    RankCounts,
    RequestId,
    RequestIds,
    SeqLens,
)

# What belongs to the batch rather than to the shape: everything else is the static part.
_PER_ROW = ("request_ids", "seq_lens")
_BATCH = (*_PER_ROW, "num_contexts", "context_positions", "num_padding", "finished_request_ids")
_BATCH_AND_RANKS = (*_BATCH, "all_rank_num_generations")


class _SpecMetadata(SpecModel, frozen=True):
    """What the metadata of every method shares.

    Rows are in batch order: contexts first, then generations, then padding. Immutable, so a decode step whose batch
    did not change reuses the same object, and workers key their host work on its identity.
    """

    how_to_build = (
        "build metadata with specmeta.get_spec_metadata(deployment, ...), in tests with the factories of specmeta.testing"
    )

    request_ids: RequestIds
    """Ids of the real rows, contexts first: unique, positive, below 2**64 - 1 - (2 * max_draft_len + 1). 0 and the
    ids above belong to dummy requests, which are counted in num_padding."""

    num_contexts: NonNegativeInt
    """Context (prefill) rows; they are the first of request_ids."""

    seq_lens: SeqLens
    """Target tokens of each row in this forward: a context its chunk, a generation row its last token and its drafts,
    1 to max_draft_len + 1."""

    context_positions: Positions
    """Absolute position of the first token of each context chunk, in tokens; 0 starts a request."""

    num_seq_slots: PositiveInt
    """Sequence slots of the engine. Sizes slot-indexed state, and stays the same in every graph bucket."""

    max_num_requests: PositiveInt
    """Rows that this forward shape can hold; a graph bucket narrows it."""

    max_num_tokens: PositiveInt
    """Target tokens that this forward shape can hold."""

    max_draft_len: PositiveInt
    """Draft tokens of a step (K), in tokens."""

    hidden_size: PositiveInt
    """Width of the target's hidden states, in channels."""

    dtype: DType
    """Type of the target's hidden states."""

    num_stages: PositiveInt
    """Drafter layers, each with its own state in a slot."""

    num_padding: NonNegativeInt = 0
    """Dummy rows at the tail, max_draft_len + 1 tokens each; they only touch the scratch slot."""

    finished_request_ids: RequestIds = ()
    """Ids whose slots the worker releases before this step; none of them is in request_ids."""

    is_cuda_graph: bool = False
    """Whether this is the shape of a captured graph."""

    all_rank_num_generations: RankCounts | None = None
    """Generation rows of each attention-DP rank; None without attention DP."""

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

    def _problems(self) -> list[InitErrorDetails]:
        return [] if rows_are_valid(self.__dict__) else explain_rows(self)

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
    ) -> Self:
        """The metadata of the next batch in the same shape, validated.

        Without `num_padding`, a graph bucket is padded to its size and any other shape is not padded.
        Raises ``pydantic.ValidationError`` for rows that break a rule.
        """
        if num_padding is None:
            num_padding = max(0, self.max_num_requests - len(request_ids)) if self.is_cuda_graph else 0
        return self.model_copy(
            update={
                "request_ids": request_ids,
                "num_contexts": num_contexts,
                "seq_lens": seq_lens,
                "context_positions": context_positions,
                "num_padding": num_padding,
                "finished_request_ids": finished_request_ids,
                "all_rank_num_generations": all_rank_num_generations,
            }
        )

    def create_cuda_graph_metadata(self, max_batch_size: int) -> Self:
        """This batch in the shape of a graph bucket of `max_batch_size` rows, the tail padded.

        `max_num_requests` becomes the bucket; `num_seq_slots` does not change, because slot-indexed state is the
        engine's. Raises ``pydantic.ValidationError`` for a bucket below the real rows or above the batch shape.
        """
        rows = len(self.request_ids)
        if type(max_batch_size) is not int or not max(rows, 1) <= max_batch_size <= self.max_num_requests:
            fact = f"{max_batch_size!r} is not an int from {max(rows, 1)} (rows) to {self.max_num_requests} (max_num_requests)"
            line = rules.GRAPH_BUCKET_OUT_OF_RANGE.broken("max_batch_size", fact, value=max_batch_size)
            raise validation_error(type(self).__name__, [line])
        return self.model_copy(
            update={
                "max_num_requests": max_batch_size,
                "num_padding": max_batch_size - rows,
                "is_cuda_graph": True,
            }
        )

    def select(self, rows: Sequence[int]) -> Self:
        """The batch of these rows (indices into `request_ids`), contexts first, each group in the given order.

        Fields that are not per row stay as they are; a graph bucket is padded again to its size.
        Raises ``pydantic.ValidationError`` for an index that is out of range, repeated or not an int.
        """
        total = len(self.request_ids)
        seen: set[int] = set()
        for index, row in enumerate(rows):
            if type(row) is not int or not 0 <= row < total or row in seen:
                what = f"repeats row {row}" if row in seen else f"is not an int from 0 to {total - 1}"
                line = rules.ROW_SELECTION_INVALID.broken("rows", f"{row!r} {what}", value=row, index=index)
                raise validation_error(type(self).__name__, [line])
            seen.add(row)
        contexts = [row for row in rows if row < self.num_contexts]
        ordered = contexts + [row for row in rows if row >= self.num_contexts]
        update: dict[str, Any] = {
            name: tuple(getattr(self, name)[row] for row in ordered) for name in _PER_ROW
        }
        update["num_contexts"] = len(contexts)
        update["context_positions"] = tuple(self.context_positions[row] for row in contexts)
        if self.is_cuda_graph:
            update["num_padding"] = self.max_num_requests - len(ordered)
        return self.model_copy(update=update)

    def concat(self, *others: Self) -> Self:
        """The rows of this batch and of `others` in one batch of the same shape: all contexts first, then all generations.

        Padding adds up, except that a graph bucket is padded to its size; finished ids are united. Raises
        ``pydantic.ValidationError`` where a field that is not per batch differs, or where the rows break a rule.
        """
        parts = (self, *others)
        for other in others:
            if type(other) is not type(self):
                raise TypeError(f"concat takes {type(self).__name__}, not {type(other).__name__}")
            for name in type(self).model_fields:
                if name not in _BATCH and getattr(other, name) != getattr(self, name):
                    fact = f"{getattr(other, name)!r} is not the first part's {getattr(self, name)!r}"
                    line = rules.STATIC_PART_DIFFERS.broken(name, fact, value=getattr(other, name))
                    raise validation_error(type(self).__name__, [line])
        update: dict[str, Any] = {}
        for name in _PER_ROW:
            contexts = tuple(v for part in parts for v in getattr(part, name)[: part.num_contexts])
            update[name] = contexts + tuple(v for part in parts for v in getattr(part, name)[part.num_contexts :])
        update["num_contexts"] = sum(part.num_contexts for part in parts)
        update["context_positions"] = tuple(p for part in parts for p in part.context_positions)
        update["finished_request_ids"] = tuple(
            dict.fromkeys(i for part in parts for i in part.finished_request_ids)
        )
        padding = sum(part.num_padding for part in parts)
        if self.is_cuda_graph:
            padding = max(0, self.max_num_requests - len(update["request_ids"]))
        update["num_padding"] = padding
        return self.model_copy(update=update)


class _BlockSpecMetadata(_SpecMetadata, frozen=True):
    """What block drafters need beyond the batch."""

    layers_to_capture: LayerIds
    """Target layers whose states are captured, strictly increasing: i is the output of layer i, -1 the embedding's."""

    window_size: PositiveInt
    """Context positions that the drafter attends to, in tokens: its window, or max_seq_len without one."""

    block_size: PositiveInt
    """Positions of the drafter's block, the anchor included."""

    def _problems(self) -> list[InitErrorDetails]:
        problems = super()._problems()
        layers, draft_len = self.layers_to_capture, self.max_draft_len
        if not layers:
            problems.append(rules.LAYERS_NOT_INCREASING.broken("layers_to_capture", "is empty", value=layers))
        before = -2
        for index, layer in enumerate(layers):
            if layer < -1:
                fact = f"{layer} is below -1, the embedding output"
                problems.append(rules.LAYER_OUT_OF_RANGE.broken("layers_to_capture", fact, value=layer, index=index))
                break
            if layer <= before:
                fact = f"{layer} comes after {before}, layers must strictly increase"
                problems.append(
                    rules.LAYERS_NOT_INCREASING.broken("layers_to_capture", fact, value=layer, index=index)
                )
                break
            before = layer
        if draft_len > self.block_size:
            fact = f"{draft_len} is above block_size ({self.block_size})"
            problems.append(rules.DRAFT_BEYOND_BLOCK.broken("max_draft_len", fact, value=draft_len))
        if self.window_size < draft_len + 1:
            fact = f"{self.window_size} is below max_draft_len + 1 ({draft_len + 1})"
            problems.append(rules.WINDOW_TOO_SMALL.broken("window_size", fact, value=self.window_size))
        return problems


@final
class DSparkSpecMetadata(_BlockSpecMetadata, frozen=True):
    """The batch of a step of a `DSparkWorker`."""

    decoding_type: Literal["DSpark"] = "DSpark"
    """Method tag, by which unions are told apart."""


@final
class DFlashSpecMetadata(_BlockSpecMetadata, frozen=True):
    """The batch of a step of a `DFlashWorker`."""

    decoding_type: Literal["DFlash"] = "DFlash"
    """Method tag, by which unions are told apart."""


@final
class MTPSpecMetadata(_SpecMetadata, frozen=True):
    """The batch of a step of an `MTPWorker`."""

    decoding_type: Literal["MTP"] = "MTP"
    """Method tag, by which unions are told apart."""


SpecMetadata = Annotated[
    DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata, Field(discriminator="decoding_type")
]
"""The batch of any method, told apart by ``decoding_type``."""
