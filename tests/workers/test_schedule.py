"""Verify lengths for throughput: against brute force, and without looking ahead."""

import itertools
import math
import random
import time
from typing import Any

import pytest

from specmeta import DSparkDecodingConfig
from specmeta_workers._schedule import StepRates, measure_step_rates, schedule_draft_lens
from specmeta_workers._target import TargetRunner
from tests.workers.tiny_targets import VOCAB, tiny_qwen3

FLAT = StepRates(((1, 10.0),))


def throughput(
    survival: list[list[float]], rates: StepRates, lengths: tuple[int, ...], context_tokens: int = 0
) -> float:
    tokens = context_tokens + sum(1 + length for length in lengths)
    rows = zip(survival, lengths, strict=True)
    return sum(1 + sum(row[:length]) for row, length in rows) * rates(tokens)


def every_choice(survival: list[list[float]]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(len(row) + 1) for row in survival)))


def survivals(rng: random.Random, rows: int, most: int) -> list[list[float]]:
    return [
        list(itertools.accumulate((rng.random() for _ in range(rng.randint(0, most))), _product))
        for _ in range(rows)
    ]


def _product(before: float, confidence: float) -> float:
    return before * confidence


def linear_steps(rng: random.Random, tokens: int) -> StepRates:
    """Steps that take a + b * tokens: throughput along the greedy path then has one peak."""
    fixed, each = rng.random() * 20 + 0.1, rng.random() * 5
    return StepRates(tuple((count, 1 / (fixed + each * count)) for count in range(1, tokens + 1)))


@pytest.mark.parametrize("seed", range(60))
def test_the_throughput_is_the_best_of_all_choices_where_a_step_is_linear_in_tokens(
    seed: int,
) -> None:
    rng = random.Random(seed)
    survival = survivals(rng, rows=rng.randint(1, 4), most=4)
    context_tokens = rng.choice((0, 5))
    rates = linear_steps(rng, tokens=30)
    lengths = schedule_draft_lens(survival, rates, context_tokens=context_tokens)
    best = max(
        throughput(survival, rates, choice, context_tokens) for choice in every_choice(survival)
    )
    reached = throughput(survival, rates, tuple(lengths), context_tokens)
    assert math.isclose(reached, best, rel_tol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_whether_a_draft_is_verified_does_not_depend_on_what_follows_it(seed: int) -> None:
    rng = random.Random(seed)
    survival = survivals(rng, rows=3, most=5)
    survival[1] = survival[1] or [0.5]
    rates = StepRates(tuple((count, rng.random() + 0.1) for count in range(1, 20)))
    lengths = schedule_draft_lens(survival, rates)
    row, position = 1, rng.randrange(len(survival[1]))
    for _ in range(20):
        kept = survival[row][: position + 1]
        changed = [kept[-1] * rng.random() for _ in range(rng.randint(0, 4))]
        other = [*survival[:row], kept + changed, *survival[row + 1 :]]
        again = schedule_draft_lens(other, rates)
        assert min(again[row], position + 1) == min(lengths[row], position + 1)


def _output_distribution(choose: Any) -> dict[str, float]:
    """What one row puts out first: target 0.7/0.3, drafter 0.5/0.5, so the first draft survives
    with 0.8. Behind A a second draft is likely to survive, behind B it cannot.
    """
    target, drafter = {"A": 0.7, "B": 0.3}, {"A": 0.5, "B": 0.5}
    residual = {token: max(target[token] - drafter[token], 0.0) for token in target}
    output = dict.fromkeys(target, 0.0)
    for draft, second in (("A", 0.8), ("B", 0.0)):
        length = choose([[0.8, second]])[0]
        if length == 0:
            for token, chance in target.items():
                output[token] += drafter[draft] * chance
            continue
        accept = min(1.0, target[draft] / drafter[draft])
        output[draft] += drafter[draft] * accept
        for token, rest in residual.items():
            output[token] += drafter[draft] * (1 - accept) * rest / sum(residual.values())
    return output


def test_looking_ahead_would_change_the_output_and_the_schedule_does_not_look() -> None:
    """The counterexample of the paper's appendix A: 0.7/0.3 would become 0.85/0.15."""
    rates = StepRates(((1, 1.0), (2, 0.5), (3, 0.49)))  # one draft does not pay, two may

    def looking_ahead(survival: list[list[float]]) -> tuple[int, ...]:
        return max(every_choice(survival), key=lambda lens: throughput(survival, rates, lens))

    assert looking_ahead([[0.8, 0.8]]) == (2,)
    assert looking_ahead([[0.8, 0.0]]) == (0,)
    anticipated = _output_distribution(looking_ahead)
    assert anticipated == pytest.approx({"A": 0.85, "B": 0.15})
    scheduled = _output_distribution(lambda survival: schedule_draft_lens(survival, rates))
    assert scheduled == pytest.approx({"A": 0.7, "B": 0.3})


def test_drafts_that_cost_nothing_are_all_verified_unless_they_cannot_survive() -> None:
    assert schedule_draft_lens([[0.9, 0.4], [0.1], []], FLAT) == [2, 1, 0]
    assert schedule_draft_lens([[0.9, 0.0, 0.0], [0.0]], FLAT) == [1, 0]


def test_no_draft_is_verified_where_a_larger_batch_only_slows_the_step() -> None:
    """Steps that take their tokens: a draft that may fail never pays."""
    rates = StepRates(tuple((count, 60 / count) for count in range(1, 12)))
    assert schedule_draft_lens([[0.99, 0.9], [0.98]], rates) == [0, 0]


def test_context_tokens_make_a_draft_cheap() -> None:
    rates = StepRates(tuple((count, 1 / count) for count in range(1, 60)))
    assert schedule_draft_lens([[0.5]], rates) == [0]
    assert schedule_draft_lens([[0.5]], rates, context_tokens=50) == [1]


def test_no_rows_and_rows_without_drafts_have_no_lengths() -> None:
    assert schedule_draft_lens([], FLAT) == []
    assert schedule_draft_lens([[], []], FLAT) == [0, 0]


def test_of_equal_drafts_the_earlier_row_comes_first() -> None:
    rates = StepRates(((2, 1.0), (4, 0.9), (5, 0.1)))  # room for two drafts
    assert schedule_draft_lens([[0.8, 0.8], [0.8, 0.8]], rates) == [2, 0]
    assert schedule_draft_lens([[0.8, 0.7], [0.8, 0.8]], rates) == [1, 1]


def test_a_survival_that_rises_counts_as_the_lowest_before_it() -> None:
    rates = StepRates(((2, 1.0), (3, 0.9), (4, 0.1)))  # room for one draft
    assert schedule_draft_lens([[0.3, 0.9], [0.5]], rates) == [0, 1]


@pytest.mark.parametrize("value", [math.nan, 1.01, -0.1, math.inf])
def test_a_survival_that_is_no_probability_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"survival\[1\]\[0\]: .* is no probability; multiply"):
        schedule_draft_lens([[0.5], [value]], FLAT)


def test_rates_are_linear_between_the_measured_counts_and_constant_outside() -> None:
    rates = StepRates(((4, 100.0), (8, 60.0), (16, 80.0)))
    tokens = (1, 4, 5, 7, 8, 12, 16, 900)
    assert [rates(count) for count in tokens] == [100, 100, 90, 70, 60, 70, 80, 80]


def test_the_measured_table_is_the_median_of_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that a forward moves by its tokens, but the first and the last by far more."""
    target = TargetRunner(tiny_qwen3(), (), num_slots=2, max_seq_len=64)
    target.store.lengths[0] = 9  # a live request
    clock = [0.0]
    shapes: list[tuple[tuple[int, ...], int]] = []
    forward = target.forward

    def timed(rows: Any, input_ids: Any) -> Any:
        earlier = sum(shape == rows.seq_lens for shape, _ in shapes)
        clock[0] += (60.0, 0.01 * len(input_ids), 0.01 * len(input_ids), 7.0)[earlier]
        shapes.append((rows.seq_lens, target.store.lengths[target.store.scratch_slot]))
        logits, captured = forward(rows, input_ids)
        assert logits.shape == (len(input_ids), VOCAB)
        return logits, captured

    monkeypatch.setattr(target, "forward", timed)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    table = measure_step_rates(target, (1, 4, 9), row_tokens=4, context_length=20, rounds=3)
    assert [count for count, _ in table] == [1, 4, 9]
    assert [rate for _, rate in table] == pytest.approx([100, 25, 100 / 9])
    assert shapes == [((1,), 20)] * 4 + [((4,), 20)] * 4 + [((3, 3, 3), 20)] * 4
    assert target.store.lengths == [9, 0, 0]
    config = DSparkDecodingConfig(max_draft_len=3, steps_per_second=table)
    assert config.steps_per_second == table


def test_a_row_that_outgrows_the_target_is_refused_and_leaves_no_trace() -> None:
    target = TargetRunner(tiny_qwen3(), (), num_slots=1, max_seq_len=16)
    with pytest.raises(ValueError, match="max_seq_len 16"):
        measure_step_rates(target, (2, 4), row_tokens=4, context_length=14)
    assert target.store.lengths == [0, 0]
