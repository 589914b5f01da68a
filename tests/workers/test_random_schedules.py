"""Whatever happens to the requests in whatever order: every output is plain greedy decoding."""

import random
from typing import Any

import pytest

from specmeta import RequestId
from specmeta_workers import PrefixCache, RequestResult
from tests.workers.life_cycle_cases import (
    KINDS,
    NEW_TOKENS,
    check_same,
    make_requests,
    rig_of,
    right,
    undisturbed,
)

SHAPES: tuple[dict[str, Any], ...] = (
    {"max_num_requests": 3, "num_seq_slots": 3, "max_num_tokens": 100},
    {"max_num_requests": 4, "num_seq_slots": 5, "max_num_tokens": 16},
    {"max_num_requests": 2, "num_seq_slots": 6, "pipeline_parallel_size": 3},
    {"max_num_requests": 4, "num_seq_slots": 8, "cuda_graph_batch_sizes": (1, 2, 4)},
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_a_random_schedule_changes_no_output_and_no_accept_length(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    options = {"prefix_cache": PrefixCache(8, capacity_tokens=64)} if seed % 2 else {}
    rig = rig_of(kind, options, **SHAPES[seed % len(SHAPES)])
    executor = rig.executor
    requests = make_requests()
    rig.worker.expect(requests)
    todo = [*requests, *rng.sample(requests, 3)]  # three ids come twice
    results: list[RequestResult] = []
    done: dict[str, int] = {}

    def live() -> list[RequestId]:
        return [request.request_id for request in executor.unfinished]

    while todo or live():
        actions = ["step"] * 4 + ["submit"] * bool(todo)
        actions += ["pause", "preempt", "resume", "resume"] * bool(live())
        actions += ["cancel"] * (bool(live()) and rng.random() < 0.1)
        action = rng.choice(actions)
        done[action] = done.get(action, 0) + 1
        if action == "step":
            results += executor.step()
        elif action == "submit":
            if todo[0].request_id not in live():
                executor.submit(todo.pop(0))
        elif action == "resume":
            executor.resume(rng.choice(executor.paused or live()))
        elif action == "cancel":
            results.append(executor.cancel(rng.choice(live())))
        else:
            getattr(executor, action)(rng.choice(live()))
    executor.flush()
    assert (len(rig.target.pool), len(rig.worker.pool), executor.paused) == (0, 0, ())
    assert len(results) == len(requests) + 3
    assert {"pause", "resume", "preempt"} <= set(done)
    reference = undisturbed(kind).results
    for result in results:
        whole = reference[result.request_id]
        prompt = requests[(result.request_id - 500) // 11].prompt_token_ids
        assert result.token_ids == right(prompt)[:NEW_TOKENS][: len(result.token_ids)]
        if result.finish_reason == "cancelled":
            count = result.decode_iterations
            assert result.accepted_lengths == whole.accepted_lengths[:count]
        else:
            assert result == whole
    check_same(rig, kind, {r.request_id: r for r in results if r.finish_reason != "cancelled"})
