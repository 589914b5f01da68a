"""Sizes of the engine: batch shape, sequence slots, token budget, graph buckets."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, ClassVar, final

from pydantic import ValidationError
from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._base import SpecModel
from ._errors import line_error, show, validation_error
from ._explained import explained
from ._types import BatchSizes, DType, PositiveInt
from ._written import show_written, validate_written


@final
class EngineConfig(SpecModel, frozen=True):
    """Capacity of the engine, fixed for the life of the process."""

    how_to_build: ClassVar[str] = (
        "build it with EngineConfig.sized(...), which computes the slot pool"
    )

    max_num_requests: PositiveInt
    """Rows of one forward batch. Sizes batch-position buffers only, never slot-indexed ones."""

    num_seq_slots: PositiveInt
    """Sequence slots of the engine: requests that hold state at once, in a batch or between two."""

    max_num_tokens: PositiveInt
    """Target tokens of one forward batch."""

    max_seq_len: PositiveInt
    """Longest sequence that a request may reach, prompt and output, in tokens."""

    dtype: DType
    """Type of the hidden states that the target computes and the drafter captures."""

    cuda_graph_batch_sizes: BatchSizes = ()
    """Batch sizes with a captured graph, increasing; empty runs every batch eagerly."""

    tensor_parallel_size: PositiveInt = 1
    """Ranks that share each layer; 1 is no tensor parallelism."""

    pipeline_parallel_size: PositiveInt = 1
    """Pipeline stages, each with a batch in flight; 1 is no pipeline parallelism."""

    max_kv_tokens_per_request: PositiveInt | None = None
    """Tokens that a request's row of the engine's KV map holds, drafts included; None where rows
    grow as needed."""

    kv_reserved_steps: PositiveInt = 1
    """Steps whose tokens (max_draft_len + 1 each) such a row holds at once; 2 where an overlapping
    scheduler reserves the next step before this one is done."""

    supported_window_sizes: BatchSizes = ()
    """Drafter windows that the attention backend has kernels for, in tokens; empty is any."""

    uniform_rows: bool = False
    """Whether kernels need every real row of a step to have the same seq_len."""

    state_memory_limit: PositiveInt | None = None
    """Bytes that slot, capture and draft-probability buffers may take together; None is no
    limit."""

    @classmethod
    def sized(
        cls,
        *,
        max_num_requests: int,
        max_num_tokens: int,
        max_seq_len: int,
        dtype: DType,
        overlap_headroom: bool,
        disaggregated: bool,
        cuda_graph_batch_sizes: tuple[int, ...] = (),
        tensor_parallel_size: int = 1,
        pipeline_parallel_size: int = 1,
        max_kv_tokens_per_request: int | None = None,
        kv_reserved_steps: int = 1,
        supported_window_sizes: tuple[int, ...] = (),
        uniform_rows: bool = False,
        state_memory_limit: int | None = None,
    ) -> "EngineConfig":
        """The engine whose slot pool holds every request that can be alive at once.

        With B = `max_num_requests` and P = `pipeline_parallel_size`, the seats are B * P, one batch
        in each stage. `overlap_headroom` adds B, for requests that finish while the next batch is
        already scheduled. `disaggregated` takes at least 2 * B * P, for requests whose transfer is
        under way. The formula reproduces the table of slot-pool sizes that TensorRT-LLM's tests pin
        (NVIDIA/TensorRT-LLM#17154, #18457).

        Raises ``pydantic.ValidationError`` for sizes that no engine can have.
        """
        return sized_engine(
            {
                "max_num_requests": max_num_requests,
                "max_num_tokens": max_num_tokens,
                "max_seq_len": max_seq_len,
                "dtype": dtype,
                "cuda_graph_batch_sizes": cuda_graph_batch_sizes,
                "tensor_parallel_size": tensor_parallel_size,
                "pipeline_parallel_size": pipeline_parallel_size,
                "max_kv_tokens_per_request": max_kv_tokens_per_request,
                "kv_reserved_steps": kv_reserved_steps,
                "supported_window_sizes": supported_window_sizes,
                "uniform_rows": uniform_rows,
                "state_memory_limit": state_memory_limit,
            },
            overlap_headroom=overlap_headroom,
            disaggregated=disaggregated,
            written=False,
        )

    def checks(self) -> Iterator[Iterable[InitErrorDetails]]:
        yield from super().checks()
        yield self._slots()
        yield self._graph_range()
        yield self._graph_order()

    def _slots(self) -> Iterator[InitErrorDetails]:
        if self.num_seq_slots < self.max_num_requests:
            fact = f"{self.num_seq_slots} is below max_num_requests ({self.max_num_requests})"
            yield rules.NUM_SEQ_SLOTS_TOO_SMALL.broken(
                "num_seq_slots", fact, value=self.num_seq_slots
            )

    def _graph_range(self) -> Iterator[InitErrorDetails]:
        field, largest = "cuda_graph_batch_sizes", self.max_num_requests
        for index, size in enumerate(self.cuda_graph_batch_sizes):
            if not 1 <= size <= largest:
                fact = f"{show(size)} is outside 1 ... max_num_requests ({largest})"
                yield rules.GRAPH_SIZE_OUT_OF_RANGE.broken(field, fact, value=size, index=index)
                return

    def _graph_order(self) -> Iterator[InitErrorDetails]:
        field = "cuda_graph_batch_sizes"
        for index, (before, size) in enumerate(pairwise(self.cuda_graph_batch_sizes), 1):
            if 1 <= size <= before:  # one below 1 is out of range
                fact = f"{show(size)} comes after {show(before)}, sizes must strictly increase"
                yield rules.GRAPH_SIZES_NOT_INCREASING.broken(field, fact, value=size, index=index)
                return


def sized_engine(
    fields: Mapping[str, Any], *, overlap_headroom: object, disaggregated: object, written: bool
) -> EngineConfig:
    """`EngineConfig.sized`; `written` is whether a file holds the fields, as errors tell then."""
    flags = {"overlap_headroom": overlap_headroom, "disaggregated": disaggregated}
    lines = [
        _not_a_flag(name, flag, written=written)
        for name, flag in flags.items()
        if not isinstance(flag, bool)
    ]
    rows = fields.get("max_num_requests")
    countable = type(rows) is int and rows > 0
    # The factors are validated before they are multiplied; a bad one is one error, not two.
    data = {**fields, "num_seq_slots": rows if countable else 1}
    try:
        plain = (
            validate_written(EngineConfig, data) if written else EngineConfig.model_validate(data)
        )
    except ValidationError as error:
        raise explained(EngineConfig, error, lines, written=written) from None
    if lines:
        raise validation_error(EngineConfig.__name__, lines)
    seats = num_seats(
        plain.max_num_requests,
        plain.pipeline_parallel_size,
        overlap_headroom=overlap_headroom is True,
        disaggregated=disaggregated is True,
    )
    return plain.model_copy(update={"num_seq_slots": seats})


def num_seats(rows: int, stages: int, *, overlap_headroom: bool, disaggregated: bool) -> int:
    """Slots of a pool that `EngineConfig.sized` describes: a batch in each stage, one more with
    headroom, and twice those in flight at least for requests under transfer.
    """
    in_flight = rows * stages
    seats = in_flight + (rows if overlap_headroom else 0)
    return max(seats, 2 * in_flight) if disaggregated else seats


def _not_a_flag(name: str, flag: object, *, written: bool) -> InitErrorDetails:
    fact = f"{show_written(flag) if written else show(flag)} is not a bool"
    remedy = "write true or false" if written else "pass True or False"
    return line_error("bool_type", name, fact, remedy, value=flag)
