"""The executor's output is plain greedy decoding, however requests are batched and drafted."""

from typing import Any

import pytest

from specmeta import DSparkSpecMetadata
from specmeta_workers import DSparkWorker, Executor, RequestResult
from tests.workers.serving_cases import (
    NEW_TOKENS,
    PROMPT_LENGTHS,
    PlannedWorker,
    RecordingWorker,
    continuation,
    draft_model,
    make_requests,
    make_target,
    planned_accepts,
    small_deployment,
)

REFERENCE = [tuple(continuation(i)[:NEW_TOKENS]) for i in range(len(PROMPT_LENGTHS))]

SHAPES = pytest.mark.parametrize(
    "shape",
    [
        {"max_num_requests": 1, "max_num_tokens": 256},
        {"max_num_requests": 4, "max_num_tokens": 256},
        {"max_num_requests": 16, "max_num_tokens": 2000},
        {"max_num_requests": 4, "max_num_tokens": 32},
        {"max_num_requests": 16, "max_num_tokens": 130},
        {"max_num_requests": 8, "max_num_tokens": 64, "cuda_graph_batch_sizes": (2, 4, 8)},
        {"max_num_requests": 3, "max_num_tokens": 40, "num_seq_slots": 3},
    ],
    ids=["1", "4", "16", "4-chunked", "16-chunked", "8-buckets-chunked", "3-tight-pool"],
)


def run(worker: str, **shape: Any) -> tuple[list[RequestResult], Executor]:
    deployment = small_deployment(**shape)
    drafter: DSparkWorker | None = None
    if worker == "random":
        drafter = DSparkWorker(deployment, draft_model())
    elif worker == "planned":
        drafter = PlannedWorker(deployment)
    executor = Executor(deployment, make_target(deployment), drafter)
    return executor.run(make_requests()), executor


@SHAPES
@pytest.mark.parametrize("worker", ["plain", "random", "planned"])
def test_output_equals_plain_greedy_decoding(worker: str, shape: dict[str, Any]) -> None:
    results, executor = run(worker, **shape)
    assert [result.token_ids for result in results] == REFERENCE
    assert {result.finish_reason for result in results} == {"length"}
    assert executor.unfinished == ()


@SHAPES
def test_accept_lengths_are_those_of_the_plan_at_every_batch(shape: dict[str, Any]) -> None:
    results, executor = run("planned", **shape)
    plan = PlannedWorker(executor.deployment)
    expected = [planned_accepts(r.request_id, plan, NEW_TOKENS) for r in results]
    assert [r.accepted_lengths for r in results] == expected
    assert max(max(lengths) for lengths in expected) >= 6, "long acceptances are exercised"
    assert min(min(lengths) for lengths in expected) == 1


def test_the_drafts_themselves_do_not_depend_on_the_batch() -> None:
    drafts, accepted = [], []
    for shape in (
        {"max_num_requests": 1, "max_num_tokens": 256},
        {"max_num_requests": 16, "max_num_tokens": 130},
        {"max_num_requests": 5, "max_num_tokens": 48, "cuda_graph_batch_sizes": (2, 5)},
    ):
        deployment = small_deployment(**shape)
        worker = RecordingWorker(deployment)
        results = Executor(deployment, make_target(deployment), worker).run(
            make_requests(max_new_tokens=8)
        )
        drafts.append(worker.drafts)
        accepted.append([r.accepted_lengths for r in results])
    assert drafts[0] == drafts[1] == drafts[2]
    assert accepted[0] == accepted[1] == accepted[2]


def test_accept_length_counts_cut_tokens_and_leaves_the_prefill_out() -> None:
    deployment = small_deployment()
    worker = PlannedWorker(deployment, error_period=10**9)
    executor = Executor(deployment, make_target(deployment), worker)
    (result,) = executor.run(make_requests(1, max_new_tokens=12))
    # 1 token of the prefill, then 8 an iteration: 1 + 8 + 8 is cut to 12.
    assert result.token_ids == REFERENCE[0][:12]
    assert result.accepted_lengths == (8, 8)
    assert (result.decode_iterations, result.decoded_tokens) == (2, 16)
    assert result.accept_length == 8.0


def test_plain_decoding_has_accept_length_one() -> None:
    results, _ = run("plain", max_num_requests=4)
    assert {r.accepted_lengths for r in results} == {(1,) * (NEW_TOKENS - 1)}


def test_a_request_of_one_token_needs_no_decode_iteration() -> None:
    deployment = small_deployment()
    executor = Executor(deployment, make_target(deployment), PlannedWorker(deployment))
    (result,) = executor.run(make_requests(1, max_new_tokens=1))
    assert result.token_ids == REFERENCE[0][:1]
    assert result.decode_iterations == 0
    with pytest.raises(ValueError, match=r"request 1000 ended without a decode iteration"):
        _ = result.accept_length


def test_drafts_shrink_at_the_end_of_the_sequence() -> None:
    prompt = PROMPT_LENGTHS[2]
    deployment = small_deployment(max_seq_len=prompt + NEW_TOKENS)
    worker = PlannedWorker(deployment, error_period=10**9)
    executor = Executor(deployment, make_target(deployment), worker)
    executor.submit(make_requests(3)[2])
    results: list[RequestResult] = []
    while not results:
        results = executor.step()
    assert results[0].token_ids == REFERENCE[2]
    widths = [m.seq_lens for m in worker.seen[1:]]
    # 31 positions: rows at 11 and 19 have 8 tokens, the row at 27 the 4 that are left.
    assert widths == [(8,), (8,), (4,)]
    assert results[0].accepted_lengths == (8, 8, 4)


@pytest.mark.parametrize("worker", ["random", "planned"])
def test_rows_at_the_end_of_their_sequence_share_a_batch_with_full_rows(worker: str) -> None:
    longest = max(PROMPT_LENGTHS) + NEW_TOKENS
    results, _ = run(
        worker, max_num_requests=16, max_seq_len=longest, cuda_graph_batch_sizes=(8, 16)
    )
    assert [result.token_ids for result in results] == REFERENCE


def test_each_steps_metadata_is_the_factorys_and_contexts_come_first() -> None:
    deployment = small_deployment(max_num_requests=4, max_num_tokens=40)
    worker = PlannedWorker(deployment)
    Executor(deployment, make_target(deployment), worker).run(make_requests())
    assert {type(m) for m in worker.seen} == {DSparkSpecMetadata}
    mixed = [m for m in worker.seen if 0 < m.num_contexts < len(m.request_ids)]
    assert mixed
    assert all(max(m.seq_lens[m.num_contexts :]) <= 8 for m in mixed)
    assert all(m.num_tokens <= 40 for m in worker.seen)
    # A 64-token prompt came in chunks that continue each other.
    long_id = 1000 + 37 * PROMPT_LENGTHS.index(64)
    spans = [
        (m.context_positions[row], m.context_positions[row] + m.seq_lens[row])
        for m in worker.seen
        for row in range(m.num_contexts)
        if m.request_ids[row] == long_id
    ]
    assert len(spans) > 1
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == 64
    finished = [i for m in worker.seen for i in m.finished_request_ids]
    assert sorted(finished) == sorted(r.request_id for r in make_requests())


def test_an_unchanged_batch_reuses_the_metadata_object() -> None:
    deployment = small_deployment(max_num_requests=4)
    worker = PlannedWorker(deployment)
    Executor(deployment, make_target(deployment), worker).run(make_requests(4))
    decode = [m for m in worker.seen if not m.num_contexts]
    first_ids = decode[0].request_ids
    unchanged = [m for m in decode if m.request_ids == first_ids and not m.finished_request_ids]
    assert len(unchanged) > 1
    assert all(m is unchanged[0] for m in unchanged)


def test_generation_batches_are_padded_to_the_next_bucket() -> None:
    deployment = small_deployment(max_num_requests=4, cuda_graph_batch_sizes=(2, 4))
    worker = PlannedWorker(deployment)
    results = Executor(deployment, make_target(deployment), worker).run(make_requests(3))
    assert [r.token_ids for r in results] == REFERENCE[:3]
    for metadata in worker.seen[:-1]:
        rows = len(metadata.request_ids)
        if metadata.num_contexts:
            assert (metadata.is_cuda_graph, metadata.num_padding) == (False, 0)
        else:
            bucket = 2 if rows <= 2 else 4
            assert metadata.is_cuda_graph
            assert (metadata.max_num_requests, metadata.num_padding) == (bucket, bucket - rows)
            assert metadata.num_seq_slots == deployment.engine.num_seq_slots


def test_rows_beyond_the_largest_bucket_run_unpadded() -> None:
    deployment = small_deployment(max_num_requests=3, cuda_graph_batch_sizes=(2,))
    worker = PlannedWorker(deployment)
    results = Executor(deployment, make_target(deployment), worker).run(make_requests(3))
    assert [r.token_ids for r in results] == REFERENCE[:3]
    decode = [m for m in worker.seen[:-1] if not m.num_contexts]
    assert {(len(m.request_ids), m.is_cuda_graph) for m in decode} >= {(3, False), (2, True)}


def test_a_finished_run_leaves_every_slot_free_and_the_executor_usable() -> None:
    deployment = small_deployment(max_num_requests=4)
    target, worker = make_target(deployment), PlannedWorker(deployment)
    executor = Executor(deployment, target, worker)
    first = executor.run(make_requests(6))
    assert (len(worker.pool), len(target.pool)) == (0, 0)
    assert executor.run(make_requests(6)) == first
    assert executor.step() == []


def test_small_buckets_first_do_not_shrink_the_worker() -> None:
    deployment = small_deployment(
        max_num_requests=4, num_seq_slots=4, cuda_graph_batch_sizes=(1, 4)
    )
    worker = PlannedWorker(deployment)
    executor = Executor(deployment, make_target(deployment), worker)
    executor.run(make_requests(1))
    results = executor.run(make_requests())
    assert [r.token_ids for r in results] == REFERENCE
    assert worker.kv_windows.shape[0] == 5


def test_progress_is_reported_as_requests_finish() -> None:
    deployment = small_deployment(max_num_requests=2)
    executor = Executor(deployment, make_target(deployment), PlannedWorker(deployment))
    calls: list[tuple[int, int]] = []
    executor.run(make_requests(3), on_progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (3, 3)
    assert calls == sorted(set(calls))
