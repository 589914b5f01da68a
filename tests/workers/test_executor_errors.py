"""No request is lost, whatever fails inside a step: it has a result or is listed as unfinished."""

from collections.abc import Callable
from typing import Any

import pytest

from specmeta import RequestId
from specmeta_workers import (
    Executor,
    ExecutorStoppedError,
    PrefixCache,
    Request,
    TargetRunner,
    make_worker,
)
from tests.workers.life_cycle_cases import deployment_of, draft_model_of, prompt_of, right
from tests.workers.serving_cases import target_model

SHORT, LONG = RequestId(7), RequestId(9)


def make_executor(**overrides: Any) -> Executor:
    deployment = deployment_of("DSpark", **overrides)
    return Executor(
        deployment,
        TargetRunner.for_deployment(target_model(), deployment),
        make_worker(deployment, draft_model_of("DSpark")),
        prefix_cache=PrefixCache(block_size=2, capacity_tokens=64),
    )


def fail(error: type[BaseException]) -> Callable[..., Any]:
    def raising(*_: object, **__: object) -> None:
        raise error("planted")

    return raising


def run_until_the_last_step_of_the_short_one(executor: Executor) -> None:
    executor.submit(Request(SHORT, tuple(prompt_of(1)), 2))
    assert executor.step() == []  # its prompt
    executor.submit(Request(LONG, tuple(prompt_of(2)[:6]), 8))


# What raises behind the point where the step has ended a request.
PLACES: dict[str, Callable[[Any], tuple[Any, str]]] = {
    "prefix cache": lambda executor: (executor._prefixes, "keep"),
    "end of the turn": lambda executor: (executor, "_end_turn"),
    "gate": lambda executor: (executor, "_watch"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_a_step_that_fails_after_it_ended_a_request_keeps_the_result(
    place: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = make_executor()
    run_until_the_last_step_of_the_short_one(executor)
    monkeypatch.setattr(*PLACES[place](executor), fail(error))
    expected = KeyboardInterrupt if error is KeyboardInterrupt else ExecutorStoppedError
    with pytest.raises(expected):
        executor.step()
    assert [request.request_id for request in executor.unfinished] == [LONG]
    with pytest.raises(ExecutorStoppedError) as caught:  # after an interrupt too
        executor.step()
    assert [result.request_id for result in caught.value.finished] == [SHORT]
    assert caught.value.finished[0].token_ids == right(tuple(prompt_of(1)))[:2]
    assert [request.request_id for request in caught.value.unfinished] == [LONG]


@pytest.mark.parametrize("call", ["preempt", "cancel"])
def test_an_interrupt_inside_preempt_or_cancel_stops_the_executor_and_lists_each_once(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = make_executor()
    run_until_the_last_step_of_the_short_one(executor)
    executor.step()
    pool = executor._pool
    release = pool.release

    def interrupted(request_id: Any) -> None:
        release(request_id)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(type(pool), "release", lambda _, request_id: interrupted(request_id))
    with pytest.raises(KeyboardInterrupt):
        getattr(executor, call)(LONG)
    assert executor.stopped
    with pytest.raises(ExecutorStoppedError) as caught:
        executor.step()
    listed = [request.request_id for request in caught.value.unfinished]
    listed += [result.request_id for result in caught.value.finished]
    assert listed == [LONG]
    assert len(pool) == 0


def test_an_interrupt_while_a_request_is_admitted_gives_its_slot_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executor = make_executor()
    executor.submit(Request(LONG, tuple(prompt_of(2)[:6]), 8))
    monkeypatch.setattr(type(executor._store), "open", fail(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        executor.step()
    assert len(executor._pool) == 0
    assert [request.request_id for request in executor.unfinished] == [LONG]
