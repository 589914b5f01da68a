"""Rules on the rows of a batch: one fast pass for a valid batch, and a slow one that explains an
invalid one.

The fast pass decides; it costs one C-level sweep for each property, and no Python-level loop. The
slow pass runs only for a batch that is already known to be invalid, and names the first bad row of
each kind.
"""

from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._errors import show
from ._types import MAX_DRAFT_LEN

if TYPE_CHECKING:
    from ._metadata import _SpecMetadata

_ID_RANGE = 2**64


def reserved_floor(max_draft_len: int) -> int:
    """First id of the CUDA-graph padding family: 2**64 - 1 less one id for each draft length of
    both variants.
    """
    return _ID_RANGE - 1 - (2 * max_draft_len + 1)


_LOWEST_RESERVED = reserved_floor(MAX_DRAFT_LEN)


def rows_are_valid(fields: dict[str, Any]) -> bool:
    """Whether the rows of these already type-checked fields obey every rule of `explain_rows`."""
    ids: tuple[int, ...] = fields["request_ids"]
    seq_lens: tuple[int, ...] = fields["seq_lens"]
    positions: tuple[int, ...] = fields["context_positions"]
    finished: tuple[int, ...] = fields["finished_request_ids"]
    num_contexts: int = fields["num_contexts"]
    num_padding: int = fields["num_padding"]
    width: int = fields["max_draft_len"] + 1
    num_rows = len(ids)
    if not (
        len(seq_lens) == num_rows
        and len(positions) == num_contexts <= num_rows
        and 0 < num_rows + num_padding <= fields["max_num_requests"] <= fields["num_seq_slots"]
    ):
        return False
    sampling: tuple[Any, ...] | None = fields["sampling"]
    if sampling is not None and len(sampling) != num_rows:
        return False
    live = _valid_ids(ids, width)
    if live is None:
        return False
    if finished:
        released = _valid_ids(finished, width)
        if released is None or not live.isdisjoint(released):
            return False
    generations = seq_lens
    if num_contexts:
        if min(positions) < 0 or min(seq_lens[:num_contexts]) < 1:
            return False
        generations = seq_lens[num_contexts:]
    if not _generation_lengths(width).issuperset(generations):
        return False
    if fields["uniform_rows"] and len(set(seq_lens)) > 1:
        return False
    ranks: tuple[int, ...] | None = fields["all_rank_num_generations"]
    if ranks is not None and (not ranks or min(ranks) < 0):
        return False
    return bool(sum(seq_lens) + num_padding * width <= fields["max_num_tokens"])


def _valid_ids(ids: tuple[int, ...], width: int) -> set[int] | None:
    """The ids as a set, or None where one is repeated, 0, negative or reserved."""
    unique = set(ids)
    try:
        array("Q", ids)  # one C sweep that refuses negatives and ids of more than 64 bits
    except OverflowError:
        return None
    if len(unique) != len(ids) or not unique.isdisjoint(_dummy_ids(width)):
        return None
    return unique


@cache
def _dummy_ids(width: int) -> frozenset[int]:
    """Every unsigned 64-bit id that no request may have."""
    return frozenset((0, *range(reserved_floor(width - 1), _ID_RANGE)))


@cache
def _generation_lengths(width: int) -> frozenset[int]:
    """Every length that a generation row may have."""
    return frozenset(range(1, width + 1))


def explain_rows(m: "_SpecMetadata") -> Iterator[Iterable[InitErrorDetails]]:
    """The rules on the rows: each a generator that reads what it needs, and ends at the first bad
    row.
    """
    for field in ("request_ids", "finished_request_ids"):
        yield _explain_ids(m, field)
    yield _explain_finished(m)
    yield _explain_contexts(m)
    yield _explain_count(m, "seq_lens")
    yield _explain_count(m, "context_positions")
    yield _explain_count(m, "sampling")
    yield _explain_positions(m)
    yield _explain_lengths(m)
    yield _explain_ranks(m)
    yield _explain_shape(m)
    yield _explain_slots(m)
    yield _explain_tokens(m)


def _explain_ids(m: "_SpecMetadata", field: str) -> Iterator[InitErrorDetails]:
    first_seen: dict[int, int] = {}
    for index, request_id in enumerate(getattr(m, field)):
        if request_id <= 0:
            what = "the attention-DP dummy id" if request_id == 0 else "negative"
            fact = f"{show(request_id)} is {what}, a request id is positive"
            yield rules.REQUEST_ID_NOT_POSITIVE.broken(field, fact, value=request_id, index=index)
            return
        if request_id >= _LOWEST_RESERVED and request_id >= (
            floor := reserved_floor(m.max_draft_len)
        ):
            fact = f"{show(request_id)} is not below {floor} (2**64 - 1 - (2 * max_draft_len + 1))"
            yield rules.REQUEST_ID_RESERVED.broken(field, fact, value=request_id, index=index)
            return
        if request_id in first_seen:
            fact = f"{show(request_id)} repeats {field}[{first_seen[request_id]}]"
            yield rules.REQUEST_ID_REPEATED.broken(field, fact, value=request_id, index=index)
            return
        first_seen[request_id] = index


def _explain_finished(m: "_SpecMetadata") -> Iterator[InitErrorDetails]:
    live, field = set(m.request_ids), "finished_request_ids"
    for index, request_id in enumerate(m.finished_request_ids):
        if request_id in live:
            fact = f"{show(request_id)} is also in request_ids"
            yield rules.FINISHED_REQUEST_IN_BATCH.broken(field, fact, value=request_id, index=index)
            return


def _explain_contexts(m: "_SpecMetadata") -> Iterator[InitErrorDetails]:
    contexts, rows = m.num_contexts, len(m.request_ids)
    if contexts > rows:
        fact = f"{contexts} is above the {rows} rows of request_ids"
        yield rules.NUM_CONTEXTS_BEYOND_ROWS.broken("num_contexts", fact, value=contexts)


def _explain_count(m: "_SpecMetadata", field: str) -> Iterator[InitErrorDetails]:
    values, wanted, what = getattr(m, field), len(m.request_ids), "rows in request_ids"
    if field == "context_positions":
        if m.num_contexts > wanted:  # then that count is what is wrong
            return
        wanted, what = m.num_contexts, "contexts (num_contexts)"
    if values is not None and len(values) != wanted:
        fact = f"has {len(values)} entries for {wanted} {what}"
        yield rules.LENGTHS_DISAGREE.broken(field, fact, value=values)


def _explain_positions(m: "_SpecMetadata") -> Iterator[InitErrorDetails]:
    field = "context_positions"
    for index, position in enumerate(m.context_positions):
        if position < 0:
            fact = f"{show(position)} is negative"
            yield rules.CONTEXT_POSITION_NEGATIVE.broken(field, fact, value=position, index=index)
            return


def _explain_lengths(m: "_SpecMetadata") -> Iterator[InitErrorDetails]:
    for index, length in enumerate(m.seq_lens):
        if length < 1:
            fact = f"{show(length)} is below 1 token"
            yield rules.SEQ_LEN_NOT_POSITIVE.broken("seq_lens", fact, value=length, index=index)
            return
        if index >= m.num_contexts and length > m.max_draft_len + 1:
            row = f"a generation row (num_contexts is {m.num_contexts})"
            fact = f"{show(length)} is above max_draft_len + 1 ({m.max_draft_len + 1}) in {row}"
            yield rules.GENERATION_ROW_TOO_LONG.broken("seq_lens", fact, value=length, index=index)
            return
        if m.uniform_rows and length != m.seq_lens[0]:
            fact = f"{show(length)} is not the {show(m.seq_lens[0])} of the first row"
            yield rules.ROWS_NOT_UNIFORM.broken("seq_lens", fact, value=length, index=index)
            return


def _explain_ranks(m: "_SpecMetadata") -> Iterator[InitErrorDetails]:
    ranks, field = m.all_rank_num_generations, "all_rank_num_generations"
    if ranks is None:
        return
    if not ranks:
        yield rules.RANK_COUNTS_INVALID.broken(field, "is empty", value=ranks)
    for index, count in enumerate(ranks):
        if count < 0:
            fact = f"{show(count)} is negative"
            yield rules.RANK_COUNTS_INVALID.broken(field, fact, value=count, index=index)
            return


def _explain_shape(m: "_SpecMetadata") -> Iterator[InitErrorDetails]:
    real, padding = len(m.request_ids), m.num_padding
    if real + padding == 0:
        fact = "is empty and num_padding is 0"
        yield rules.ROWS_ABSENT.broken("request_ids", fact, value=m.request_ids)
    most = m.max_num_requests
    if real + padding > most:
        fact = f"{_rows(m)} are more than max_num_requests ({most})"
        field, value = ("request_ids", real) if real > most else ("num_padding", padding)
        yield rules.ROWS_BEYOND_MAX_NUM_REQUESTS.broken(field, fact, value=value)


def _explain_slots(m: "_SpecMetadata") -> Iterator[InitErrorDetails]:
    if m.num_seq_slots < m.max_num_requests:
        fact = f"{m.num_seq_slots} is below max_num_requests ({m.max_num_requests})"
        yield rules.NUM_SEQ_SLOTS_TOO_SMALL.broken("num_seq_slots", fact, value=m.num_seq_slots)


def _explain_tokens(m: "_SpecMetadata") -> Iterator[InitErrorDetails]:
    tokens, most = sum(m.seq_lens) + m.num_padding * (m.max_draft_len + 1), m.max_num_tokens
    if tokens > most:
        fact = f"{most} is below the {show(tokens)} tokens of {_rows(m)}"
        yield rules.TOKENS_BEYOND_MAX_NUM_TOKENS.broken("max_num_tokens", fact, value=most)


def _rows(m: "_SpecMetadata") -> str:
    return f"{len(m.request_ids)} rows and {m.num_padding} of padding"
