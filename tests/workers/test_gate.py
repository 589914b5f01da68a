"""The acceptance gate: what it averages, when it closes, what it says."""

import logging

import pytest

from specmeta import MTPDecodingConfig, RequestId
from specmeta_workers._gate import AcceptanceGate
from specmeta_workers._requests import RequestResult


def served(*accepted_lengths: int) -> RequestResult:
    return RequestResult(
        request_id=RequestId(7),
        token_ids=(1,),
        accepted_lengths=accepted_lengths,
        finish_reason="length",
    )


def test_the_gate_judges_nothing_before_its_window_is_full() -> None:
    gate = AcceptanceGate(window=3, threshold=0.5)
    gate.record(served(1, 1))
    gate.record(served(1))
    assert gate.open
    assert gate.reason is None
    gate.record(served(1))
    assert not gate.open


def test_a_request_counts_once_whatever_its_length() -> None:
    """Means of 3 drafts in 1 step and 0 drafts in 9: 1.5 by request, 0.3 by step."""
    gate = AcceptanceGate(window=2, threshold=1.0)
    gate.record(served(4))
    gate.record(served(*[1] * 9))
    assert gate.open


@pytest.mark.parametrize(("threshold", "is_open"), [(0.25, True), (0.26, False)])
def test_the_bonus_token_is_no_accepted_draft_and_the_threshold_itself_is_enough(
    threshold: float, is_open: bool
) -> None:
    gate = AcceptanceGate(window=2, threshold=threshold)
    gate.record(served(1, 2))  # 0.5 drafts a step
    gate.record(served(1, 1))
    assert gate.open == is_open


def test_requests_before_the_window_are_forgotten() -> None:
    gate = AcceptanceGate(window=2, threshold=0.5)
    for accepted in (8, 8, 8, 1):
        gate.record(served(accepted))
    assert gate.open  # (7 + 0) / 2
    gate.record(served(1))
    assert not gate.open


def test_a_request_without_a_decode_iteration_says_nothing() -> None:
    gate = AcceptanceGate(window=1, threshold=0.5)
    gate.record(served())
    assert gate.open
    gate.record(served(1))
    assert not gate.open


def test_the_gate_stays_closed_and_warns_once_with_the_figures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = AcceptanceGate(window=2, threshold=0.5)
    with caplog.at_level(logging.INFO, "specmeta_workers"):
        for accepted in (1, 1, 8, 8, 1, 1):
            gate.record(served(accepted, 1, 1, 2))
    assert not gate.open
    assert gate.reason == (
        "the last 2 requests accepted 0.250 drafts a step on average, below the "
        "acceptance_rate_threshold of 0.5"
    )
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("specmeta_workers", "WARNING")
    assert gate.reason in record.getMessage()


def test_the_gate_comes_from_the_decoding_config_if_at_all() -> None:
    assert AcceptanceGate.of(MTPDecodingConfig(max_draft_len=3)) is None
    gate = AcceptanceGate.of(
        MTPDecodingConfig(
            max_draft_len=3, acceptance_rate_window_size=4, acceptance_rate_threshold=0
        )
    )
    assert gate is not None
    assert (gate.window, gate.threshold, gate.open) == (4, 0.0, True)
