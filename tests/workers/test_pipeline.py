"""Pipeline micro-batches: groups of requests take turns and keep their slots in between."""

from typing import Any

import pytest

from specmeta import RequestId
from tests.workers.life_cycle_cases import (
    KINDS,
    check_same,
    make_requests,
    rig_of,
)

KIND = pytest.mark.parametrize("kind", KINDS)


def batches(rig: Any) -> list[Any]:
    """The metadata of each step that the worker sees, as it comes."""
    seen: list[Any] = []
    forward = rig.worker.forward

    def recorded(metadata: Any, **tensors: Any) -> Any:
        seen.append(metadata)
        return forward(metadata, **tensors)

    rig.worker.forward = recorded
    return seen


@KIND
@pytest.mark.parametrize("stages", [2, 3])
def test_groups_take_turns_and_every_request_is_absent_in_between(kind: str, stages: int) -> None:
    rig = rig_of(
        kind,
        max_num_requests=2,
        num_seq_slots=2 * stages,
        pipeline_parallel_size=stages,
        max_num_tokens=100,
    )
    seen = batches(rig)
    group: dict[RequestId, int] = {}
    largest: list[int] = []

    def act(step: int) -> None:
        turn = (step - 1) % stages
        for request_id in (i for metadata in seen for i in metadata.request_ids):
            assert group.setdefault(request_id, turn) == turn
        largest.extend(len(metadata.request_ids) for metadata in seen)
        seen.clear()

    results = rig.serve(make_requests(), act)
    check_same(rig, kind, results)
    assert set(group.values()) == set(range(stages))
    assert max(largest) == 2


def test_twice_the_batch_is_live_at_once_with_two_stages() -> None:
    rig = rig_of("DSpark", max_num_requests=3, num_seq_slots=6, pipeline_parallel_size=2)
    most = 0

    def act(_: int) -> None:
        nonlocal most
        most = max(most, len(rig.worker.pool))

    rig.serve(make_requests(), act)
    assert most == 6


def test_groups_fill_up_evenly() -> None:
    rig = rig_of(
        "DSpark", max_num_requests=4, num_seq_slots=8, pipeline_parallel_size=2, max_num_tokens=100
    )
    seen = batches(rig)
    rig.worker.expect(make_requests(4))
    for request in make_requests(4):
        rig.executor.submit(request)
    rig.executor.step()
    rig.executor.step()
    assert [len(m.request_ids) for m in seen] == [2, 2]


def test_a_lone_request_runs_in_every_second_step_of_two_stages() -> None:
    rig = rig_of("DSpark", pipeline_parallel_size=2)
    seen = batches(rig)
    counts = []
    results = rig.serve(make_requests(1), lambda _: counts.append(len(seen)))
    assert counts[:6] == [0, 1, 1, 2, 2, 3]
    check_same(rig, "DSpark", results)


def test_an_unchanged_group_reuses_its_metadata() -> None:
    rig = rig_of("DSpark", max_num_requests=2, pipeline_parallel_size=2, max_num_tokens=100)
    seen = batches(rig)
    rig.worker.expect(make_requests(4))
    for request in make_requests(4):
        rig.executor.submit(request)
    for _ in range(6):
        rig.executor.step()
    assert seen[2] is seen[4]
    assert seen[3] is seen[5]
    assert seen[2] is not seen[3]
    ids = [set(m.request_ids) for m in seen[2:4]]
    assert ids[0].isdisjoint(ids[1])


@KIND
def test_requests_pause_and_are_preempted_in_any_stage(kind: str) -> None:
    rig = rig_of(kind, max_num_requests=2, num_seq_slots=5, pipeline_parallel_size=2)
    count = 0

    def act(step: int) -> None:
        nonlocal count
        live = list(rig.target.pool)
        if live and step % 5 == 4 and count < 6:
            rig.executor.preempt(live[step % len(live)])
            count += 1
        elif live and step % 5 == 2:
            rig.executor.pause(live[0])
        for request_id in rig.executor.paused if step % 5 == 0 else ():
            rig.executor.resume(request_id)

    check_same(rig, kind, rig.serve(make_requests(), act))
    assert count >= 3
