"""Sampled requests: seeds alone decide their output, however they are batched and moved."""

from typing import Any

import attrs
import pytest

from specmeta import SamplingParams
from specmeta_workers import (
    ContextServer,
    DisaggregatedExecutor,
    DSparkWorker,
    Executor,
    GenerationServer,
    Handover,
    Request,
    TargetRunner,
)
from tests.workers.life_cycle_cases import (
    KINDS,
    NEW_TOKENS,
    deployment_of,
    draft_model_of,
    make_requests,
    rig_of,
    right,
)
from tests.workers.serving_cases import target_model

KIND = pytest.mark.parametrize("kind", KINDS)


SAMPLED = {"use_rejection_sampling": True}


def sampled(count: int = 4, temperature: float = 0.8) -> list[Request]:
    return [
        attrs.evolve(
            request, sampling=SamplingParams(temperature=temperature, seed=40 + i, top_k=20)
        )
        for i, request in enumerate(make_requests(count))
    ]


def worker_of(kind: str, deployment: Any) -> Any:
    plain = type(rig_of(kind).worker).__bases__[1]
    return plain(deployment, draft_model_of(kind))


def sampling_executor(kind: str | None, **overrides: Any) -> Executor:
    deployment = deployment_of(kind or "DSpark", decoding=SAMPLED, **overrides)
    target = TargetRunner.for_deployment(target_model(), deployment)
    worker = None if kind is None else worker_of(kind, deployment)
    return Executor(deployment, target, worker)


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_the_same_seed_gives_the_same_tokens_at_any_batch(kind: str | None) -> None:
    alone = sampling_executor(kind, max_num_requests=1, max_num_tokens=100).run(sampled())
    batched = sampling_executor(kind).run(sampled())
    assert batched == alone
    other = [attrs.evolve(r, sampling=SamplingParams(temperature=0.8, seed=7)) for r in sampled()]
    assert [r.token_ids for r in sampling_executor(kind).run(other)] != [r.token_ids for r in alone]
    assert len({r.token_ids[:4] for r in alone}) == 4


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_temperature_zero_is_greedy(kind: str | None) -> None:
    results = sampling_executor(kind).run(sampled(temperature=0.0))
    for request, result in zip(make_requests(4), results, strict=True):
        assert result.token_ids == right(request.prompt_token_ids)[:NEW_TOKENS]


@KIND
def test_pause_and_preemption_do_not_change_what_is_sampled(kind: str) -> None:
    expected = sampling_executor(kind).run(sampled())
    executor = sampling_executor(kind, max_num_requests=3)
    for request in sampled():
        executor.submit(request)
    results = []
    step = 0
    while executor.unfinished:
        live = [r.request_id for r in executor.unfinished]
        if step % 5 == 4 and step < 40:
            executor.preempt(live[0])
        elif step % 5 == 1:
            executor.pause(live[-1])
        elif step % 5 == 3:
            for request_id in executor.paused:
                executor.resume(request_id)
        results += executor.step()
        step += 1
    by_id = {r.request_id: r for r in results}
    assert [by_id[r.request_id] for r in expected] == expected


@pytest.mark.parametrize("kind", [None, "DSpark", "MTP"])
def test_sampling_survives_the_hand_over(kind: str | None) -> None:
    expected = sampling_executor(kind).run(sampled())
    deployment = deployment_of(kind or "DSpark", decoding=SAMPLED)
    context, generation = (
        TargetRunner.for_deployment(target_model(), deployment) for _ in range(2)
    )
    pair = DisaggregatedExecutor(
        ContextServer(deployment, context),
        GenerationServer(
            deployment, generation, None if kind is None else worker_of(kind, deployment)
        ),
    )
    assert pair.run(sampled()) == expected


def test_a_message_carries_the_sampling_and_refuses_a_broken_one() -> None:
    deployment = deployment_of("DSpark", decoding=SAMPLED)
    server = ContextServer(deployment, TargetRunner.for_deployment(target_model(), deployment))
    server.submit(sampled(1)[0])
    (handover,) = server.step()
    assert isinstance(handover, Handover)
    message = handover.to_bytes()
    assert Handover.from_bytes(message).request.sampling == sampled(1)[0].sampling
    with pytest.raises(ValueError, match="seed"):
        Handover.from_bytes(message.replace(b'seed\\": 40', b'seed\\": -4'))


@pytest.mark.parametrize(
    ("decoding", "sampling", "message"),
    [
        (SAMPLED, None, "request 500: sampling is None, but the deployment has decoding.use_rej"),
        (
            {},
            SamplingParams(temperature=1.0, seed=3),
            "request 500: sampling is given, but the deployment accepts drafts strictly",
        ),
        (SAMPLED, {"seed": 3}, r"request 500: sampling is dict; pass specmeta\.SamplingParams"),
    ],
)
def test_sampling_is_given_exactly_where_the_deployment_samples(
    decoding: Any, sampling: Any, message: str
) -> None:
    deployment = deployment_of("DSpark", decoding=decoding)
    target = TargetRunner.for_deployment(target_model(), deployment)
    executor = Executor(deployment, target, DSparkWorker(deployment, draft_model_of("DSpark")))
    with pytest.raises(ValueError, match=message):
        executor.submit(make_requests(1, sampling=sampling)[0])
    assert executor.unfinished == ()
