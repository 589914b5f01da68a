import pytest

from specmeta import RequestId
from specmeta_workers import RequestResult
from specmeta_workers.bench import _statistics as figures


def result(*lengths: int, tokens: tuple[int, ...] = ()) -> RequestResult:
    return RequestResult(RequestId(7), tokens, lengths, "length")


def test_the_request_mean_weighs_requests_and_the_pooled_mean_weighs_iterations() -> None:
    results = [result(4, 4), result(1, 1, 1, 1, 1, 1)]
    assert figures.request_mean(results) == 2.5
    assert figures.pooled(results) == 14 / 8


def test_a_request_that_ended_in_its_prefill_has_no_accept_length() -> None:
    results = [result(3, 5), result()]
    assert figures.request_mean(results) == 4.0
    assert figures.pooled(results) == 4.0


def test_acceptance_by_position_counts_iterations_that_kept_the_draft_there() -> None:
    results = [result(1, 2), result(4, 3)]
    assert figures.acceptance_by_position(results, 3) == (0.75, 0.5, 0.25)


def test_runs_that_are_equal_request_by_request_have_ratio_one_exactly() -> None:
    results = [result(4, 2), result(1, 3, 3)]
    assert figures.ratio_interval(results, list(results)) == (1.0, 1.0, 1.0)


def test_the_interval_of_a_constant_ratio_is_that_ratio() -> None:
    base = [result(4, 4), result(2, 2, 2, 2)]
    half = [result(2, 2, 2, 2), result(1, 1, 1, 1, 1, 1, 1, 1)]
    assert figures.ratio_interval(half, base) == (0.5, 0.5, 0.5)


def test_the_interval_is_repeatable_and_holds_the_ratio() -> None:
    base = [result(*([4] * n)) for n in range(3, 20)]
    other = [result(*([3 + n % 2] * n)) for n in range(3, 20)]
    ratio, low, high = figures.ratio_interval(other, base)
    assert low < ratio < high < 1.0
    assert figures.ratio_interval(other, base) == (ratio, low, high)


@pytest.mark.parametrize(
    ("tokens", "share"),
    [((1, 2, 3, 4, 5, 6), 1.0), ((1, 2, 1, 2, 1, 2, 1, 2), 2 / 5), ((7,) * 12, 1 / 9), ((1,), 1.0)],
)
def test_distinct_ngrams_fall_when_the_output_loops(tokens: tuple[int, ...], share: float) -> None:
    assert figures.distinct_ngrams(tokens) == share
