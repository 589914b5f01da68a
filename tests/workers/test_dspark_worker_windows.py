"""What the windows hold, which columns may be read, and what is drafted from them."""

from __future__ import annotations

import pytest
import torch

from specmeta import RequestId
from specmeta_workers import ContextGapError
from specmeta_workers._step_layout import make_layout
from tests.workers.block_windows import check_window, draft_from
from tests.workers.worker_cases import Row, make_rig, same_state, state_of

WINDOW = 32


@pytest.mark.parametrize("length", [1, 5, 31, 32, 33, 77])
def test_a_context_fills_its_window_and_drafts_from_it(length: int) -> None:
    rig = make_rig(dtype="float64")
    states = rig.captured(length)
    output = rig.context(5, states, bonus=17)
    check_window(rig.worker, 5, states, first=0)
    assert output.num_accepted.tolist() == [1]
    assert output.tokens[0, 0] == 17
    assert output.draft_tokens.tolist() == [draft_from(rig, states, first=0, bonus=17)]


def test_the_window_wraps_around_as_accepted_tokens_arrive() -> None:
    rig = make_rig(dtype="float64")
    states = rig.captured(30)
    rig.context(5, states)
    for accepted in (3, 8, 1, 8, 8, 5, 8, 2):
        row = rig.row(accepted)
        output = rig.generate({5: row})
        states = torch.cat((states, row.captured[:accepted]))
        assert output.num_accepted.tolist() == [accepted]
        assert output.tokens[0, :accepted].tolist() == row.targets[:accepted]
        check_window(rig.worker, 5, states, first=0)
        bonus = row.targets[accepted - 1]
        assert output.draft_tokens.tolist() == [draft_from(rig, states, first=0, bonus=bonus)]


@pytest.mark.parametrize("chunks", [(40,), (8, 32), (1, 39), (13, 13, 14), (35, 5), (1,) * 40])
def test_chunked_prefill_leaves_the_window_of_an_unchunked_one(chunks: tuple[int, ...]) -> None:
    whole, chunked = make_rig(dtype="float64"), make_rig(dtype="float64")
    states = whole.captured(40)
    expected = whole.context(5, states, bonus=9)
    starts = [sum(chunks[:index]) for index in range(len(chunks))]
    outputs = [
        chunked.context(5, states[start : start + length], position=start, bonus=9)
        for start, length in zip(starts, chunks, strict=True)
    ]
    check_window(chunked.worker, 5, states, first=0)
    torch.testing.assert_close(
        chunked.worker.kv_windows, whole.worker.kv_windows, rtol=0, atol=1e-12
    )
    assert torch.equal(outputs[-1].draft_tokens, expected.draft_tokens)


def test_a_first_chunk_above_zero_shows_only_what_was_written() -> None:
    rig = make_rig(dtype="float64")
    states = rig.captured(6)
    output = rig.context(5, states, position=100, bonus=3)
    check_window(rig.worker, 5, states, first=100)
    assert output.draft_tokens.tolist() == [draft_from(rig, states, first=100, bonus=3)]
    row = rig.row(4)
    rig.generate({5: row})
    check_window(rig.worker, 5, torch.cat((states, row.captured[:4])), first=100)


@pytest.mark.parametrize("position", [1, 9, 11, 50])
def test_a_chunk_that_does_not_continue_is_refused_before_state_changes(position: int) -> None:
    rig = make_rig()
    rig.context(4, rig.captured(3))
    rig.context(5, rig.captured(10))
    before, version = state_of(rig.worker), rig.worker.pool.version
    with pytest.raises(
        ContextGapError, match=rf"context_positions\[0\]: .* request 5 .* {position}, .* ends at 10"
    ):
        rig.context(5, rig.captured(4), position=position, finished_request_ids=(RequestId(4),))
    assert same_state(before, rig.worker)
    assert rig.worker.pool.version == version


def test_a_chunk_may_continue_behind_generated_tokens() -> None:
    rig = make_rig(dtype="float64")
    states = rig.captured(10)
    rig.context(5, states)
    row = rig.row(6)
    rig.generate({5: row})
    more = rig.captured(3)
    rig.context(5, more, position=16)
    check_window(rig.worker, 5, torch.cat((states, row.captured[:6], more)), first=0)


def test_a_chunk_at_zero_starts_over() -> None:
    rig = make_rig(dtype="float64")
    rig.context(5, rig.captured(50))
    slot = rig.worker.pool.lookup(RequestId(5)).slot
    states = rig.captured(4)
    output = rig.context(5, states, bonus=8)
    assert rig.worker.pool.lookup(RequestId(5)).slot == slot
    check_window(rig.worker, 5, states, first=0)
    others = [c for c in range(WINDOW) if c not in {1, 2, 3, 4}]
    assert rig.worker.kv_windows[slot][:, others].count_nonzero() == 0
    assert output.draft_tokens.tolist() == [draft_from(rig, states, first=0, bonus=8)]


def test_a_paused_request_keeps_its_window() -> None:
    rig = make_rig(dtype="float64")
    states = rig.captured(20)
    rig.context(5, states)
    rig.context(6, rig.captured(9))
    slot = rig.worker.pool.lookup(RequestId(5)).slot
    paused = rig.worker.kv_windows[slot].clone()
    for _ in range(5):
        rig.generate({6: rig.row(3)})
        rig.context(7, rig.captured(2), finished_request_ids=())
        rig.generate({6: rig.row(1)}, finished_request_ids=(RequestId(7),))
    assert torch.equal(rig.worker.kv_windows[slot], paused)
    row = rig.row(7)
    output = rig.generate({6: rig.row(2), 5: row})
    states = torch.cat((states, row.captured[:7]))
    check_window(rig.worker, 5, states, first=0)
    expected = draft_from(rig, states, first=0, bonus=row.targets[6])
    assert output.draft_tokens[1].tolist() == expected


def test_rejected_tokens_leave_no_trace() -> None:
    outputs, buffers = [], []
    for spoiled in (False, True):
        rig = make_rig(dtype="float64")
        rig.context(5, rig.captured(28))
        row = rig.row(3)
        if spoiled:
            row.captured[3:] = float("nan")
        outputs.append(rig.generate({5: row}).draft_tokens)
        buffers.append(state_of(rig.worker))
    assert torch.equal(outputs[0], outputs[1])
    assert all(torch.equal(a, b) for a, b in zip(*buffers, strict=True))
    assert buffers[0][0].isfinite().all()


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize("accepted", [1, 2, 5, 8])
def test_a_ragged_row_commits_the_matching_prefix(length: int, accepted: int) -> None:
    accepted = min(accepted, length)
    rig = make_rig(dtype="float64")
    states = rig.captured(11)
    rig.context(5, states)
    row = rig.row(accepted, length)
    output = rig.generate({5: row})
    assert output.num_accepted.tolist() == [accepted]
    states = torch.cat((states, row.captured[:accepted]))
    check_window(rig.worker, 5, states, first=0)
    bonus = row.targets[accepted - 1]
    assert output.draft_tokens.tolist() == [draft_from(rig, states, first=0, bonus=bonus)]


def test_a_match_behind_a_mismatch_does_not_count() -> None:
    rig = make_rig()
    rig.context(5, rig.captured(11))
    row = rig.row(2)
    row.targets[3:7] = row.inputs[4:8]
    assert rig.generate({5: row}).num_accepted.tolist() == [2]


def test_contexts_and_ragged_generations_share_a_step() -> None:
    rig = make_rig(dtype="float64")
    known = {i: rig.captured(6 + i) for i in (1, 2, 3)}
    for request_id, states in known.items():
        rig.context(request_id, states)
    rows = {3: rig.row(2, 3), 1: rig.row(8), 2: rig.row(1, 1)}
    fresh = {8: rig.captured(45), 9: rig.captured(3)}
    metadata = rig.metadata(
        request_ids=(8, 9, 3, 1, 2),
        num_contexts=2,
        seq_lens=(45, 3, 3, 8, 1),
        context_positions=(0, 7),
    )
    inputs = [token for row in rows.values() for token in row.inputs]
    targets = [21, 22, *(token for row in rows.values() for token in row.targets)]
    output = rig.worker.forward(
        metadata,
        input_ids=torch.cat((rig.tokens(48), torch.tensor(inputs))),
        logits=rig.logits_of(torch.tensor(targets)),
        captured=torch.cat([*fresh.values(), *(row.captured for row in rows.values())]),
    )
    assert output.num_accepted.tolist() == [1, 1, 2, 8, 1]
    assert output.tokens.shape == (5, 8)
    assert output.draft_tokens.shape == (5, 7)
    expected = [
        (8, fresh[8], 0, 21),
        (9, fresh[9], 7, 22),
        (3, torch.cat((known[3], rows[3].captured[:2])), 0, rows[3].targets[1]),
        (1, torch.cat((known[1], rows[1].captured)), 0, rows[1].targets[7]),
        (2, torch.cat((known[2], rows[2].captured)), 0, rows[2].targets[0]),
    ]
    for index, (request_id, states, first, bonus) in enumerate(expected):
        check_window(rig.worker, request_id, states, first=first)
        drafts = draft_from(rig, states, first=first, bonus=bonus)
        assert output.draft_tokens[index].tolist() == drafts


def test_seeding_from_a_hand_over_equals_the_prefill_it_replaces() -> None:
    prefill, seeded = make_rig(dtype="float64"), make_rig(dtype="float64")
    states = prefill.captured(60)
    expected = prefill.context(5, states, bonus=33)
    metadata = seeded.metadata(
        request_ids=(5,), num_contexts=1, seq_lens=(WINDOW,), context_positions=(60 - WINDOW,)
    )
    output = seeded.worker.seed(
        metadata,
        input_ids=seeded.tokens(WINDOW),
        next_tokens=torch.tensor([33]),
        captured=states[-WINDOW:],
    )
    check_window(seeded.worker, 5, states[-WINDOW:], first=60 - WINDOW)
    torch.testing.assert_close(
        seeded.worker.kv_windows, prefill.worker.kv_windows, rtol=0, atol=1e-12
    )
    assert torch.equal(output.draft_tokens, expected.draft_tokens)
    assert output.tokens[0, 0] == 33
    assert output.num_accepted.tolist() == [1]
    row = prefill.row(4)
    after = [rig.generate({5: row}).draft_tokens for rig in (prefill, seeded)]
    assert torch.equal(*after)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-4)])
def test_batch_one_and_batch_sixteen_agree(dtype: str, tolerance: float) -> None:
    together = make_rig(dtype=dtype, max_num_requests=16)
    lengths = {i: 1 + 5 * i for i in range(1, 17)}
    states = {i: together.captured(n) for i, n in lengths.items()}
    steps = [{i: together.row(1 + (i + s) % 8) for i in lengths} for s in range(3)]
    metadata = together.metadata(
        request_ids=tuple(lengths),
        num_contexts=16,
        seq_lens=tuple(lengths.values()),
        context_positions=(0,) * 16,
        max_num_tokens=1024,
    )
    together.worker.forward(
        metadata,
        input_ids=together.tokens(sum(lengths.values())),
        logits=together.logits_of(torch.ones(16, dtype=torch.long)),
        captured=torch.cat(list(states.values())),
    )
    batched = [together.generate(rows, max_num_tokens=1024) for rows in steps]
    for index, request_id in enumerate(lengths):
        alone = make_rig(dtype=dtype, max_num_requests=16)
        alone.context(request_id, states[request_id])
        for rows, output in zip(steps, batched, strict=True):
            single = alone.generate({request_id: rows[request_id]})
            assert torch.equal(single.draft_tokens[0], output.draft_tokens[index])
            assert torch.equal(single.num_accepted[0], output.num_accepted[index])
        mine, theirs = (
            rig.worker.kv_windows[rig.worker.pool.lookup(RequestId(request_id)).slot]
            for rig in (alone, together)
        )
        torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_a_repeated_token_does_not_extend_a_short_row(length: int) -> None:
    rig = make_rig()
    rig.context(5, rig.captured(11))
    output = rig.generate({5: Row([9] * length, [9] * length, rig.captured(length))})
    assert output.num_accepted.tolist() == [length]
    assert rig.worker.context_lens[0] == 11 + length


def test_a_context_commits_one_token_even_where_it_repeats() -> None:
    rig = make_rig()
    metadata = rig.metadata(request_ids=(5,), num_contexts=1)
    output = rig.worker.forward(
        metadata,
        input_ids=torch.full((4,), 9),
        logits=rig.logits_of(torch.tensor([9])),
        captured=rig.captured(4),
    )
    assert output.num_accepted.tolist() == [1]


@pytest.mark.parametrize("length", [5, 32, 77])
def test_no_two_tokens_of_a_chunk_are_written_to_one_column(length: int) -> None:
    metadata = make_rig().metadata(
        request_ids=(5, 6), num_contexts=2, seq_lens=(3, length), context_positions=(40, 0)
    )
    contexts = make_layout(metadata, WINDOW, torch.device("cpu")).contexts
    assert contexts is not None
    kept = range(max(0, length - WINDOW), length)
    assert contexts.positions.tolist() == [40, 41, 42, *kept]
    assert contexts.tokens.tolist() == [0, 1, 2, *(3 + token for token in kept)]
    assert contexts.rows.tolist() == [0] * 3 + [1] * len(kept)
    assert contexts.offsets.tolist() == [0, 1, 2, *kept]
    assert contexts.last_tokens.tolist() == [2, 2 + length]
