"""What the executor refuses, how requests end, and what a failure leaves behind."""

import re
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
import torch
from torch import Tensor

from specmeta import DSparkSpecMetadata, RequestId
from specmeta_workers import (
    ContextServer,
    DraftOutput,
    DSparkWorker,
    Executor,
    ExecutorStoppedError,
    Request,
    RequestResult,
    SlotPoolExhaustedError,
    TargetRunner,
    UnknownRequestError,
)
from tests.workers.serving_cases import (
    NEW_TOKENS,
    PROMPT_LENGTHS,
    PlannedWorker,
    continuation,
    draft_model,
    make_requests,
    make_target,
    request_id_of,
    small_deployment,
    target_model,
)
from tests.workers.tiny_targets import VOCAB, tiny_qwen3


def make_executor(**shape: Any) -> Executor:
    deployment = small_deployment(**shape)
    return Executor(deployment, make_target(deployment), PlannedWorker(deployment))


TOP = 2**64 - 1 - 15


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"request_id": 0}, r"request 0: request_id 0 is not an int from 1 to \d+; give the"),
        ({"request_id": -4}, "request -4: request_id -4 is not an int"),
        ({"request_id": True}, "request True: request_id True is not an int"),
        ({"request_id": TOP}, f"request {TOP}: request_id {TOP} is not an int from 1 to {TOP - 1}"),
        ({"request_id": "7"}, "request '7': request_id '7' is not an int"),
        ({"request_id": np.int64(7)}, "is not an int from 1"),
        ({"prompt_token_ids": ()}, "request 5: prompt_token_ids is empty; give at least one"),
        (
            {"prompt_token_ids": (1, VOCAB)},
            rf"request 5: prompt_token_ids\[1\] is {VOCAB}, not an int from 0 to {VOCAB - 1}; enc",
        ),
        ({"prompt_token_ids": (-1,)}, r"request 5: prompt_token_ids\[0\] is -1"),
        ({"prompt_token_ids": "hi"}, r"request 5: prompt_token_ids\[0\] is 'h'"),
        ({"prompt_token_ids": (1.0,)}, r"request 5: prompt_token_ids\[0\] is 1.0"),
        ({"stop_token_ids": (VOCAB,)}, rf"request 5: stop_token_ids\[0\] is {VOCAB}"),
        ({"max_new_tokens": 0}, "request 5: max_new_tokens 0 is not an int of at least 1; ask"),
        (
            {"max_new_tokens": 119},
            "request 5: 2 prompt tokens and max_new_tokens 119 make 121, above max_seq_len 120; sh",
        ),
    ],
)
def test_requests_that_cannot_be_served_are_refused_at_submit(
    fields: dict[str, Any], message: str
) -> None:
    executor = make_executor()
    good = {"request_id": 5, "prompt_token_ids": (1, 2), "max_new_tokens": 4}
    with pytest.raises(ValueError, match=message):
        executor.submit(Request(**{**good, **fields}))
    assert executor.unfinished == ()


def test_only_requests_are_accepted() -> None:
    with pytest.raises(TypeError, match=r"dict is not a specmeta_workers\.Request"):
        make_executor().submit({"request_id": 5})  # type: ignore[arg-type] # the point of the test


def test_the_id_of_a_live_request_is_refused_while_waiting_and_while_running() -> None:
    executor = make_executor(max_num_requests=1)
    first, second = make_requests(2)
    executor.submit(first)
    executor.submit(second)
    executor.step()
    for request in (first, second):
        with pytest.raises(ValueError, match=f"request_id {request.request_id} is live already"):
            executor.submit(request)


def test_a_finished_id_may_be_used_again_at_once() -> None:
    executor = make_executor(max_num_requests=2)
    first, other = make_requests(2)
    executor.submit(first)
    executor.submit(other)
    results: list[RequestResult] = []
    while not results:
        results = executor.step()
    again = next(r for r in (first, other) if r.request_id == results[0].request_id)
    executor.submit(again)
    repeated = []
    while executor.unfinished:
        repeated += executor.step()
    assert next(r for r in repeated if r.request_id == again.request_id) == results[0]


def test_run_checks_all_requests_before_the_first_runs() -> None:
    executor = make_executor()
    requests = [*make_requests(2), make_requests(1)[0]]
    with pytest.raises(ValueError, match="request_id 1000 is live already"):
        executor.run(requests)
    assert executor.unfinished == ()
    assert len(executor.run(make_requests(2))) == 2


def test_run_does_not_mix_with_submitted_requests() -> None:
    executor = make_executor()
    executor.submit(make_requests(1)[0])
    with pytest.raises(ValueError, match="1 submitted requests are unfinished"):
        executor.run(make_requests(2)[1:])


@pytest.mark.parametrize("index", [2, 6, 11])
def test_a_stop_token_ends_the_output_and_is_its_last_token(index: int) -> None:
    right = continuation(index)[:NEW_TOKENS]
    stop = right[9]
    executor = make_executor(max_num_requests=4)
    requests = make_requests(stop_token_ids=(stop,))
    result = executor.run(requests)[index]
    assert result.token_ids == tuple(right[: right.index(stop) + 1])
    assert result.finish_reason == "stop"
    # The iteration that produced it counts with all it committed.
    assert result.decoded_tokens >= len(result.token_ids) - 1


def test_a_stop_token_of_the_prefill_ends_the_request() -> None:
    (request,) = make_requests(1, stop_token_ids=(continuation(0)[0],))
    (result,) = make_executor().run([request])
    assert (result.token_ids, result.finish_reason) == ((continuation(0)[0],), "stop")


def test_stop_tokens_beyond_the_limit_do_not_count() -> None:
    right = continuation(1)
    limit = 6
    assert right[limit + 1] not in right[:limit], "the case needs a token that is new there"
    deployment = small_deployment()
    worker = PlannedWorker(deployment, error_period=10**9)
    executor = Executor(deployment, make_target(deployment), worker)
    requests = make_requests(2, max_new_tokens=limit, stop_token_ids=(right[limit + 1],))
    result = executor.run(requests)[1]
    assert (result.token_ids, result.finish_reason) == (tuple(right[:limit]), "length")


def test_cancel_gives_what_there_is_and_leaves_the_others_alone() -> None:
    executor = make_executor(max_num_requests=2, max_num_tokens=16)
    requests = make_requests(12)[8:12]  # prompts of 2, 64, 9 and 24 tokens
    for request in requests:
        executor.submit(request)
    executor.step()
    running = executor.cancel(requests[0].request_id)
    prefilling = executor.cancel(requests[1].request_id)
    waiting = executor.cancel(requests[3].request_id)
    assert running.token_ids == tuple(continuation(8)[:1])
    assert (prefilling.token_ids, waiting.token_ids) == ((), ())
    assert {r.finish_reason for r in (running, prefilling, waiting)} == {"cancelled"}
    results = []
    while executor.unfinished:
        results += executor.step()
    assert [r.token_ids for r in results] == [tuple(continuation(10)[:NEW_TOKENS])]
    with pytest.raises(UnknownRequestError, match="is not live here"):
        executor.cancel(requests[0].request_id)


def test_cancelled_requests_release_their_slots_on_both_sides() -> None:
    deployment = small_deployment(max_num_requests=2)
    target, worker = make_target(deployment), PlannedWorker(deployment)
    executor = Executor(deployment, target, worker)
    for request in make_requests(2):
        executor.submit(request)
    executor.step()
    executor.step()
    for request in make_requests(2):
        executor.cancel(request.request_id)
    executor.flush()
    assert (len(target.pool), len(worker.pool)) == (0, 0)


class FailingWorker(PlannedWorker):
    """Fails in its third step."""

    error: BaseException = RuntimeError("device lost")

    def forward(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> DraftOutput:
        if len(self.seen) == 2:
            raise self.error
        return super().forward(metadata, **tensors)


def failing_executor(error: BaseException) -> Executor:
    deployment = small_deployment(max_num_requests=2)
    worker = FailingWorker(deployment)
    worker.error = error
    return Executor(deployment, make_target(deployment), worker)


def test_a_failed_step_stops_the_executor_and_names_every_unfinished_request() -> None:
    executor = failing_executor(RuntimeError("device lost"))
    requests = make_requests(4)
    requests[0] = make_requests(1, max_new_tokens=1)[0]
    with pytest.raises(ExecutorStoppedError, match="stopped with 3 unfinished requests") as caught:
        executor.run(requests)
    assert str(caught.value.__cause__) == "device lost"
    assert [r.request_id for r in caught.value.finished] == [request_id_of(0)]
    assert {r.request_id for r in caught.value.unfinished} == {request_id_of(i) for i in (1, 2, 3)}
    for action in (
        executor.step,
        executor.flush,
        lambda: executor.submit(make_requests(6)[5]),
        lambda: executor.cancel(request_id_of(1)),
    ):
        with pytest.raises(ExecutorStoppedError):
            action()
    assert {r.request_id for r in executor.unfinished} == {request_id_of(i) for i in (1, 2, 3)}


def test_unfinished_requests_run_on_a_new_executor_over_the_same_target() -> None:
    deployment = small_deployment(max_num_requests=2)
    target = make_target(deployment)
    with pytest.raises(ExecutorStoppedError) as caught:
        Executor(deployment, target, FailingWorker(deployment)).run(make_requests(4))
    results = Executor(deployment, target, PlannedWorker(deployment)).run(caught.value.unfinished)
    outputs = {r.request_id: r.token_ids for r in results}
    assert outputs == {request_id_of(i): tuple(continuation(i)[:NEW_TOKENS]) for i in range(4)}


def test_an_interrupt_in_a_step_comes_through_and_loses_no_request() -> None:
    executor = failing_executor(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        executor.run(make_requests(4))
    assert len(executor.unfinished) == 4
    with pytest.raises(ExecutorStoppedError):
        executor.step()


def test_an_interrupt_while_a_slot_is_opened_gives_the_slot_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployment = small_deployment(max_num_requests=2)
    target = make_target(deployment)

    def interrupted(_slot: int) -> None:
        raise KeyboardInterrupt

    executor = Executor(deployment, target, PlannedWorker(deployment))
    with monkeypatch.context() as patch:
        patch.setattr(target.store, "open", interrupted)
        with pytest.raises(KeyboardInterrupt):
            executor.run(make_requests(3))
    assert executor.unfinished == tuple(make_requests(3))
    assert len(target.pool) == 0
    again = Executor(deployment, target, PlannedWorker(deployment)).run(executor.unfinished)
    assert [r.token_ids for r in again] == [tuple(continuation(i)[:NEW_TOKENS]) for i in range(3)]


def test_an_interrupt_between_steps_cancels_the_run_and_nothing_else() -> None:
    executor = make_executor(max_num_requests=2)

    def interrupt(finished: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executor.run(make_requests(4), on_progress=interrupt)
    assert executor.unfinished == ()
    results = executor.run(make_requests(4))
    assert [r.token_ids for r in results] == [tuple(continuation(i)[:NEW_TOKENS]) for i in range(4)]


@pytest.mark.parametrize("meddle", ["submit", "cancel", "step"])
def test_a_progress_callback_cannot_change_what_runs(meddle: str) -> None:
    executor = make_executor(max_num_requests=4)
    requests = [
        make_requests(1, max_new_tokens=3)[0],
        make_requests(2, max_new_tokens=5)[1],
        *make_requests(5)[2:],
    ]
    extra = make_requests(7)[6]

    def on_progress(_finished: int, _total: int) -> None:
        live = executor.unfinished
        if meddle == "submit":
            executor.submit(extra)
        elif meddle == "cancel":
            executor.cancel(live[0].request_id)
        else:
            while executor.unfinished == live:
                executor.step()

    with pytest.raises(RuntimeError, match=r"on_progress: submitted, cancelled, paused or"):
        executor.run(requests, on_progress)
    assert (executor.unfinished, executor.stopped) == ((), False)
    results = executor.run(make_requests(3))
    assert [r.token_ids for r in results] == [tuple(continuation(i)[:NEW_TOKENS]) for i in range(3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_accepted": torch.tensor([1, 9])}, r"num_accepted\[1\] is 9 for a row of 8 tokens"),
        ({"num_accepted": torch.tensor([0, 1])}, r"num_accepted\[0\] is 0 for a row of 8 tokens"),
        ({"num_accepted": torch.tensor([1])}, r"num_accepted is \[1\] torch.int64 for 2 rows"),
        ({"num_accepted": torch.ones(2)}, r"num_accepted is \[2\] torch.float32 for 2 rows"),
        ({"tokens": torch.zeros(2, 7).long()}, r"tokens is \[2, 7\] .* at most 8 tokens"),
        ({"tokens": torch.full((2, 8), -1)}, r"tokens has -1 to -1; return tokens of the target's"),
        ({"draft_tokens": torch.zeros(2, 8).long()}, r"draft_tokens is \[2, 8\] .* and 7 drafts"),
        ({"draft_tokens": torch.full((2, 7), VOCAB)}, f"draft_tokens has {VOCAB} to {VOCAB}; ret"),
        (None, "worker: returned NoneType, expected a DraftOutput"),
    ],
)
def test_an_outcome_that_no_step_can_have_stops_the_executor_before_it_is_committed(
    change: dict[str, Tensor] | None, message: str
) -> None:
    class Broken(PlannedWorker):
        def forward(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> Any:
            output = super().forward(metadata, **tensors)
            if metadata.num_contexts:
                return output
            return None if change is None else attrs.evolve(output, **change)

    deployment = small_deployment(max_num_requests=2)
    target = make_target(deployment)
    executor = Executor(deployment, target, Broken(deployment))
    requests = make_requests(2)
    with pytest.raises(ExecutorStoppedError) as caught:
        executor.run(requests)
    assert re.search(message, str(caught.value.__cause__))
    assert caught.value.unfinished == tuple(requests)
    results = Executor(deployment, target, PlannedWorker(deployment)).run(requests)
    assert [r.token_ids for r in results] == [tuple(continuation(i)[:NEW_TOKENS]) for i in range(2)]


def test_what_is_no_deployment_target_or_worker_is_refused_before_anything_runs() -> None:
    deployment = small_deployment()
    target = make_target(deployment)
    stub: Any = SimpleNamespace(**dict(deployment))
    for build in (
        lambda: Executor(stub, target, None),
        lambda: ContextServer(stub, target),
        lambda: TargetRunner.for_deployment(target_model(), stub),
    ):
        with pytest.raises(TypeError, match=r"SimpleNamespace is not a specmeta.Deployment"):
            build()
    model: Any = target_model()
    with pytest.raises(TypeError, match="target: Qwen3ForCausalLM is not a TargetRunner; build"):
        Executor(deployment, model, None)
    for worker in (draft_model(), DSparkWorker):
        unfit: Any = worker
        with pytest.raises(TypeError, match=r"worker: DSpark\w+ is no worker; pass an object with"):
            Executor(deployment, target, unfit)
    other = PlannedWorker(small_deployment(num_seq_slots=17))
    with pytest.raises(ValueError, match="worker: its deployment is not this one; build"):
        Executor(deployment, target, other)
    elsewhere = PlannedWorker(deployment)
    elsewhere.device = torch.device("meta")
    with pytest.raises(ValueError, match="worker: its device is meta, the target's cpu; build"):
        Executor(deployment, target, elsewhere)


def test_two_executors_on_one_target_cannot_take_each_others_slots() -> None:
    deployment = small_deployment(max_num_requests=1, num_seq_slots=1)
    target = make_target(deployment)
    first = Executor(deployment, target, PlannedWorker(deployment))
    second = Executor(deployment, target, PlannedWorker(deployment))
    first.submit(make_requests(1)[0])
    first.step()
    with pytest.raises(ValueError, match="is live already"):
        second.submit(make_requests(1)[0])
    second.submit(make_requests(2)[1])
    with pytest.raises(SlotPoolExhaustedError, match="belong to another server"):
        second.step()
    while first.unfinished:
        first.step()
    results: list[RequestResult] = []
    while not results:
        results = second.step()
    assert results[0].token_ids == tuple(continuation(1)[:NEW_TOKENS])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_slots": 3}, "its num_slots is 3, the deployment needs 16"),
        ({"max_seq_len": 60}, "its max_seq_len is 60, the deployment needs 120"),
        ({"target_layer_ids": (0,)}, r"its target_layer_ids is \(0,\), the deployment needs"),
    ],
)
def test_a_target_that_does_not_fit_the_deployment_is_refused(
    change: dict[str, Any], message: str
) -> None:
    deployment = small_deployment()
    fields = {"target_layer_ids": (0, 2), "num_slots": 16, "max_seq_len": 120, **change}
    target = TargetRunner(target_model(), **fields)
    with pytest.raises(ValueError, match=message):
        Executor(deployment, target, PlannedWorker(deployment))


def test_a_target_in_another_precision_is_refused() -> None:
    deployment = small_deployment()
    target = TargetRunner.for_deployment(tiny_qwen3(dtype=torch.float32), deployment)
    with pytest.raises(ValueError, match=r"dtype is torch\.float32, the deployment needs"):
        Executor(deployment, target, None)


def test_a_tensor_parallel_size_that_the_executor_would_ignore_is_refused() -> None:
    deployment = small_deployment(tensor_parallel_size=2)
    target = make_target(deployment)
    with pytest.raises(ValueError, match=r"tensor_parallel_size: 2, but .* one device; set it to"):
        Executor(deployment, target, None)


def test_prompt_lengths_of_these_tests_cross_the_window() -> None:
    assert min(PROMPT_LENGTHS) == 1
    assert max(PROMPT_LENGTHS) > 12
    assert RequestId(request_id_of(0)) == 1000
