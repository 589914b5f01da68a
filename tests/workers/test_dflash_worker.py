"""The DFlash worker: its context buffers, and what is drafted from them in both conventions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specmeta import DFlashDrafterConfig, RequestId
from specmeta.testing import make_deployment
from specmeta_workers import DFlashDraftModel, DFlashWorker
from tests.workers import naive_dflash
from tests.workers.block_windows import check_window, draft_from
from tests.workers.model_cases import raw_of
from tests.workers.worker_cases import Rig, buffers_of, fill, make_rig, same_state, state_of

CONVENTIONS = {"mask_at_position": 6, "anchor_first": 7}
"""Drafts of a block of 7."""
conventions = pytest.mark.parametrize("convention", CONVENTIONS)
windows = pytest.mark.parametrize("window", [None, 32])


def dflash_rig(convention: str = "mask_at_position", window: int | None = 32, **fields: Any) -> Rig:
    drafter = {"anchor_convention": convention, "sliding_window": window}
    fields.setdefault("max_draft_len", CONVENTIONS[convention])
    return make_rig(kind="DFlash", dtype="float64", drafter=drafter, **fields)


def test_buffers_are_sized_by_sequence_slots_and_not_by_the_batch() -> None:
    worker = dflash_rig(num_seq_slots=5, max_num_requests=1).worker
    assert worker.kv_windows.shape[:3] == (6, 2, 32)
    assert {len(buffer) for buffer in buffers_of(worker).values()} == {6}
    assert worker.batch_to_slot.tolist() == [5] * 5
    assert worker.pool.free_slots == (0, 1, 2, 3, 4)
    assert worker.pool.scratch_slot == 5


def test_a_drafter_without_a_window_keeps_the_longest_sequence() -> None:
    rig = dflash_rig(window=None, max_seq_len=100)
    assert rig.deployment.window_size == 100
    assert rig.worker.kv_windows.shape[2] == 100
    states = rig.captured(99)
    output = rig.context(5, states, bonus=3)
    assert rig.worker.valid_lens[0] == 99
    assert output.draft_tokens.tolist() == [draft_from(rig, states, first=0, bonus=3)]
    check_window(rig.worker, 5, states, first=0)


@windows
@conventions
def test_a_slot_holds_what_was_committed_and_drafts_from_it(
    convention: str, window: int | None
) -> None:
    rig = dflash_rig(convention, window)
    states = rig.captured(45)
    for start, stop in ((0, 1), (1, 8), (8, 45)):
        output = rig.context(5, states[start:stop], position=start, bonus=17)
        assert output.num_accepted.tolist() == [1]
        assert output.draft_lens.tolist() == [CONVENTIONS[convention]]
        expected = draft_from(rig, states[:stop], first=0, bonus=17)
        assert output.draft_tokens.tolist() == [expected]
        check_window(rig.worker, 5, states[:stop], first=0)
    width = rig.width
    for accepted, length in ((3, width), (width, width), (1, 1), (2, 3), (1, width), (5, 5)):
        row = rig.row(accepted, length)
        output = rig.generate({5: row})
        states = torch.cat((states, row.captured[:accepted]))
        bonus = row.targets[accepted - 1]
        assert output.num_accepted.tolist() == [accepted]
        assert output.tokens[0, :accepted].tolist() == row.targets[:accepted]
        assert output.draft_tokens.tolist() == [draft_from(rig, states, first=0, bonus=bonus)]
        check_window(rig.worker, 5, states, first=0)


@windows
@conventions
def test_chunks_leave_the_state_of_one_prefill(convention: str, window: int | None) -> None:
    whole, chunked = dflash_rig(convention, window), dflash_rig(convention, window)
    states = whole.captured(40)
    expected = whole.context(5, states, bonus=9)
    for start, stop in ((0, 13), (13, 14)):
        chunked.context(5, states[start:stop], position=start, bonus=9)
    output = chunked.context(5, states[14:], position=14, bonus=9)
    assert torch.equal(output.draft_tokens, expected.draft_tokens)
    for mine, theirs in zip(state_of(whole.worker), state_of(chunked.worker), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@windows
def test_a_first_chunk_above_zero_shows_only_what_was_written(window: int | None) -> None:
    rig = dflash_rig(window=window)
    states = rig.captured(6)
    output = rig.context(5, states, position=100, bonus=3)
    check_window(rig.worker, 5, states, first=100)
    assert output.draft_tokens.tolist() == [draft_from(rig, states, first=100, bonus=3)]
    row = rig.row(4)
    rig.generate({5: row})
    check_window(rig.worker, 5, torch.cat((states, row.captured[:4])), first=100)


@conventions
def test_a_request_drafts_what_the_slow_block_drafts(convention: str) -> None:
    rig = dflash_rig(convention, None)
    model = rig.worker.draft_model
    weights = {name: weight.double() for name, weight in model.state_dict().items()}
    states = rig.captured(9)
    rig.context(5, states)
    for accepted in (2, 6):
        row = rig.row(accepted)
        output = rig.generate({5: row})
        states = torch.cat((states, row.captured[:accepted]))
        logits = naive_dflash.draft(
            raw_of(model.config),
            weights,
            states,
            row.targets[accepted - 1],
            sample_from_anchor=convention == "anchor_first",
        )
        drafts = [int(slot.argmax()) for slot in logits]
        assert len(drafts) == CONVENTIONS[convention]
        assert output.draft_tokens.tolist() == [drafts]


def test_fewer_drafts_than_the_block_has_are_its_first() -> None:
    rigs = [dflash_rig(max_draft_len=drafts) for drafts in (6, 2)]
    states = rigs[0].captured(9)
    long, short = (rig.context(5, states, bonus=4).draft_tokens for rig in rigs)
    assert short.shape == (1, 2)
    assert torch.equal(long[:, :2], short)


@windows
def test_a_seed_step_equals_the_prefill_that_it_replaces(window: int | None) -> None:
    prefill, seeded = dflash_rig(window=window), dflash_rig(window=window)
    states = prefill.captured(60)
    expected = prefill.context(5, states, bonus=33)
    kept = min(60, seeded.deployment.window_size)
    metadata = seeded.metadata(
        request_ids=(5,), num_contexts=1, seq_lens=(kept,), context_positions=(60 - kept,)
    )
    output = seeded.worker.seed(
        metadata,
        input_ids=seeded.tokens(kept),
        next_tokens=torch.tensor([33]),
        captured=states[-kept:],
    )
    check_window(seeded.worker, 5, states[-kept:], first=60 - kept)
    assert torch.equal(output.draft_tokens, expected.draft_tokens)
    assert output.draft_lens.tolist() == [6]
    row = prefill.row(4)
    after = [rig.generate({5: row}).draft_tokens for rig in (prefill, seeded)]
    assert torch.equal(*after)


def test_the_slot_of_a_live_request_is_never_the_dummy() -> None:
    rig = dflash_rig(num_seq_slots=5, max_num_requests=5)
    known: dict[int, torch.Tensor] = {}
    for request_id in range(1, 6):
        known[request_id] = rig.captured(4)
        rig.context(request_id, known[request_id])
    for round_ in range(3):
        slots = [rig.worker.pool.lookup(RequestId(i)).slot for i in known]
        assert sorted(slots) == [0, 1, 2, 3, 4]
        rows = {i: rig.row(1 + i % 3) for i in known}
        rig.generate(rows)
        for request_id, row in rows.items():
            accepted = row.captured[: 1 + request_id % 3]
            known[request_id] = torch.cat((known[request_id], accepted))
            check_window(rig.worker, request_id, known[request_id], first=0)
        # Another request takes over the slot in the step that reports the first one finished.
        old, new = min(known), 100 + round_
        del known[old]
        known[new] = rig.captured(3)
        rig.context(new, known[new], finished_request_ids=(RequestId(old),))
        check_window(rig.worker, new, known[new], first=0)
    assert all(buffer[-1].count_nonzero() == 0 for buffer in buffers_of(rig.worker).values())


def test_nan_in_padding_never_reaches_a_live_row() -> None:
    clean, spoiled = dflash_rig(), dflash_rig()
    states = clean.captured(12)
    for rig in (clean, spoiled):
        rig.context(1, states)
    row = clean.row(3)
    zeros = torch.zeros_like(clean.captured(clean.width))
    for rig, padding in ((clean, zeros), (spoiled, zeros + float("nan"))):
        rig.generate({1: row}, num_padding=1, padding_states=padding)
    assert same_state(state_of(clean.worker), spoiled.worker)


def test_a_recycled_slot_shows_nothing_of_the_request_before() -> None:
    fresh, recycled = (dflash_rig(num_seq_slots=1, max_num_requests=1) for _ in range(2))
    old = recycled.captured(50)
    old[30:] = float("nan")
    recycled.context(1, old)
    states = fresh.captured(5)
    expected = fresh.context(2, states, bonus=9)
    output = recycled.context(2, states, bonus=9, finished_request_ids=(RequestId(1),))
    assert torch.equal(output.draft_tokens, expected.draft_tokens)
    assert same_state(state_of(fresh.worker), recycled.worker)


def test_a_deployment_that_the_worker_cannot_serve_is_refused() -> None:
    deployment = make_deployment("DFlash")
    assert isinstance(deployment.drafter, DFlashDrafterConfig)
    model = fill(DFlashDraftModel(deployment.drafter), "float32")
    with pytest.raises(ValueError, match="decoding_type is MTP; a DFlashWorker serves DFlash"):
        DFlashWorker(make_deployment("MTP"), model)
    with pytest.raises(TypeError, match="draft_model: Linear is not a DFlashDraftModel; load one"):
        DFlashWorker(deployment, torch.nn.Linear(1, 1))
    other = make_deployment("DFlash", drafter={"anchor_convention": "anchor_first"})
    with pytest.raises(ValueError, match=r"draft_model: .* is not deployment.drafter; compose"):
        DFlashWorker(other, model)
