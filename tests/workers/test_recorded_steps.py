"""Steps that the executors really send: whatever they serve, the rules between steps agree."""

import io
import random
from typing import Any

import pytest

from specmeta import Deployment, Finding, RequestId, Step, check_steps
from specmeta._files import read_json_lines
from specmeta._step_documents import steps_from
from specmeta_workers import ContextServer, DisaggregatedExecutor, GenerationServer, PrefixCache
from tests.workers.life_cycle_cases import KINDS, Rig, make_requests, rig_of
from tests.workers.serving_cases import make_target

KIND = pytest.mark.parametrize("kind", KINDS)


def record(worker: Any) -> list[Any]:
    """The metadata of each step and seed of a worker, as they come."""
    seen: list[Any] = []

    def recorded(call: Any) -> Any:
        def run(metadata: Any, **tensors: Any) -> Any:
            output = call(metadata, **tensors)
            seen.append(metadata)
            return output

        return run

    worker.forward, worker.seed = recorded(worker.forward), recorded(worker.seed)
    return seen


def findings(seen: list[Any], deployment: Deployment) -> list[Finding]:
    """What the steps give as objects; the same as they do as JSON Lines, but for the place."""
    built = list(check_steps(map(Step, seen), deployment=deployment))
    lines = "".join(f"{metadata.model_dump_json()}\n" for metadata in seen).encode()
    steps = steps_from(read_json_lines(io.BytesIO(lines), "steps.jsonl"), deployment)
    read = list(check_steps(steps, deployment=deployment))
    assert [f.message for f in read] == [f.message for f in built]
    alone = list(check_steps(map(Step, seen)))  # MTP metadata does not say the window
    assert [f for f in alone if f.severity == "error"] == [
        f for f in built if f.severity == "error"
    ]
    return built


def pausing(rig: Rig, step: int) -> None:
    for request_id in rig.executor.paused:
        rig.executor.resume(request_id)
    if step % 3 == 0:
        for request_id in [i for i in rig.target.pool if i in rig.worker.pool][step % 2 : 3]:
            rig.executor.pause(request_id)


def preempting(rig: Rig, step: int) -> None:
    live = list(rig.target.pool)
    if step < 60 and step % 7 == 6 and live:  # an end to it, so that all of them finish
        rig.executor.preempt(live[step % len(live)])


SCENES: dict[str, tuple[dict[str, Any], Any]] = {
    "chunked prefill": ({}, None),
    "one chunk a prompt": ({"max_num_tokens": 200}, None),
    "graph buckets": ({"cuda_graph_batch_sizes": (1, 2, 4)}, None),
    "pause": ({}, pausing),
    "preempt": ({}, preempting),
    "preempt in few slots": ({"max_num_requests": 2, "num_seq_slots": 2}, preempting),
    "pipeline": (
        {"max_num_requests": 2, "num_seq_slots": 6, "pipeline_parallel_size": 3},
        preempting,
    ),
}


@KIND
@pytest.mark.parametrize("scene", SCENES)
def test_a_served_run_has_no_finding(kind: str, scene: str) -> None:
    shape, act = SCENES[scene]
    rig = rig_of(kind, **shape)
    seen = record(rig.worker)
    rig.serve(make_requests(), None if act is None else lambda step: act(rig, step))
    assert len(seen) > 8
    assert findings(seen, rig.deployment) == []
    # Without its first step, the prompt of one token is a request that nobody seeded.
    first = next(f for f in findings(seen[1:], rig.deployment) if f.severity == "error")
    assert (first.rule, first.value) == ("request_not_seeded", make_requests()[0].request_id)


@KIND
@pytest.mark.parametrize("budget", [8, 20, 100])
def test_prefix_hits_seed_the_whole_window(kind: str, budget: int) -> None:
    rig = rig_of(
        kind, {"prefix_cache": PrefixCache(8, capacity_tokens=400)}, max_num_tokens=max(budget, 16)
    )
    seen = record(rig.worker)
    for _ in range(2):
        rig.serve(make_requests(), lambda step: preempting(rig, step))
    assert any(p > 0 for metadata in seen for p in metadata.context_positions)
    assert findings(seen, rig.deployment) == []


@KIND
@pytest.mark.parametrize("seed", range(3))
def test_a_random_schedule_has_no_finding(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    options = {"prefix_cache": PrefixCache(8, capacity_tokens=64)} if seed else {}
    rig = rig_of(kind, options, max_num_requests=3, num_seq_slots=4, max_num_tokens=16)
    seen, executor = record(rig.worker), rig.executor
    requests = make_requests()
    rig.worker.expect(requests)
    todo = [*requests, *requests[:4]]  # four ids come twice
    while todo or executor.unfinished:
        live: list[RequestId] = [request.request_id for request in executor.unfinished]
        if todo and todo[0].request_id not in live and rng.random() < 0.5:
            executor.submit(todo.pop(0))
        elif live and rng.random() < 0.4:
            act = rng.choice(("pause", "preempt", "resume", "resume", "cancel"))
            getattr(executor, act)(rng.choice(live))
        else:
            for request_id in executor.paused:
                executor.resume(request_id)
            executor.step()
    executor.flush()
    assert findings(seen, rig.deployment) == []


@KIND
def test_a_generation_server_seeds_every_request_under_its_own_id(kind: str) -> None:
    rig = rig_of(kind)
    deployment = rig.deployment
    seen = record(rig.worker)
    requests = make_requests()
    rig.worker.expect(requests)
    executor = DisaggregatedExecutor(
        ContextServer(deployment, make_target(deployment)),
        GenerationServer(deployment, rig.target, rig.worker),
    )
    executor.run(requests)
    executor.flush()
    assert findings(seen, deployment) == []
    # What NVIDIA/TensorRT-LLM#16767 did: the seeds of all requests under one id.
    shared = [
        metadata
        for metadata in seen
        if not metadata.num_contexts or requests[0].request_id in metadata.request_ids
    ]
    assert {f.rule for f in findings(shared, deployment) if f.severity == "error"} == {
        "request_not_seeded"
    }
