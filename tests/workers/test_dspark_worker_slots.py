"""Buffers and slots: their sizes, who owns them, when they change hands, and padding."""

from __future__ import annotations

import pytest
import torch

from specmeta import RequestId
from specmeta_workers import SlotPoolExhaustedError, UnknownRequestError
from tests.workers.worker_cases import live_rows, make_rig, same_state, state_of


def test_buffers_are_sized_by_sequence_slots_and_not_by_the_batch() -> None:
    rig = make_rig(num_seq_slots=4, max_num_requests=1)
    worker = rig.worker
    assert worker.kv_windows.shape[:3] == (5, 2, 32)
    assert worker.context_lens.shape == worker.valid_lens.shape == (5,)
    assert worker.position_initialized.shape == (5,)
    assert worker.batch_to_slot.tolist() == [4, 4, 4, 4]
    assert worker.pool.num_slots == 4
    assert worker.pool.scratch_slot == 4
    assert worker.kv_windows.count_nonzero() == 0
    assert not worker.position_initialized.any()


def test_nan_in_padding_never_reaches_a_live_row() -> None:
    clean, spoiled = make_rig(), make_rig()
    for rig in (clean, spoiled):
        rig.context(1, rig.captured(12))
        rig.context(2, rig.captured(40))
    for _ in range(3):
        rows = {1: clean.row(3), 2: clean.row(8)}
        zeros = torch.zeros_like(clean.captured(2 * clean.width))
        expected = clean.generate(rows, num_padding=2, padding_states=zeros)
        output = spoiled.generate(rows, num_padding=2, padding_states=zeros + float("nan"))
        assert torch.equal(output.draft_tokens[:2], expected.draft_tokens[:2])
    for mine, theirs in zip(live_rows(clean.worker), live_rows(spoiled.worker), strict=True):
        assert torch.equal(mine, theirs)
    assert spoiled.worker.kv_windows.isfinite().all()


def test_a_recycled_slot_shows_nothing_of_the_request_before() -> None:
    fresh, recycled = (make_rig(num_seq_slots=1, max_num_requests=1) for _ in range(2))
    old = recycled.captured(50)
    old[30:] = float("nan")
    recycled.context(1, old)
    states = fresh.captured(5)
    expected = fresh.context(2, states, bonus=9)
    output = recycled.context(2, states, bonus=9, finished_request_ids=(RequestId(1),))
    assert list(recycled.worker.pool) == [2]
    assert torch.equal(output.draft_tokens, expected.draft_tokens)
    assert same_state(state_of(fresh.worker), recycled.worker)


def test_finished_requests_free_and_clear_their_slots() -> None:
    rig = make_rig(num_seq_slots=2, max_num_requests=2)
    rig.context(1, rig.captured(5))
    rig.context(2, rig.captured(5))
    rig.generate({2: rig.row(1)}, finished_request_ids=(RequestId(1),))
    worker = rig.worker
    assert list(worker.pool) == [2]
    assert worker.kv_windows[0].count_nonzero() == 0
    assert worker.context_lens.tolist() == [0, 6, 0]
    assert worker.valid_lens.tolist() == [0, 6, 0]
    assert worker.position_initialized.tolist() == [False, True, False]
    assert worker.batch_to_slot.tolist() == [1, 2]


def test_a_finished_id_that_never_had_a_slot_releases_nothing() -> None:
    rig = make_rig()
    rig.context(1, rig.captured(5), finished_request_ids=(RequestId(77),))
    assert list(rig.worker.pool) == [1]


def test_the_same_metadata_object_runs_again_without_releasing_again() -> None:
    rig = make_rig()
    rig.context(1, rig.captured(5))
    rig.context(2, rig.captured(5))
    metadata = rig.metadata(request_ids=(2,), finished_request_ids=(RequestId(1),))
    lengths = []
    for _ in range(3):
        rig.run(metadata, [rig.row(4)])
        lengths.append(int(rig.worker.context_lens[1]))
    assert lengths == [9, 13, 17]
    rig.context(1, rig.captured(2))
    rig.run(
        metadata.with_batch(
            request_ids=(RequestId(1), RequestId(2)),
            num_contexts=0,
            seq_lens=(8, 8),
            context_positions=(),
        ),
        [rig.row(1), rig.row(1)],
    )
    assert rig.worker.context_lens.tolist()[:3] == [0, 18, 3]


def test_an_exhausted_pool_changes_nothing() -> None:
    rig = make_rig(num_seq_slots=2, max_num_requests=2)
    rig.context(1, rig.captured(5))
    rig.context(2, rig.captured(7))
    before, version = state_of(rig.worker), rig.worker.pool.version
    with pytest.raises(SlotPoolExhaustedError, match="request_id 3: 1 wanted, 0 of 2 free"):
        rig.context(3, rig.captured(4))
    with pytest.raises(SlotPoolExhaustedError, match="request_id 4: 2 wanted, 1 of 2 free"):
        rig.worker.forward(
            rig.metadata(
                request_ids=(3, 4),
                num_contexts=2,
                seq_lens=(2, 2),
                finished_request_ids=(RequestId(1),),
            ),
            input_ids=rig.tokens(4),
            logits=torch.zeros(2, 256),
            captured=rig.captured(4),
        )
    assert same_state(before, rig.worker)
    assert rig.worker.pool.version == version
    assert list(rig.worker.pool) == [1, 2]
    assert rig.generate({1: rig.row(2), 2: rig.row(3)}).num_accepted.tolist() == [2, 3]


def test_an_unknown_generation_id_is_refused_and_changes_nothing() -> None:
    rig = make_rig()
    rig.context(1, rig.captured(5))
    before = state_of(rig.worker)
    with pytest.raises(UnknownRequestError, match=r"request_ids\[1\]: generation row 9 was never"):
        rig.generate({1: rig.row(2), 9: rig.row(2)}, finished_request_ids=(RequestId(3),))
    assert same_state(before, rig.worker)
    assert 9 not in rig.worker.pool


def test_an_id_that_was_released_is_unknown_again() -> None:
    rig = make_rig()
    rig.context(1, rig.captured(5))
    rig.context(2, rig.captured(5), finished_request_ids=(RequestId(1),))
    with pytest.raises(UnknownRequestError, match="generation row 1 was never seeded"):
        rig.generate({1: rig.row(2)})


def test_a_slot_that_was_assigned_but_never_seeded_does_not_count_as_known() -> None:
    rig = make_rig()
    rig.worker.pool.assign(RequestId(9))
    with pytest.raises(UnknownRequestError, match="generation row 9 was never seeded"):
        rig.generate({9: rig.row(2)})


def test_the_row_order_of_a_batch_does_not_matter() -> None:
    one, other = make_rig(dtype="float64"), make_rig(dtype="float64")
    for rig in (one, other):
        for request_id in (1, 2, 3):
            rig.context(request_id, rig.captured(4 * request_id))
    rows = {i: one.row(i + 1) for i in (1, 2, 3)}
    straight = one.generate(rows)
    turned = other.generate({i: rows[i] for i in (3, 1, 2)})
    order = torch.tensor([1, 2, 0])
    assert torch.equal(straight.draft_tokens, turned.draft_tokens[order])
    torch.testing.assert_close(one.worker.kv_windows, other.worker.kv_windows, rtol=0, atol=1e-12)
