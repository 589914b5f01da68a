"""Taking rows out of a batch and putting batches together: every per-row field, in one place."""

from collections.abc import Sequence
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

from . import _rules as rules
from ._errors import show, validation_error

if TYPE_CHECKING:
    from ._metadata import _SpecMetadata
    from ._sampling import SamplingParams

_PER_ROW = ("request_ids", "seq_lens", "sampling")
_PER_CONTEXT = ("context_positions",)
_COUNTS = ("num_contexts", "num_padding", "finished_request_ids", "all_rank_num_generations")
_BATCH = (*_PER_ROW, *_PER_CONTEXT, *_COUNTS)


def static_names(model: "type[_SpecMetadata]") -> list[str]:
    """Fields that are not of one batch alone."""
    return [name for name in model.model_fields if name not in _BATCH]


def fill(metadata: "_SpecMetadata", rows: Any) -> int:
    """Padding that fills a graph bucket; 0 where the rows exceed it or are no tuple, which
    validation reports.
    """
    return max(0, metadata.max_num_requests - len(rows)) if isinstance(rows, tuple) else 0


def rank_counts(metadata: "_SpecMetadata", given: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The counts of the next batch: under attention DP they must be gathered again."""
    if given is None and metadata.all_rank_num_generations is not None:
        fact = f"not given, although this batch has {short(metadata.all_rank_num_generations)}"
        line = rules.RANK_COUNTS_ABSENT.broken("all_rank_num_generations", fact, value=None)
        raise validation_error(type(metadata).__name__, [line])
    return given


def sampling_of_next(
    metadata: "_SpecMetadata", given: "tuple[SamplingParams, ...] | None"
) -> "tuple[SamplingParams, ...] | None":
    """The parameters of the next batch: where rows are sampled, new rows bring theirs."""
    if given is None and metadata.sampling is not None:
        fact = "not given, although the rows of this batch are sampled"
        line = rules.SAMPLING_ABSENT.broken("sampling", fact, value=None)
        raise validation_error(type(metadata).__name__, [line])
    return given


def selected(metadata: "_SpecMetadata", rows: Sequence[int]) -> dict[str, Any]:
    """The fields that change when only these rows stay: contexts first, else in the given order."""
    _check_selection(metadata, rows)
    contexts = [row for row in rows if row < metadata.num_contexts]
    ordered = contexts + [row for row in rows if row >= metadata.num_contexts]
    update: dict[str, Any] = {"num_contexts": len(contexts)}
    for names, kept in ((_PER_ROW, ordered), (_PER_CONTEXT, contexts)):
        for name in names:
            values = getattr(metadata, name)
            # sampling alone may be None, and then is for every row
            update[name] = None if values is None else tuple(values[row] for row in kept)
    if metadata.is_cuda_graph:
        update["num_padding"] = fill(metadata, update["request_ids"])
    return update


def _check_selection(metadata: "_SpecMetadata", rows: Any) -> None:
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes | bytearray):
        # an iterator is empty at its second reading, and a set has no order
        fact = f"{show(rows)} is not a sequence of ints"
        line = rules.ROW_SELECTION_INVALID.broken("rows", fact, value=rows)
        raise validation_error(type(metadata).__name__, [line])
    total = len(metadata.request_ids)
    seen: set[int] = set()
    for index, row in enumerate(rows):
        if type(row) is not int or not 0 <= row < total:
            fact = f"{show(row)} is not an int from 0 to {total - 1}"
        elif row in seen:
            fact = f"{row} is given twice"
        else:
            seen.add(row)
            continue
        line = rules.ROW_SELECTION_INVALID.broken("rows", fact, value=row, index=index)
        raise validation_error(type(metadata).__name__, [line])


def concatenated(first: "_SpecMetadata", others: Sequence["_SpecMetadata"]) -> dict[str, Any]:
    """The fields of one batch with the rows of all: every context, then every generation."""
    _check_same_shape(first, others)
    parts = (first, *others)
    update: dict[str, Any] = {"num_contexts": sum(part.num_contexts for part in parts)}
    for name in _PER_ROW:
        if getattr(first, name) is None:
            continue
        contexts: list[Any] = []
        generations: list[Any] = []
        for part in parts:
            values = getattr(part, name)
            contexts += values[: part.num_contexts]
            generations += values[part.num_contexts :]
        update[name] = (*contexts, *generations)
    for name in _PER_CONTEXT:
        update[name] = tuple(value for part in parts for value in getattr(part, name))
    finished = dict.fromkeys(i for part in parts for i in part.finished_request_ids)
    update["finished_request_ids"] = tuple(finished)
    update["num_padding"] = sum(part.num_padding for part in parts)
    if first.is_cuda_graph:
        update["num_padding"] = fill(first, update["request_ids"])
    return update


def _check_same_shape(first: "_SpecMetadata", others: Sequence["_SpecMetadata"]) -> None:
    static = static_names(type(first))
    for other in others:
        if type(other) is not type(first):
            raise TypeError(f"concat takes {type(first).__name__}, not {type(other).__name__}")
        for name in static:
            mine, theirs = getattr(first, name), getattr(other, name)
            if mine != theirs:
                fact = f"{short(theirs)} is not the first part's {short(mine)}"
                line = rules.STATIC_PART_DIFFERS.broken(name, fact, value=theirs)
                raise validation_error(type(first).__name__, [line])
        if (other.sampling is None) != (first.sampling is None):
            fact = "None in one part and given in another"
            line = rules.SAMPLING_ABSENT.broken("sampling", fact, value=None)
            raise validation_error(type(first).__name__, [line])
