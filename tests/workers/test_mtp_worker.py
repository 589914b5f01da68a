"""The MTP worker against its draft model alone: all cells made at once, then one draft.

`History` is what a request has committed. The cell of the state at p is of the token at p + 1, so
the last state has no cell until the next token is known.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import torch
from torch import Tensor

from specmeta import RequestId
from specmeta_workers import DraftOutput, MTPWorker
from tests.workers import naive_mtp
from tests.workers.model_cases import raw_of
from tests.workers.worker_cases import Chunk, Rig, Row, make_rig, same_state, state_of

WINDOW = 256
"""No sliding window: as long as the longest sequence."""


@attrs.define
class History:
    """Tokens of a request from `first` on, and the target's states at them."""

    first: int
    tokens: Tensor
    states: Tensor

    @property
    def end(self) -> int:
        """Position of the next token."""
        return self.first + len(self.tokens)

    def extended(self, tokens: list[int], states: Tensor) -> History:
        """With more tokens."""
        more = torch.tensor(tokens, dtype=torch.long)
        return History(self.first, torch.cat((self.tokens, more)), torch.cat((self.states, states)))

    def chunk(self, start: int, stop: int, bonus: int) -> Chunk:
        """A context chunk of it, from index `start` to `stop`."""
        return Chunk(self.states[start:stop], self.first + start, bonus, self.tokens[start:stop])


def mtp_rig(dtype: str = "float64", **fields: Any) -> Rig:
    return make_rig(dtype=dtype, kind="MTP", **fields)


def history_of(rig: Rig, length: int, first: int = 0) -> History:
    return History(first, rig.tokens(length), rig.captured(length))


def cells_of(rig: Rig, history: History) -> Tensor:
    """Keys and values of every complete cell `[n - 1, 1, 2, kv_heads, head_dim]`."""
    positions = torch.arange(history.first, history.end - 1)
    out: Tensor = rig.worker.draft_model.context_kv(
        history.tokens[1:], history.states[:-1], positions
    )
    return out


def draft_from(rig: Rig, history: History, bonus: int, window: int = WINDOW) -> list[int]:
    """The drafts behind a history and the token that follows it."""
    kv = cells_of(rig, history)[-(window - 1) :].transpose(0, 1)[None]
    drafts: Tensor = rig.worker.draft_model.draft(
        history.states[-1:],
        torch.tensor([bonus]),
        torch.tensor([history.end - 1]),
        kv,
        torch.ones(1, kv.shape[2], dtype=torch.bool),
        rig.width - 1,
    )
    return drafts[0].tolist()


def slot_of(rig: Rig, request_id: int) -> int:
    slot: int = rig.worker.pool.lookup(RequestId(request_id)).slot
    return slot


def check_slot(rig: Rig, request_id: int, history: History, window: int = WINDOW) -> None:
    """The slot holds the history's cells and last state, and shows no other cell.

    From the formulas alone: cell p in column (p + 1) % window.
    """
    worker, slot = rig.worker, slot_of(rig, request_id)
    assert isinstance(worker, MTPWorker)
    count = len(history.tokens)
    assert worker.context_lens[slot] == history.end
    assert worker.valid_lens[slot] == min(window, count)
    assert worker.position_initialized[slot]
    assert torch.equal(worker.hidden_states[slot], history.states[-1])
    kept = range(max(history.first, history.end - window), history.end - 1)
    kv = cells_of(rig, history)
    for p in kept:
        held = worker.kv_windows[slot, :, (p + 1) % window]
        torch.testing.assert_close(held, kv[p - history.first], rtol=0, atol=1e-12)
    assert readable_of(worker, slot) == {(p + 1) % window for p in kept}


def readable_of(worker: MTPWorker, slot: int) -> set[int]:
    """The columns that the next draft of a slot reads, as the model is told."""
    seen: list[Tensor] = []
    slots = torch.tensor([slot])
    with pytest.MonkeyPatch.context() as patch:
        original = worker.draft_model.draft

        def draft(*arguments: Any) -> Any:
            seen.append(arguments[4])  # which context columns may be read
            return original(*arguments)

        patch.setattr(worker.draft_model, "draft", draft)
        worker._draft(slots, torch.tensor([1]), worker._chooser(slots, None))
    return set(seen[0][0].nonzero().flatten().tolist())


def generate(rig: Rig, request_id: int, history: History, row: Row, accepted: int) -> History:
    """One step of one request; its drafts must be those of the history that it leaves."""
    output = rig.generate({request_id: row})
    assert output.num_accepted.tolist() == [accepted]
    history = history.extended(row.inputs[:accepted], row.captured[:accepted])
    bonus = row.targets[accepted - 1]
    assert output.tokens[0, accepted - 1] == bonus
    assert output.draft_tokens.tolist() == [draft_from(rig, history, bonus)]
    return history


@pytest.mark.parametrize("length", [1, 2, 5, 60])
def test_a_prefill_in_one_chunk(length: int) -> None:
    rig = mtp_rig()
    history = history_of(rig, length)
    output = rig.contexts({5: history.chunk(0, length, 17)})
    assert output.tokens[0, 0] == 17
    assert output.num_accepted.tolist() == [1]
    assert output.draft_lens.tolist() == [3]
    assert output.draft_tokens.tolist() == [draft_from(rig, history, 17)]
    check_slot(rig, 5, history)


@pytest.mark.parametrize("chunks", [(20, 20), (1, 39), (39, 1), (13, 13, 14), (1,) * 40])
def test_a_prefill_in_chunks_with_pauses_between(chunks: tuple[int, ...]) -> None:
    rig = mtp_rig()
    other = history_of(rig, 9)
    rig.contexts({6: other.chunk(0, 9, 3)})
    history = history_of(rig, 40)
    start = 0
    for length in chunks:
        output = rig.contexts({5: history.chunk(start, start + length, 9)})
        start += length
        seen = History(0, history.tokens[:start], history.states[:start])
        assert output.draft_tokens.tolist() == [draft_from(rig, seen, 9)]
        waiting = [buffer[slot_of(rig, 5)].clone() for buffer in buffers(rig)]
        other = generate(rig, 6, other, rig.row(2), 2)
        assert all(
            torch.equal(a, b[slot_of(rig, 5)]) for a, b in zip(waiting, buffers(rig), strict=True)
        )
    check_slot(rig, 5, history)
    check_slot(rig, 6, other)


def buffers(rig: Rig) -> list[Tensor]:
    return state_of(rig.worker)[:-1]


def test_a_first_chunk_above_zero_has_no_cell_before_it() -> None:
    rig = mtp_rig()
    history = history_of(rig, 6, first=100)
    output = rig.contexts({5: history.chunk(0, 1, 3)})
    # One token completes no cell: the draft reads its own alone.
    first = History(100, history.tokens[:1], history.states[:1])
    assert output.draft_tokens.tolist() == [draft_from(rig, first, 3)]
    check_slot(rig, 5, first)
    output = rig.contexts({5: history.chunk(1, 6, 3)})
    assert output.draft_tokens.tolist() == [draft_from(rig, history, 3)]
    check_slot(rig, 5, history)
    history = generate(rig, 5, history, rig.row(3), 3)
    check_slot(rig, 5, history)


def test_generation_commits_every_count_of_accepted_tokens() -> None:
    rig = mtp_rig()
    history = history_of(rig, 7)
    rig.contexts({5: history.chunk(0, 7, 1)})
    for accepted, length in (
        (1, 4), (2, 4), (3, 4), (4, 4), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (4, 4), (1, 4)
    ):  # fmt: skip
        history = generate(rig, 5, history, rig.row(accepted, length), accepted)
        check_slot(rig, 5, history)


def test_rejected_tokens_leave_no_trace() -> None:
    states = []
    for spoiled in (False, True):
        rig = mtp_rig()
        history = history_of(rig, 28)
        rig.contexts({5: history.chunk(0, 28, 1)})
        row = rig.row(2)
        if spoiled:
            row.captured[2:] = float("nan")
        generate(rig, 5, history, row, 2)
        states.append(state_of(rig.worker))
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))
    assert states[0][0].isfinite().all()


def test_a_cell_that_no_token_completed_is_never_read() -> None:
    """Whatever its column holds; large finite values would show in any draft that read them."""
    rig = mtp_rig()
    history = history_of(rig, 3, first=40)
    rig.contexts({5: history.chunk(0, 3, 1)})
    slot = slot_of(rig, 5)
    for accepted in (1, 4, 2, 3):
        worker = rig.worker
        assert isinstance(worker, MTPWorker)
        hidden = sorted(set(range(WINDOW)) - readable_of(worker, slot))
        assert len(hidden) == WINDOW - (len(history.tokens) - 1)
        worker.kv_windows[slot, :, hidden] = 1e6
        history = generate(rig, 5, history, rig.row(accepted), accepted)


def test_contexts_and_ragged_generations_share_a_step() -> None:
    rig = mtp_rig()
    known = {i: history_of(rig, 6 + i) for i in (1, 2, 3)}
    for request_id, history in known.items():
        rig.contexts({request_id: history.chunk(0, 6 + request_id, 1)})
    started = history_of(rig, 9)
    rig.contexts({8: started.chunk(0, 4, 1)})
    rows = {3: (rig.row(2, 3), 2), 1: (rig.row(4), 4), 2: (rig.row(1, 1), 1)}
    fresh = history_of(rig, 3, first=7)
    metadata = rig.metadata(
        request_ids=(8, 9, 3, 1, 2),
        num_contexts=2,
        seq_lens=(5, 3, 3, 4, 1),
        context_positions=(4, 7),
        num_padding=1,
    )
    inputs = [token for row, _ in rows.values() for token in row.inputs]
    targets = [token for row, _ in rows.values() for token in row.targets]
    padding = rig.tokens(rig.width)
    output = rig.worker.forward(
        metadata,
        input_ids=torch.cat((started.tokens[4:], fresh.tokens, torch.tensor(inputs), padding)),
        logits=rig.logits_of(torch.cat((torch.tensor([21, 22, *targets]), padding))),
        captured=torch.cat(
            [
                started.states[4:],
                fresh.states,
                *(row.captured for row, _ in rows.values()),
                rig.captured(rig.width),
            ]
        ),
    )
    assert output.num_accepted.tolist()[:5] == [1, 1, 2, 4, 1]
    expected = [(8, started, 21), (9, fresh, 22)]
    for request_id, (row, accepted) in rows.items():
        history = known[request_id].extended(row.inputs[:accepted], row.captured[:accepted])
        expected.append((request_id, history, row.targets[accepted - 1]))
    for index, (request_id, history, bonus) in enumerate(expected):
        assert output.draft_tokens[index].tolist() == draft_from(rig, history, bonus)
        check_slot(rig, request_id, history)
    assert all(buffer[-1].count_nonzero() == 0 for buffer in buffers(rig))


def seed(rig: Rig, request_id: int, history: History, bonus: int) -> DraftOutput:
    """A seed step of the whole history."""
    metadata = rig.metadata(
        request_ids=(request_id,),
        num_contexts=1,
        seq_lens=(len(history.tokens),),
        context_positions=(history.first,),
    )
    output: DraftOutput = rig.worker.seed(
        metadata,
        input_ids=history.tokens,
        next_tokens=torch.tensor([bonus]),
        captured=history.states,
    )
    return output


@pytest.mark.parametrize("first", [0, 30])
def test_a_seed_step_equals_the_prefill_of_the_same_tokens(first: int) -> None:
    prefill, seeded = mtp_rig(), mtp_rig()
    history = history_of(prefill, 20, first=first)
    expected = prefill.contexts({5: history.chunk(0, 20, 33)})
    output = seed(seeded, 5, history, 33)
    assert output.tokens.tolist() == [[33] * 4]
    assert output.num_accepted.tolist() == [1]
    assert output.draft_lens.tolist() == [3]
    assert torch.equal(output.draft_tokens, expected.draft_tokens)
    assert same_state(state_of(prefill.worker), seeded.worker)
    row = prefill.row(3)
    generate(seeded, 5, history, row, 3)
    prefill.generate({5: row})
    assert same_state(state_of(prefill.worker), seeded.worker)


def test_a_seed_step_reads_the_tokens_that_it_is_given() -> None:
    one, other = mtp_rig(), mtp_rig()
    history = history_of(one, 20)
    seed(one, 5, history, 33)
    seed(other, 5, attrs.evolve(history, tokens=(history.tokens + 1) % 256), 33)
    assert not torch.equal(one.worker.kv_windows, other.worker.kv_windows)


def test_a_recycled_slot_shows_nothing_of_the_request_before() -> None:
    fresh, recycled = (mtp_rig(num_seq_slots=1, max_num_requests=1) for _ in range(2))
    old = history_of(recycled, 50)
    old.states[30:] = float("nan")
    recycled.contexts({1: old.chunk(0, 50, 1)})
    history = history_of(fresh, 5)
    expected = fresh.contexts({2: history.chunk(0, 5, 9)})
    output = recycled.contexts({2: history.chunk(0, 5, 9)}, finished_request_ids=(RequestId(1),))
    assert list(recycled.worker.pool) == [2]
    assert torch.equal(output.draft_tokens, expected.draft_tokens)
    assert same_state(state_of(fresh.worker), recycled.worker)
    check_slot(recycled, 2, history)


def test_a_chunk_at_zero_starts_over() -> None:
    rig = mtp_rig()
    rig.contexts({5: history_of(rig, 50).chunk(0, 50, 1)})
    history = history_of(rig, 4)
    output = rig.contexts({5: history.chunk(0, 4, 8)})
    assert output.draft_tokens.tolist() == [draft_from(rig, history, 8)]
    check_slot(rig, 5, history)


def test_padding_leaves_the_scratch_row_empty_and_the_others_alone() -> None:
    clean, spoiled = mtp_rig(), mtp_rig()
    history = history_of(clean, 9)
    for rig in (clean, spoiled):
        rig.contexts({5: history.chunk(0, 9, 1)})
    row = clean.row(3)
    expected = clean.generate({5: row})
    states = torch.full_like(clean.captured(2 * clean.width), float("nan"))
    output = spoiled.generate({5: row}, num_padding=2, padding_states=states)
    assert output.draft_tokens[:1].tolist() == expected.draft_tokens.tolist()
    for mine, theirs in zip(buffers(clean), buffers(spoiled), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
        assert theirs[-1].count_nonzero() == 0


def test_buffers_are_sized_by_sequence_slots_and_not_by_the_batch() -> None:
    rig = mtp_rig(num_seq_slots=4, max_num_requests=1)
    worker = rig.worker
    assert isinstance(worker, MTPWorker)
    assert worker.kv_windows.shape[:3] == (5, 1, WINDOW)
    assert worker.hidden_states.shape == (5, 64)
    assert worker.context_lens.shape == worker.valid_lens.shape == (5,)
    assert worker.position_initialized.shape == (5,)
    assert worker.batch_to_slot.tolist() == [4, 4, 4, 4]


def test_a_sliding_window_keeps_the_latest_cells() -> None:
    window = 16
    rig = mtp_rig(drafter={"sliding_window": window})
    history = history_of(rig, 40)
    bonus = 6
    output = rig.contexts({5: history.chunk(0, 40, bonus)})
    assert output.draft_tokens.tolist() == [draft_from(rig, history, bonus, window)]
    check_slot(rig, 5, history, window)
    for accepted in (4, 1, 3, 4, 4, 2):
        row = rig.row(accepted)
        output = rig.generate({5: row})
        history = history.extended(row.inputs[:accepted], row.captured[:accepted])
        bonus = row.targets[accepted - 1]
        assert output.draft_tokens.tolist() == [draft_from(rig, history, bonus, window)]
        check_slot(rig, 5, history, window)
    tail = History(history.end - window, history.tokens[-window:], history.states[-window:])
    seeded = mtp_rig(drafter={"sliding_window": window})
    assert torch.equal(seed(seeded, 5, tail, bonus).draft_tokens, output.draft_tokens)


def test_a_request_drafts_what_the_slow_layer_drafts() -> None:
    rig = mtp_rig()
    model = rig.worker.draft_model
    weights = {name: weight.double() for name, weight in model.state_dict().items()}
    history = history_of(rig, 9)
    rig.contexts({5: history.chunk(0, 5, 1)})
    rig.contexts({5: history.chunk(5, 9, 1)})
    for accepted in (2, 4, 1):
        row = rig.row(accepted)
        output = rig.generate({5: row})
        history = history.extended(row.inputs[:accepted], row.captured[:accepted])
        tokens = [*history.tokens.tolist(), row.targets[accepted - 1]]
        drafts, _ = naive_mtp.draft(
            raw_of(model.config), weights, history.states, tokens, [None] * 3
        )
        assert output.draft_tokens.tolist() == [drafts]
