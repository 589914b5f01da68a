"""Requests that leave the batch and come back: nothing shows in their output or accept lengths."""

from typing import Any

import pytest

from specmeta import RequestId
from specmeta_workers import UnknownRequestError
from tests.workers.life_cycle_cases import (
    KINDS,
    NEW_TOKENS,
    Rig,
    check_same,
    make_requests,
    rig_of,
    right,
    undisturbed,
)

KIND = pytest.mark.parametrize("kind", KINDS)


@KIND
def test_the_undisturbed_run_is_plain_greedy_with_long_and_short_acceptances(kind: str) -> None:
    reference = undisturbed(kind)
    lengths = [n for r in reference.results.values() for n in r.accepted_lengths]
    assert set(lengths) == {1, 2, 3, 4}
    for request in make_requests():
        result = reference.results[request.request_id]
        assert result.token_ids == right(request.prompt_token_ids)[:NEW_TOKENS]


@KIND
def test_a_batch_equals_the_requests_alone(kind: str) -> None:
    rig = rig_of(kind)
    check_same(rig, kind, rig.serve(make_requests()))


@KIND
def test_a_paused_request_keeps_its_slots_and_goes_on_where_it_was(kind: str) -> None:
    rig = rig_of(kind)
    paused: dict[RequestId, tuple[int, int]] = {}
    count = 0

    def act(step: int) -> None:
        nonlocal count
        pools = rig.target.pool, rig.worker.pool
        if step % 3 == 2:
            for request_id, slots in paused.items():
                assert tuple(pool.lookup(request_id).slot for pool in pools) == slots
                rig.executor.resume(request_id)
            paused.clear()
        elif step % 3 == 0:
            seeded = [i for i in pools[0] if i in pools[1]]
            for request_id in seeded[step % 2 : 3]:
                rig.executor.pause(request_id)
                paused[request_id] = (
                    pools[0].lookup(request_id).slot,
                    pools[1].lookup(request_id).slot,
                )
                count += 1

    check_same(rig, kind, rig.serve(make_requests(), act))
    assert count >= 6


@KIND
def test_a_request_may_pause_between_two_chunks_of_its_prompt(kind: str) -> None:
    rig = rig_of(kind)
    request = make_requests()[4]  # 47 tokens: chunks of 20, 20, 7
    positions = []

    def act(step: int) -> None:
        live = request.request_id in rig.target.pool
        positions.append(
            rig.target.store.lengths[rig.target.pool.lookup(request.request_id).slot] if live else 0
        )
        if step in (1, 4):
            rig.executor.pause(request.request_id)
        elif step in (3, 6):
            rig.executor.resume(request.request_id)

    check_same(rig, kind, rig.serve([request], act))
    assert positions[:8] == [0, 20, 20, 20, 40, 40, 40, 47]


@KIND
def test_a_paused_request_is_in_no_batch_while_others_run(kind: str) -> None:
    rig = rig_of(kind)
    first, second = make_requests()[:2]

    def act(step: int) -> None:
        if step == 2:
            rig.executor.pause(first.request_id)
        if rig.executor.paused and rig.executor.unfinished == (first,):
            rig.executor.resume(first.request_id)

    results = rig.serve([first, second], act)
    check_same(rig, kind, results)
    assert list(results) == [second.request_id, first.request_id]


@KIND
@pytest.mark.parametrize("budget", [20, 100])
def test_a_preempted_request_gives_its_slots_back_and_repeats_nothing(
    kind: str, budget: int
) -> None:
    rig = rig_of(kind, max_num_tokens=budget)
    request = make_requests()[2]
    freed = 0

    def act(step: int) -> None:
        nonlocal freed
        if step in (2, 3, 5):
            rig.executor.preempt(request.request_id)
            assert request.request_id not in rig.target.pool
            assert rig.executor.unfinished == (request,)
            freed += 1

    results = rig.serve([request], act)
    check_same(rig, kind, results)
    assert freed == 3


@KIND
def test_preempted_requests_are_the_next_and_others_take_their_slots_meanwhile(kind: str) -> None:
    rig = rig_of(kind, max_num_requests=2, num_seq_slots=2)
    order: list[RequestId] = []

    def act(step: int) -> None:
        live = list(rig.target.pool)
        if step % 4 == 3 and live:
            rig.executor.preempt(live[0])
            order.append(live[0])
            waiting = [r.request_id for r in rig.executor.unfinished[len(live) - 1 :]]
            assert waiting[0] == live[0]

    check_same(rig, kind, rig.serve(make_requests(), act))
    assert len(order) >= 5


@KIND
def test_a_finished_id_takes_part_again_in_the_next_step(kind: str) -> None:
    rig = rig_of(kind, max_num_requests=1, num_seq_slots=1)
    request = make_requests()[3]
    rig.worker.expect([request])
    for _ in range(2):
        rig.executor.submit(request)
        results: dict[Any, Any] = {}
        while rig.executor.unfinished:
            results.update((r.request_id, r) for r in rig.executor.step())
        check_same(rig, kind, results)


@KIND
def test_slots_are_recycled_under_churn(kind: str) -> None:
    """One slot a seat: a request takes the slot of one that ended in the step before."""
    rig = rig_of(kind, max_num_requests=2, num_seq_slots=2, max_num_tokens=100)
    reference = undisturbed(kind)
    owners: dict[int, set[RequestId]] = {}

    def act(_: int) -> None:
        for request_id in rig.worker.pool:
            owners.setdefault(rig.worker.pool.lookup(request_id).slot, set()).add(request_id)

    for new_tokens in (1, 2, 5):
        results = rig.serve(make_requests(max_new_tokens=new_tokens), act)
        assert len(results) == 8
        for request_id, result in results.items():
            whole = reference.results[request_id]
            count = result.decode_iterations
            assert result.token_ids == whole.token_ids[:new_tokens]
            assert result.accepted_lengths == whole.accepted_lengths[:count]
    assert set(owners) == {0, 1}
    assert min(map(len, owners.values())) >= 4


@KIND
def test_idle_steps_between_steps_change_nothing(kind: str) -> None:
    rig = rig_of(kind, max_num_requests=2)
    engine = rig.executor._engine

    def act(_: int) -> None:
        engine.idle()

    check_same(rig, kind, rig.serve(make_requests()[:4], act))
    assert not rig.worker.position_initialized[-1]


def _all_ids(rig: Rig) -> list[RequestId]:
    return [request.request_id for request in rig.executor.unfinished]


@pytest.mark.parametrize("action", ["pause", "resume", "preempt", "cancel"])
def test_what_is_no_live_id_is_refused(action: str) -> None:
    rig = rig_of("DSpark")
    rig.worker.expect(requests := make_requests(2, request_id=RequestId(1))[:1])
    rig.executor.submit(requests[0])
    act = getattr(rig.executor, action)
    for wrong in (True, "1", 1.0, None):
        with pytest.raises(TypeError, match=r"request_id: .* not an int; name the request by"):
            act(wrong)
    with pytest.raises(UnknownRequestError, match="request 77 is not live here"):
        act(77)
    assert _all_ids(rig) == [1]
    rig.executor.cancel(RequestId(1))
    with pytest.raises(UnknownRequestError):
        act(1)


def test_a_waiting_request_can_pause_and_lets_later_ones_pass() -> None:
    rig = rig_of("DSpark", max_num_requests=1)
    first, second, third = make_requests()[:3]

    def act(step: int) -> None:
        if step == 0:
            rig.executor.pause(first.request_id)
            rig.executor.preempt(second.request_id)  # it waits already
        elif _all_ids(rig) == [first.request_id]:
            rig.executor.resume(first.request_id)

    results = rig.serve([first, second, third], act)
    assert list(results) == [r.request_id for r in (second, third, first)]
    check_same(rig, "DSpark", results)


def test_a_cancelled_preempted_request_gives_the_tokens_it_had() -> None:
    rig = rig_of("DFlash")
    request = make_requests()[1]
    rig.worker.expect([request])
    rig.executor.submit(request)
    for _ in range(4):
        rig.executor.step()
    rig.executor.preempt(request.request_id)
    result = rig.executor.cancel(request.request_id)
    whole = undisturbed("DFlash").results[request.request_id]
    assert len(result.accepted_lengths) == 3
    assert result.accepted_lengths == whole.accepted_lengths[:3]
    assert result.token_ids == whole.token_ids[: 1 + sum(result.accepted_lengths)]
    assert rig.executor.unfinished == ()
    rig.executor.flush()
    assert len(rig.worker.pool) == 0


def test_run_refuses_a_callback_that_pauses() -> None:
    rig = rig_of("DSpark")
    requests = make_requests(3)
    rig.worker.expect(requests)
    short = make_requests(1, max_new_tokens=1)

    def on_progress(_finished: int, _total: int) -> None:
        rig.executor.pause(rig.executor.unfinished[0].request_id)

    with pytest.raises(RuntimeError, match="on_progress: "):
        rig.executor.run([*short, *requests[1:]], on_progress)
    assert rig.executor.unfinished == ()
