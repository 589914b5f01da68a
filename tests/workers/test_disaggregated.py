"""Prefill on one server, decoding on another: the same output and accept lengths as on one."""

import json
from typing import Any

import attrs
import pytest
import safetensors.torch
import torch
from torch import Tensor

from specmeta import Deployment, DSparkSpecMetadata
from specmeta_workers import (
    ContextServer,
    DisaggregatedExecutor,
    DraftOutput,
    DSparkWorker,
    Executor,
    ExecutorStoppedError,
    GenerationServer,
    Handover,
    RequestResult,
    TargetRunner,
    UnknownRequestError,
)
from tests.workers.serving_cases import (
    NEW_TOKENS,
    PROMPT_LENGTHS,
    WINDOW,
    PlannedWorker,
    RecordingWorker,
    continuation,
    draft_model,
    make_requests,
    make_target,
    planned_accepts,
    request_id_of,
    small_deployment,
)
from tests.workers.tiny_targets import VOCAB, full_forward, tiny_qwen3

REFERENCE = [tuple(continuation(i)[:NEW_TOKENS]) for i in range(len(PROMPT_LENGTHS))]


def wire(
    worker: DSparkWorker | None, generation: Deployment, context: Deployment | None = None
) -> DisaggregatedExecutor:
    context = context or generation
    return DisaggregatedExecutor(
        ContextServer(context, make_target(context)),
        GenerationServer(generation, make_target(generation), worker),
    )


def handover_of(index: int, deployment: Deployment | None = None) -> Handover:
    deployment = deployment or small_deployment()
    server = ContextServer(deployment, make_target(deployment))
    server.submit(make_requests()[index])
    outcomes: list[Handover | RequestResult] = []
    while not outcomes:
        outcomes = server.step()
    (outcome,) = outcomes
    assert isinstance(outcome, Handover)
    return outcome


@pytest.mark.parametrize(
    "shape",
    [
        {"max_num_requests": 1, "max_num_tokens": 256},
        {"max_num_requests": 4, "max_num_tokens": 256},
        {"max_num_requests": 16, "max_num_tokens": 2000},
        {"max_num_requests": 4, "max_num_tokens": 32},
        {"max_num_requests": 8, "max_num_tokens": 64, "cuda_graph_batch_sizes": (2, 4, 8)},
    ],
    ids=["1", "4", "16", "4-chunked", "8-buckets-chunked"],
)
@pytest.mark.parametrize("kind", ["plain", "planned"])
def test_output_and_accept_lengths_equal_the_aggregated(kind: str, shape: dict[str, Any]) -> None:
    deployment = small_deployment(**shape)
    worker = PlannedWorker(deployment) if kind == "planned" else None
    executor = wire(worker, deployment)
    results = executor.run(make_requests())
    assert [r.token_ids for r in results] == REFERENCE
    assert executor.unfinished == ()
    if worker is not None:
        expected = [planned_accepts(r.request_id, worker, NEW_TOKENS) for r in results]
        assert [r.accepted_lengths for r in results] == expected
        assert len(worker.pool) == 0


def test_every_draft_from_the_first_on_equals_the_aggregated() -> None:
    aggregated = small_deployment(max_num_requests=1)
    reference = RecordingWorker(aggregated)
    Executor(aggregated, make_target(aggregated), reference).run(make_requests(max_new_tokens=8))
    for tokens in (2000, 40):  # 40: prefill, and seeds of up to 12 states, in chunks
        deployment = small_deployment(max_num_requests=5, max_num_tokens=tokens)
        worker = RecordingWorker(deployment)
        wire(worker, deployment).run(make_requests(max_new_tokens=8))
        assert worker.drafts == reference.drafts


def test_a_window_larger_than_the_token_budget_is_seeded_in_chunks() -> None:
    shape: dict[str, Any] = {"sliding_window": None, "max_num_requests": 2, "max_num_tokens": 24}
    model = DSparkWorkerWithWholeContext
    aggregated = small_deployment(**shape)
    reference = model(aggregated)
    alone = Executor(aggregated, make_target(aggregated), reference).run(
        make_requests(10, max_new_tokens=8)
    )
    worker = model(aggregated)
    split = wire(worker, aggregated).run(make_requests(10, max_new_tokens=8))
    assert split == alone
    assert worker.drafts == reference.drafts
    assert max(worker.seed_rows) <= 24


class DSparkWorkerWithWholeContext(RecordingWorker):
    """Attends to the whole context; counts the states of each seed."""

    def __init__(self, deployment: Deployment) -> None:
        model = type(draft_model())(deployment.drafter)  # type: ignore[arg-type] # DSpark
        model.load_state_dict(draft_model().state_dict())
        DSparkWorker.__init__(self, deployment, model.double())
        self.drafts = {}
        self.seed_rows: list[int] = []

    def seed(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> DraftOutput:
        self.seed_rows.append(metadata.num_tokens)
        return super().seed(metadata, **tensors)


def test_seeds_run_under_the_real_ids_at_the_handed_over_positions() -> None:
    deployment = small_deployment(max_num_requests=4)
    worker = PlannedWorker(deployment)
    wire(worker, deployment).run(make_requests())
    seeds = [m for m in worker.seen if m.num_contexts]
    seen = {
        request_id: (m.context_positions[row], m.seq_lens[row])
        for m in seeds
        for row, request_id in enumerate(m.request_ids)
    }
    assert seen == {
        request_id_of(i): (max(0, n - WINDOW), min(n, WINDOW)) for i, n in enumerate(PROMPT_LENGTHS)
    }
    assert all(m.num_generations == 0 for m in seeds)


def test_handovers_wait_for_a_slot_and_none_is_lost() -> None:
    deployment = small_deployment(max_num_requests=2, num_seq_slots=2)
    worker = PlannedWorker(deployment)
    server = GenerationServer(deployment, make_target(deployment), worker)
    context = small_deployment(max_num_requests=16, max_num_tokens=2000)
    prefill = ContextServer(context, make_target(context))
    for request in make_requests():
        prefill.submit(request)
    outcomes = prefill.step()
    assert len(outcomes) == len(PROMPT_LENGTHS)
    for outcome in outcomes:
        assert isinstance(outcome, Handover)
        server.receive(outcome)
    assert len(server.unfinished) == len(PROMPT_LENGTHS)
    results: dict[int, RequestResult] = {}
    while server.unfinished:
        results.update((r.request_id, r) for r in server.step())
        assert len(worker.pool) <= 2
    assert [results[request_id_of(i)].token_ids for i in range(len(REFERENCE))] == REFERENCE


def test_a_handover_holds_the_prompts_kv_and_the_last_windows_states() -> None:
    index = PROMPT_LENGTHS.index(30)
    for tokens in (256, 64):
        handover = handover_of(index, small_deployment(max_num_tokens=tokens))
        prompt = list(handover.request.prompt_token_ids)
        _, states = full_forward(tiny_qwen3(), prompt)
        assert handover.first_token == continuation(index)[0]
        assert handover.keys.shape == handover.values.shape == (3, 2, 30, 16)
        assert handover.first_position == 30 - WINDOW
        torch.testing.assert_close(
            handover.captured,
            torch.cat([states[1], states[3]], dim=-1)[-WINDOW:],
            rtol=0,
            atol=1e-10,
        )


def test_a_message_survives_bytes_exactly_and_shares_no_memory() -> None:
    handover = handover_of(5)
    copy = Handover.from_bytes(handover.to_bytes())
    assert copy.request == handover.request
    assert (copy.first_token, copy.first_position) == (handover.first_token, 18)
    assert copy.target_layer_ids == handover.target_layer_ids == (0, 2)
    for name in ("keys", "values", "captured"):
        ours, theirs = getattr(handover, name), getattr(copy, name)
        assert torch.equal(ours, theirs)
        assert ours.dtype == theirs.dtype
        assert ours.data_ptr() != theirs.data_ptr()


def test_the_largest_request_id_survives_bytes() -> None:
    top = 2**64 - 1 - 15 - 1
    deployment = small_deployment()
    server = ContextServer(deployment, make_target(deployment))
    server.submit(make_requests(1, request_id=top, stop_token_ids=(3, 4))[0])
    (outcome,) = server.step()
    assert isinstance(outcome, Handover)
    copy = Handover.from_bytes(outcome.to_bytes())
    assert (copy.request.request_id, copy.request.stop_token_ids) == (top, (3, 4))


@pytest.mark.parametrize("message", [b"", b"x" * 40, b"\x80\x04\x95pickled"])
def test_other_bytes_are_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="not a specmeta hand-over"):
        Handover.from_bytes(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": torch.zeros(3, 2, 29, 16)}, "keys of shape .* for a prompt of 30 tokens"),
        ({"values": torch.zeros(3, 2, 29, 16)}, "values of shape"),
        ({"values": torch.zeros(3, 2, 30, 16)}, r"values of .* torch\.float32 .* in one precision"),
        ({"first_position": "18"}, "first_position 18 is not in the prompt"),
        ({"first_position": 30}, "first_position 30 is not in the prompt"),
        ({"first_position": 0}, "expected 30 rows; hand over every position from"),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(change: dict[str, Any], message: str) -> None:
    handover = handover_of(5)
    with pytest.raises(ValueError, match=message):
        attrs.evolve(handover, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first_token": VOCAB}, f"request 1185: first_token {VOCAB} is not an int from 0 to"),
        ({"first_token": -1}, "first_token -1 is not an int"),
        ({"first_token": "3"}, "first_token '3' is not an int"),
        ({"target_layer_ids": (1, 2)}, r"of target_layer_ids \(1, 2\), this server needs \(0, 2\)"),
        ({"target_layer_ids": 3}, r"of target_layer_ids 3, this server needs \(0, 2\); run the"),
        ({"first_position": 19}, "first_position 19 is above 18, where the window of 12 begins"),
    ],
)
def test_a_handover_that_could_not_be_decoded_well_is_refused_and_stops_nothing(
    change: dict[str, Any], message: str
) -> None:
    deployment = small_deployment()
    server = GenerationServer(deployment, make_target(deployment), PlannedWorker(deployment))
    handover = handover_of(5)
    if "first_position" in change:
        change = {**change, "captured": handover.captured[1:]}
    with pytest.raises(ValueError, match=message):
        server.receive(attrs.evolve(handover, **change))
    assert (server.stopped, server.unfinished) == (False, ())
    server.receive(handover)
    assert [r.request_id for r in server.unfinished] == [1185]


def test_a_request_whose_first_token_is_its_last_is_not_handed_over() -> None:
    deployment = small_deployment()
    executor = wire(PlannedWorker(deployment), deployment)
    stop = continuation(1)[0]
    requests = [
        make_requests(1, max_new_tokens=1)[0],
        make_requests(2, stop_token_ids=(stop,))[1],
        make_requests(3)[2],
    ]
    results = executor.run(requests)
    assert [r.token_ids for r in results] == [REFERENCE[0][:1], (stop,), REFERENCE[2]]
    assert [r.finish_reason for r in results] == ["length", "stop", "length"]


def test_a_generation_server_of_another_model_refuses_the_handover_and_keeps_it() -> None:
    context = small_deployment()
    generation = small_deployment(target_layer_ids=(0, 1, 2))
    executor = wire(None, generation, context)
    executor.submit(make_requests(1)[0])
    with pytest.raises(ValueError, match=r"request 1000: its captured are \(64, .* needs \(96,"):
        executor.step()
    assert [r.request_id for r in executor.unfinished] == [1000]
    with pytest.raises(ValueError, match="request_id 1000 is live already, on its way between the"):
        executor.submit(make_requests(1)[0])
    wrong: Any = True
    with pytest.raises(TypeError, match="request_id: True is bool, not an int; name the request"):
        executor.cancel(wrong)
    assert executor.cancel(make_requests(1)[0].request_id).token_ids == REFERENCE[0][:1]


def test_ids_are_unique_across_both_servers_and_cancel_finds_them_anywhere() -> None:
    deployment = small_deployment(max_num_requests=1, num_seq_slots=1)
    executor = wire(PlannedWorker(deployment), deployment)
    requests = make_requests(3)
    for request in requests:
        executor.submit(request)
    executor.step()  # the first decodes, the others are in prefill or wait
    executor.step()
    for request in requests:
        with pytest.raises(ValueError, match="is live already"):
            executor.submit(request)
    for request in requests:
        assert executor.cancel(request.request_id).finish_reason == "cancelled"
    assert executor.unfinished == ()
    with pytest.raises(UnknownRequestError):
        executor.cancel(requests[0].request_id)
    assert [r.token_ids for r in executor.run(requests)] == REFERENCE[:3]


def test_a_stopped_server_stops_the_pair_and_names_all_unfinished() -> None:
    class Failing(PlannedWorker):
        def seed(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> DraftOutput:
            raise RuntimeError("link down")

    deployment = small_deployment(max_num_requests=2)
    executor = wire(Failing(deployment), deployment)
    requests = [*make_requests(1, max_new_tokens=1), *make_requests(5)[1:]]
    with pytest.raises(ExecutorStoppedError) as caught:
        executor.run(requests)
    assert [r.token_ids for r in caught.value.finished] == [REFERENCE[0][:1]]
    assert {r.request_id for r in caught.value.unfinished} == {
        request_id_of(i) for i in (1, 2, 3, 4)
    }
    assert executor.stopped


def test_a_failed_prefill_names_the_running_and_the_waiting() -> None:
    def fail(module: torch.nn.Module, args: object) -> None:
        raise RuntimeError("device lost")

    deployment = small_deployment(max_num_requests=2)
    model: Any = tiny_qwen3()
    target = TargetRunner.for_deployment(model, deployment)
    server = ContextServer(deployment, target)
    for request in make_requests(3):
        server.submit(request)
    model.get_decoder().layers[1].register_forward_pre_hook(fail)
    with pytest.raises(ExecutorStoppedError, match="stopped with 3 unfinished requests"):
        server.step()
    assert [r.request_id for r in server.unfinished] == [request_id_of(i) for i in range(3)]
    assert len(target.pool) == 0


def test_a_message_of_another_release_is_refused() -> None:
    message = handover_of(5).to_bytes().replace(b"handover.v2", b"handover.v9")
    with pytest.raises(ValueError, match=r"format 'specmeta\.handover\.v9' .* same release"):
        Handover.from_bytes(message)


def test_a_message_that_lacks_a_number_is_refused() -> None:
    message = handover_of(5).to_bytes().replace(b"first_token", b"first_tokem")
    with pytest.raises(ValueError, match=r"with .*'first_tokem'.*, expected .*'first_token'"):
        Handover.from_bytes(message)


@pytest.mark.parametrize("numbers", ["[]", "3", "null", "[" * 100_000, '{"request_id": 5}', "{"])
def test_a_message_whose_numbers_are_no_object_is_refused(numbers: str) -> None:
    message = handover_of(5).to_bytes()
    tensors = safetensors.torch.load(message)
    metadata = {"format": "specmeta.handover.v2", "handover": numbers}
    with pytest.raises(ValueError, match=r"^message: "):
        Handover.from_bytes(safetensors.torch.save(tensors, metadata))


@pytest.mark.parametrize("tokens", [torch.tensor(1), torch.ones(30), torch.ones(30, 1).long()])
def test_a_message_whose_prompt_is_no_row_of_tokens_is_refused(tokens: Tensor) -> None:
    message = handover_of(5).to_bytes()
    size = int.from_bytes(message[:8], "little")
    metadata = json.loads(message[8 : 8 + size])["__metadata__"]
    tensors = safetensors.torch.load(message) | {"prompt_token_ids": tokens}
    with pytest.raises(ValueError, match=r"message: prompt_token_ids is .*, expected a row of int"):
        Handover.from_bytes(safetensors.torch.save(tensors, metadata))


def test_only_handovers_are_received() -> None:
    deployment = small_deployment()
    server = GenerationServer(deployment, make_target(deployment), None)
    message: Any = handover_of(5).to_bytes()
    with pytest.raises(TypeError, match=r"bytes is not a Handover; read .* Handover.from_bytes"):
        server.receive(message)
    assert server.unfinished == ()


def test_a_handover_that_does_not_fit_takes_no_result_of_the_same_step_with_it() -> None:
    executor = wire(None, small_deployment(target_layer_ids=(0, 1, 2)), small_deployment())
    for request in (make_requests(1, max_new_tokens=1)[0], make_requests(2)[1]):
        executor.submit(request)
    assert [r.token_ids for r in executor.step()] == [REFERENCE[0][:1]]
    with pytest.raises(ValueError, match=f"request {request_id_of(1)}: its captured are"):
        executor.step()
    assert [r.request_id for r in executor.unfinished] == [request_id_of(1)]


def test_an_error_between_two_handovers_of_one_step_loses_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployment = small_deployment()
    target = make_target(deployment)
    server = ContextServer(deployment, target)
    requests = make_requests(2)
    for request in requests:
        server.submit(request)
    export = target.store.export

    def fail_second(slot: int) -> tuple[Tensor, Tensor]:
        if slot == 1:
            raise MemoryError
        return export(slot)

    monkeypatch.setattr(target.store, "export", fail_second)
    with pytest.raises(ExecutorStoppedError) as caught:
        server.step()
    assert caught.value.unfinished == tuple(requests)


def test_an_interrupt_on_one_server_keeps_the_results_of_the_other() -> None:
    class Interrupted(PlannedWorker):
        def seed(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> DraftOutput:
            raise KeyboardInterrupt

    deployment = small_deployment(max_num_requests=2)
    executor = wire(Interrupted(deployment), deployment)
    for request in (make_requests(1, max_new_tokens=1)[0], make_requests(2)[1]):
        executor.submit(request)
    with pytest.raises(KeyboardInterrupt):
        executor.step()
    assert [r.request_id for r in executor.unfinished] == [request_id_of(1)]
    for _ in range(2):
        with pytest.raises(ExecutorStoppedError) as caught:
            executor.step()
        assert [r.token_ids for r in caught.value.finished] == [REFERENCE[0][:1]]


@pytest.mark.parametrize("stages", [1, 2])
def test_ranks_that_step_together_put_their_counts_into_the_metadata(stages: int) -> None:
    deployment = small_deployment(max_num_requests=2, pipeline_parallel_size=stages)
    worker = PlannedWorker(deployment)
    server = GenerationServer(deployment, make_target(deployment), worker)
    handovers = {index: handover_of(index, deployment) for index in (1, 2, 3)}
    results: list[RequestResult] = []
    told = []
    for step in range(60):
        if step % 6 == 3 and handovers:  # one at a time, and idle in between
            server.receive(handovers.popitem()[1])
        counts = (server.admit(), step % 5)
        seeds = len(worker.seen)
        results += server.decode(counts)
        told.append((counts, [m.all_rank_num_generations for m in worker.seen[seeds:]]))
        assert len(worker.seen) == seeds + 1, "one step, with or without requests"
        assert len(worker.seen[-1].request_ids) == counts[0]
    assert all(given == [counts] for counts, given in told)
    assert {counts[0] for counts, _ in told} >= {0, 1}
    assert {r.request_id: r.token_ids for r in results} == {
        request_id_of(i): REFERENCE[i] for i in (1, 2, 3)
    }
    server.receive(handover_of(4, deployment))
    while not server.admit():
        server.decode((0, 1))
    with pytest.raises(ExecutorStoppedError) as caught:
        server.step()  # once given, they are not optional
    assert "all_rank_num_generations" in str(caught.value.__cause__)


def test_a_generation_server_pauses_requests_in_any_stage_and_before_they_have_a_slot() -> None:
    deployment = small_deployment(max_num_requests=1, num_seq_slots=2, pipeline_parallel_size=2)
    worker = PlannedWorker(deployment)
    server = GenerationServer(deployment, make_target(deployment), worker)
    for index in (1, 2, 3):
        server.receive(handover_of(index, deployment))
    results: list[RequestResult] = []
    for step in range(80):
        if step == 1:
            server.pause(request_id_of(1))
            server.pause(request_id_of(3))  # waits
        if step == 40:
            assert [r.request_id for r in results] == [request_id_of(2)]
            assert server.paused == (request_id_of(1), request_id_of(3))
            for request_id in server.paused:
                server.resume(request_id)
        results += server.step()
    assert {r.request_id: r.token_ids for r in results} == {
        request_id_of(i): REFERENCE[i] for i in (1, 2, 3)
    }
    expected = [planned_accepts(r.request_id, worker, NEW_TOKENS) for r in results]
    assert [r.accepted_lengths for r in results] == expected
