"""Figures of accept-length runs: means, intervals, repetition."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._requests import RequestResult

RESAMPLES = 2000
"""Bootstrap resamples: enough for a stable third decimal of a 95 % interval."""


def request_mean(results: Sequence[RequestResult]) -> float:
    """Mean over requests of decoded tokens a decode iteration, prefill token excluded."""
    lengths = [result.accept_length for result in results if result.decode_iterations]
    return sum(lengths) / len(lengths)


def pooled(results: Sequence[RequestResult]) -> float:
    """All decoded tokens over all decode iterations: long requests weigh more."""
    iterations = sum(result.decode_iterations for result in results)
    return sum(result.decoded_tokens for result in results) / iterations


def acceptance_by_position(results: Sequence[RequestResult], draft_len: int) -> tuple[float, ...]:
    """Share of decode iterations in which draft 1, 2, ... K was accepted."""
    lengths = [n for result in results for n in result.accepted_lengths]
    return tuple(
        sum(n > position for n in lengths) / len(lengths) for position in range(1, draft_len + 1)
    )


def ratio_interval(
    results: Sequence[RequestResult], base: Sequence[RequestResult], *, seed: int = 0
) -> tuple[float, float, float]:
    """Ratio of the pooled accept lengths, with the bounds of its 95 % bootstrap interval.

    The requests are resampled in pairs: both runs served the same ones, so what differs between
    requests cancels, and runs that are equal request by request give 1 exactly.
    """
    tokens = [(r.decoded_tokens, r.decode_iterations) for r in results]
    base_tokens = [(r.decoded_tokens, r.decode_iterations) for r in base]

    def ratio(rows: Sequence[int]) -> float:
        decoded, iterations = (sum(tokens[row][side] for row in rows) for side in (0, 1))
        base_decoded, base_iterations = (
            sum(base_tokens[row][side] for row in rows) for side in (0, 1)
        )
        return (decoded * base_iterations) / (iterations * base_decoded)

    everything = range(len(tokens))
    if tokens == base_tokens:
        return 1.0, 1.0, 1.0
    source = random.Random(seed)
    draws = sorted(ratio(source.choices(everything, k=len(tokens))) for _ in range(RESAMPLES))
    return ratio(everything), draws[int(0.025 * RESAMPLES)], draws[int(0.975 * RESAMPLES) - 1]


def distinct_ngrams(token_ids: Sequence[int], n: int = 4) -> float:
    """Distinct n-grams over all n-grams of one output: 1 repeats nothing, near 0 is a loop."""
    grams = [tuple(token_ids[i : i + n]) for i in range(len(token_ids) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0
