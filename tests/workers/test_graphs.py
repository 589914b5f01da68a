"""Graph buckets: what they leave of the state, and that they decide what the plain step decides.

On a CPU a bucket runs eagerly, or, for `recorded`, as a recording whose replays see what those of a
CUDA graph see: the operations and addresses of the first run.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specmeta import RequestId
from specmeta_workers import DraftOutput
from tests.workers.recorded_steps import record
from tests.workers.worker_cases import (
    CASES,
    KINDS,
    Rig,
    buffers_of,
    draft_probs_of,
    live_rows,
    make_rig,
    same_state,
    state_of,
)

SIZES = (1, 2, 4, 8)
cases = pytest.mark.parametrize("case", CASES)
recorded = pytest.mark.parametrize("captures", [False, True], ids=["eager", "recorded"])


def rig_of(case: str, *, captures: bool, dtype: str = "float32", **fields: Any) -> Rig:
    """A rig whose buckets run eagerly, or as recordings."""
    rig = make_rig(dtype=dtype, **CASES[case], **fields)
    if captures:
        rig.worker._graphs.capture = record
    return rig


def all_padding(rig: Rig, size: int) -> Any:
    """Metadata of a bucket without a real row."""
    metadata = rig.metadata(request_ids=(), seq_lens=(), num_padding=1)
    return metadata.create_cuda_graph_metadata(size)


def bucket_step(rig: Rig, rows: dict[int, Any], size: int) -> DraftOutput:
    """These rows in a bucket of `size`."""
    metadata = rig.metadata(
        request_ids=tuple(map(RequestId, rows)),
        seq_lens=tuple(len(row.inputs) for row in rows.values()),
    )
    return rig.run(metadata.create_cuda_graph_metadata(size), list(rows.values()))


def places(rig: Rig) -> dict[str, tuple[int, torch.Size]]:
    """Address and shape of everything that is indexed by slot or row."""
    buffers = buffers_of(rig.worker) | draft_probs_of(rig.worker)
    buffers |= {"batch_to_slot": rig.worker.batch_to_slot}
    return {name: (buffer.data_ptr(), buffer.shape) for name, buffer in buffers.items()}


@recorded
@cases
def test_no_order_of_capture_moves_or_resizes_a_buffer(case: str, captures: bool) -> None:
    for order in ((1, 2, 8), (8, 1, 2), (2, 8, 1)):
        rig = rig_of(case, captures=captures, max_num_requests=8, num_seq_slots=11)
        worker = rig.worker
        before = places(rig)
        assert {shape[0] for name, (_, shape) in before.items() if name != "batch_to_slot"} == {12}
        assert before["batch_to_slot"][1] == (11,)
        for size in order:
            rig.run(all_padding(rig, size), [])
        assert worker._graphs.sizes == order
        assert places(rig) == before
        for request_id in range(1, 9):
            rig.context(request_id, rig.captured(3))
        output = bucket_step(rig, {i: rig.row(2) for i in range(1, 9)}, 8)
        assert output.num_accepted.shape == (8,)
        assert sorted(worker.pool.lookup(RequestId(i)).slot for i in range(1, 9)) == [*range(8)]
        assert places(rig) == before


@recorded
@cases
def test_a_bucket_decides_what_the_unpadded_step_decides(case: str, captures: bool) -> None:
    plain = rig_of(case, captures=False, dtype="float64")
    padded = rig_of(case, captures=captures, dtype="float64")
    prompts = {1: plain.captured(12), 2: plain.captured(40), 3: plain.captured(2)}
    for rig in (plain, padded):
        rig.generator.manual_seed(9)  # the tokens of the prompts
        for request_id, states in prompts.items():
            rig.context(request_id, states)
    width = plain.width
    # Accepted tokens and length of each row: full rows, ragged ones, other rows in the same bucket.
    batches: list[dict[int, tuple[int, int]]] = [
        {1: (3, width), 2: (width, width)},
        {2: (1, 1), 1: (2, 3)},
        {1: (width, width), 2: (1, width)},
        {3: (2, 2), 1: (1, 2), 2: (3, width)},
        {3: (1, width)},
    ]
    for batch in batches:
        rows = {i: plain.row(accepted, length) for i, (accepted, length) in batch.items()}
        expected = plain.generate(rows)
        for name in ("tokens", "num_accepted", "draft_tokens", "draft_lens"):
            assert len(getattr(expected, name)) == len(batch)
        output = bucket_step(padded, rows, 4)
        real = len(batch)
        assert output.draft_tokens.shape == (4, width - 1)
        assert torch.equal(output.num_accepted[:real], expected.num_accepted)
        assert torch.equal(output.tokens[:real], expected.tokens)
        assert torch.equal(output.draft_tokens[:real], expected.draft_tokens)
        assert torch.equal(output.draft_lens[:real], expected.draft_lens)
        if "sampled" not in case:
            assert expected.num_accepted.tolist() == [count for count, _ in batch.values()]
    for mine, theirs in zip(live_rows(plain.worker), live_rows(padded.worker), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    assert padded.worker._graphs.sizes == (4,)


@recorded
@cases
def test_an_output_survives_the_next_replay(case: str, captures: bool) -> None:
    rig = rig_of(case, captures=captures)
    rig.context(1, rig.captured(12))
    first = bucket_step(rig, {1: rig.row(2)}, 2)
    kept = [first.tokens.clone(), first.num_accepted.clone(), first.draft_tokens.clone()]
    second = bucket_step(rig, {1: rig.row(3)}, 2)
    assert torch.equal(first.tokens, kept[0])
    assert torch.equal(first.num_accepted, kept[1])
    assert torch.equal(first.draft_tokens, kept[2])
    assert not torch.equal(first.draft_tokens[0], second.draft_tokens[0])


@recorded
@cases
def test_a_thousand_all_padding_replays_leave_live_rows_and_the_scratch_position(
    case: str, captures: bool
) -> None:
    rig = rig_of(case, captures=captures, num_seq_slots=4, max_num_requests=4)
    worker = rig.worker
    rig.context(1, rig.captured(12))
    rig.context(2, rig.captured(40))
    before = live_rows(worker)
    metadata = all_padding(rig, 1)
    states = rig.captured(rig.width)
    for _ in range(1000 if case in KINDS and not captures else 50):
        rig.run(metadata, [], states)
        assert worker.context_lens[4] == 0
    for buffer in buffers_of(worker).values():
        assert buffer[4].count_nonzero() == 0
    assert all(torch.equal(a, b) for a, b in zip(before, live_rows(worker), strict=True))


@recorded
@cases
def test_a_replayed_bucket_drafts_the_same_for_padding_each_time(case: str, captures: bool) -> None:
    rig = rig_of(case, captures=captures)
    metadata = all_padding(rig, 2)
    arguments = {
        "input_ids": rig.tokens(2 * rig.width),
        "logits": torch.randn(2 * rig.width, 256, generator=rig.generator),
        "captured": rig.captured(2 * rig.width),
    }
    outputs = [rig.worker.forward(metadata, **arguments) for _ in range(3)]
    assert torch.equal(outputs[0].draft_tokens, outputs[1].draft_tokens)
    assert torch.equal(outputs[0].draft_tokens, outputs[2].draft_tokens)


@recorded
@cases
def test_a_recycled_slot_is_read_by_a_bucket_that_was_captured_before(
    case: str, captures: bool
) -> None:
    plain, padded = rig_of(case, captures=False), rig_of(case, captures=captures)
    bucket_step_ids = ({1: 9, 2: 30}, {3: 5, 4: 14})
    done: tuple[RequestId, ...] = ()
    for prompts in bucket_step_ids:
        states = {i: plain.captured(n) for i, n in prompts.items()}
        for rig in (plain, padded):
            for index, (request_id, prompt) in enumerate(states.items()):
                finished = done if index == 0 else ()
                rig.generator.manual_seed(request_id)
                rig.context(request_id, prompt, finished_request_ids=finished)
        rows = {i: plain.row(2) for i in prompts}
        expected, output = plain.generate(rows), bucket_step(padded, rows, 4)
        assert torch.equal(output.draft_tokens[:2], expected.draft_tokens)
        done = tuple(map(RequestId, prompts))


@recorded
@cases
def test_warm_up_captures_every_bucket_and_leaves_no_state(case: str, captures: bool) -> None:
    rig = rig_of(case, captures=captures, max_num_requests=8)
    worker = rig.worker
    before, version, where = state_of(worker), worker.pool.version, places(rig)
    worker.capture_graphs()
    assert rig.deployment.engine.cuda_graph_batch_sizes == SIZES
    assert worker._graphs.sizes == SIZES[::-1]
    assert same_state(before, worker)
    assert (worker.pool.version, len(worker.pool)) == (version, 0)
    assert worker.pool.free_slots == tuple(range(16))
    assert places(rig) == where
    rig.context(1, rig.captured(9))
    bucket_step(rig, {1: rig.row(2)}, 8)
    assert worker._graphs.sizes == SIZES[::-1], "the step found its bucket"


@cases
def test_warm_up_between_two_steps_changes_neither(case: str) -> None:
    calm, warmed = make_rig(**CASES[case]), make_rig(**CASES[case])
    drafts = []
    for rig in (calm, warmed):
        rig.context(1, rig.captured(12))
        rig.context(2, rig.captured(7))
        metadata = rig.metadata(request_ids=(2, 1))
        rows = [rig.row(3), rig.row(1)]
        rig.run(metadata, rows)
        if rig is warmed:
            rig.worker.capture_graphs()
        drafts.append(rig.run(metadata, rows).draft_tokens)
    assert torch.equal(*drafts)
    assert same_state(state_of(calm.worker), warmed.worker)


def test_buckets_for_logits_of_two_types_are_two() -> None:
    rig = make_rig()
    rig.context(1, rig.captured(12))
    metadata = rig.metadata(request_ids=(1,)).create_cuda_graph_metadata(1)
    tokens = rig.tokens(rig.width)
    # Apart in float32, equal in bfloat16: copied into the other's buffer, they would tie.
    logits = torch.zeros(rig.width, 256)
    logits[:, 3], logits[:, 200] = 1.0, 1.0001
    for dtype, token in ((torch.bfloat16, 3), (torch.float32, 200)):
        output = rig.worker.forward(
            metadata,
            input_ids=tokens,
            logits=logits.to(dtype),
            captured=rig.captured(rig.width),
        )
        assert output.tokens[0, 0] == token
    assert rig.worker._graphs.sizes == (1, 1)


def test_the_public_sizes_of_a_pool_survive_a_graph_copy_of_two_rows() -> None:
    rig = make_rig(kind="DFlash", max_num_requests=5, num_seq_slots=5)
    worker = rig.worker
    rig.run(all_padding(rig, 2), [])
    assert {len(buffer) for buffer in buffers_of(worker).values()} == {6}
    assert worker.batch_to_slot.shape == (5,)
    assert worker.pool.scratch_slot == 5
    assert worker.pool.free_slots == (0, 1, 2, 3, 4)
    for request_id in range(1, 6):
        rig.context(request_id, rig.captured(3))
        assert worker.pool.lookup(RequestId(request_id)).slot != worker.pool.scratch_slot
    assert worker.batch_to_slot.tolist() == [4, 5, 5, 5, 5]


@pytest.mark.gpu
@cases
def test_cuda_graphs_decide_what_the_plain_step_decides(case: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device: it captures and replays real graphs")
    plain, padded = (make_rig(**CASES[case], dtype="float64", device="cuda") for _ in range(2))
    padded.worker.capture_graphs()
    where = places(padded)
    prompts = {1: plain.captured(12), 2: plain.captured(40)}
    for rig in (plain, padded):
        for request_id, states in prompts.items():
            rig.generator.manual_seed(request_id)
            rig.context(request_id, states)
    for accepted, length in ((3, plain.width), (1, 1), (2, 3), (plain.width, plain.width)):
        rows = {1: plain.row(accepted, length), 2: plain.row(1, 2)}
        expected, output = plain.generate(rows), bucket_step(padded, rows, 4)
        assert torch.equal(output.num_accepted[:2], expected.num_accepted)
        assert torch.equal(output.draft_tokens[:2], expected.draft_tokens)
    before = live_rows(padded.worker)
    metadata = all_padding(padded, 2)
    for _ in range(1000):
        padded.run(metadata, [])
    assert all(torch.equal(a, b) for a, b in zip(before, live_rows(padded.worker), strict=True))
    for buffer in buffers_of(padded.worker).values():
        assert buffer[-1].count_nonzero() == 0
    assert places(padded) == where
