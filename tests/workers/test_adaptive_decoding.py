"""What changes how much is speculated leaves the output as it is."""

import logging
from typing import Any

import pytest
import torch

from specmeta_workers import Executor, TargetRunner
from tests.workers.life_cycle_cases import (
    KINDS,
    NEW_TOKENS,
    deployment_of,
    make_requests,
    rig_of,
    right,
    undisturbed,
)
from tests.workers.serving_cases import target_model

KIND = pytest.mark.parametrize("kind", KINDS)
GATE = {"acceptance_rate_window_size": 3, "acceptance_rate_threshold": 1.0}


class _Silent:
    """Mixed into a worker: nothing is right, so nothing is accepted."""

    def _draft(self, slots: Any, anchors: Any, choose: Any) -> Any:
        drafts, lengths, confidence = super()._draft(slots, anchors, choose)  # type: ignore[misc]
        return torch.zeros_like(drafts), lengths, confidence


def useless(rig: Any) -> Any:
    """The rig with a worker whose drafts are all the same token."""
    kind = type(rig.worker)
    rig.worker.__class__ = type("Useless", (_Silent, kind), {})
    return rig


@KIND
def test_a_gate_that_closes_ends_speculation_for_good(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = useless(rig_of(kind, decoding=GATE, max_num_requests=2, num_seq_slots=3))
    requests = make_requests()
    live_after = []

    def act(_: int) -> None:
        if not rig.executor.speculating:
            live_after.append(len(rig.target.pool))
            assert len(rig.worker.pool) == 0

    with caplog.at_level(logging.WARNING, "specmeta_workers"):
        results = rig.serve(requests, act)
    assert rig.executor.speculating is False
    assert max(live_after) == 2, "requests that were speculated for go on"
    assert [r.message for r in caplog.records if "speculation is off" in r.message] != []
    assert len(caplog.records) == 1
    for request in requests:
        result = results[request.request_id]
        assert result.token_ids == right(request.prompt_token_ids)[:NEW_TOKENS]
    again = rig.serve(requests[:2])
    assert {r.accepted_lengths for r in again.values()} == {(1,) * (NEW_TOKENS - 1)}


@KIND
def test_a_gate_stays_open_while_drafts_are_accepted(kind: str) -> None:
    rig = rig_of(kind, decoding={**GATE, "acceptance_rate_threshold": 0.1})
    results = rig.serve(make_requests())
    assert rig.executor.speculating is True
    assert results == undisturbed(kind).results


def test_preempted_and_paused_requests_survive_the_closing_of_the_gate() -> None:
    rig = useless(rig_of("MTP", decoding=GATE, max_num_requests=4))
    requests = make_requests()

    def act(step: int) -> None:
        live = list(rig.target.pool)
        if step in (5, 17) and live:
            rig.executor.pause(live[-1])
            rig.executor.preempt(live[0])
        if not rig.executor.speculating:
            for request_id in rig.executor.paused:
                rig.executor.resume(request_id)

    results = rig.serve(requests, act)
    assert rig.executor.speculating is False
    for request in requests:
        assert results[request.request_id].token_ids == right(request.prompt_token_ids)[:NEW_TOKENS]


def test_plain_decoding_does_not_speculate() -> None:
    deployment = deployment_of("DSpark", decoding=GATE)
    target = TargetRunner.for_deployment(target_model(), deployment)
    executor = Executor(deployment, target, None)
    assert executor.speculating is False
    assert len(executor.run(make_requests())) == 8


def test_a_cancelled_request_says_nothing_to_the_gate() -> None:
    rig = useless(rig_of("DSpark", decoding={**GATE, "acceptance_rate_window_size": 1}))
    request = make_requests()[0]
    rig.worker.expect([request])
    rig.executor.submit(request)
    for _ in range(3):
        rig.executor.step()
    rig.executor.cancel(request.request_id)
    assert rig.executor.speculating is True


STEEP = ((1, 1000.0), (4, 400.0), (8, 100.0), (64, 1.0))
FLAT = ((1, 100.0), (1000, 100.0))


def widths(rig: Any) -> list[tuple[int, ...]]:
    seen: list[tuple[int, ...]] = []
    forward = rig.worker.forward

    def recorded(metadata: Any, **tensors: Any) -> Any:
        seen.append(metadata.seq_lens[metadata.num_contexts :])
        return forward(metadata, **tensors)

    rig.worker.forward = recorded
    return seen


@pytest.mark.parametrize("rates", [STEEP, FLAT], ids=["steep", "flat"])
def test_the_throughput_schedule_cuts_drafts_and_no_output(rates: Any) -> None:
    rig = rig_of("DSpark", decoding={"steps_per_second": rates}, max_num_tokens=60)
    seen = widths(rig)
    results = rig.serve(make_requests())
    for request in make_requests():
        assert results[request.request_id].token_ids == right(request.prompt_token_ids)[:NEW_TOKENS]
    rows = [width for row in seen for width in row]
    if rates is STEEP:
        assert 1 in rows, "a row without a draft"
    else:
        assert set(rows) == {4}
        assert results == undisturbed("DSpark").results


def test_a_step_that_each_token_slows_down_too_much_verifies_no_draft() -> None:
    rates = ((1, 1000.0), (2, 1.0))
    rig = rig_of("DSpark", decoding={"steps_per_second": rates}, max_num_requests=1)
    seen = widths(rig)
    results = rig.serve(make_requests(3))
    assert {width for row in seen for width in row} == {1}
    assert {r.accepted_lengths for r in results.values()} == {(1,) * (NEW_TOKENS - 1)}


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
def test_a_confidence_threshold_cuts_drafts_and_no_output(threshold: float) -> None:
    rig = rig_of("DSpark", decoding={"confidence_threshold": threshold})
    seen = widths(rig)
    results = rig.serve(make_requests())
    for request in make_requests():
        assert results[request.request_id].token_ids == right(request.prompt_token_ids)[:NEW_TOKENS]
    assert len({width for row in seen for width in row}) > 1
