"""Distributions after temperature, top-k and top-p, and draws from them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specmeta import SamplingParams
from specmeta_workers._sampling import SamplingTensors, probabilities, sample
from tests.workers.chi_square import count, p_value

LOGITS = torch.tensor([1.0, 3.0, 2.0, 3.0, -1.0], dtype=torch.float64)


def tensors(*params: dict[str, Any], num_padding: int = 0, vocab_size: int = 5) -> SamplingTensors:
    rows = [SamplingParams(**{"temperature": 1.0, "seed": 0, **fields}) for fields in params]
    return SamplingTensors.of(
        rows, num_padding=num_padding, vocab_size=vocab_size, device=torch.device("cpu")
    )


def distribution(**fields: Any) -> Tensor:
    return probabilities(LOGITS[None], tensors(fields))[0]


def masked(keep: list[int], temperature: float = 1.0) -> Tensor:
    kept = torch.full_like(LOGITS, float("-inf"))
    kept[keep] = LOGITS[keep] / temperature
    return kept.softmax(-1)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_temperature_divides_the_logits(temperature: float) -> None:
    expected = (LOGITS / temperature).softmax(-1)
    torch.testing.assert_close(distribution(temperature=temperature), expected)


def test_temperature_zero_is_the_first_of_the_most_likely_tokens() -> None:
    assert distribution(temperature=0.0).tolist() == [0, 1, 0, 0, 0]
    assert distribution(temperature=0.0, top_k=3, top_p=0.5).tolist() == [0, 1, 0, 0, 0]


@pytest.mark.parametrize("temperature", [1e-38, 1e-30, 1e-3])
def test_a_tiny_temperature_shares_the_mass_among_the_most_likely_tokens(
    temperature: float,
) -> None:
    found = probabilities(10 * LOGITS[None].float(), tensors({"temperature": temperature}))
    assert found.tolist() == [[0, 0.5, 0, 0.5, 0]]


@pytest.mark.parametrize(("top_k", "keep"), [(1, [1]), (2, [1, 3]), (3, [1, 2, 3]), (9, range(5))])
def test_top_k_keeps_k_tokens_and_of_equal_ones_the_smaller_ids(top_k: int, keep: Any) -> None:
    torch.testing.assert_close(distribution(top_k=top_k), masked(list(keep)))


def test_top_p_keeps_the_fewest_tokens_that_reach_it() -> None:
    full = LOGITS.softmax(-1)
    two = float(full[1] + full[3])
    torch.testing.assert_close(distribution(top_p=two - 1e-6), masked([1, 3]))
    torch.testing.assert_close(distribution(top_p=two + 1e-6), masked([1, 2, 3]))
    torch.testing.assert_close(distribution(top_p=1e-9), masked([1]))
    torch.testing.assert_close(distribution(top_p=1.0), full)


def test_top_p_counts_the_mass_that_top_k_leaves() -> None:
    kept = masked([1, 2, 3])
    cut = float(kept[1] + kept[3])
    torch.testing.assert_close(distribution(top_k=3, top_p=cut - 1e-6), masked([1, 3]))
    torch.testing.assert_close(distribution(top_k=3, top_p=cut + 1e-6), kept)


def test_each_row_has_its_own_parameters_and_padding_is_greedy() -> None:
    params = tensors({"temperature": 0.5}, {"top_k": 2}, num_padding=1)
    found = probabilities(LOGITS.expand(3, 2, 5), params)
    assert found.shape == (3, 2, 5)
    for column in range(2):
        torch.testing.assert_close(found[0, column], (LOGITS / 0.5).softmax(-1))
        torch.testing.assert_close(found[1, column], masked([1, 3]))
        assert found[2, column].tolist() == [0, 1, 0, 0, 0]


def test_half_types_are_computed_in_float32() -> None:
    found = probabilities(LOGITS[None].bfloat16(), tensors({}))
    assert found.dtype == torch.float32
    assert float(found.sum()) == pytest.approx(1)


def test_draws_follow_the_distribution() -> None:
    probs = torch.tensor([0.1, 0.0, 0.4, 0.25, 0.25, 0.0], dtype=torch.float64)
    numbers = torch.rand(200_000, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    drawn = sample(probs.expand(len(numbers), -1), numbers)
    assert p_value(count(drawn[:, None], 6), probs) > 1e-4


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_token_of_probability_zero_is_drawn_at_the_ends(
    number: float, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(4)
    probs = torch.rand(500, 40, generator=generator, dtype=dtype)
    probs[:, :3], probs[:, -3:] = 0, 0
    probs[0], probs[0, 7] = 0, 1e-30
    drawn = sample(probs, torch.full((500,), number, dtype=torch.float64))
    assert (probs.gather(1, drawn[:, None]) > 0).all()


@pytest.mark.parametrize("number", [0.0, 0.25, 0.5, 0.75, 1 - 2.0**-53])
@pytest.mark.parametrize("sign", [-1, 1])
def test_no_token_of_probability_zero_is_drawn_where_the_sum_is_not_monotone(
    monkeypatch: pytest.MonkeyPatch, number: float, sign: int
) -> None:
    """A parallel sum may differ by a rounding between two tokens, in either direction."""
    exact = Tensor.cumsum

    def parallel(probs: Tensor, dim: int) -> Tensor:
        found = exact(probs, dim)
        odd = torch.arange(probs.shape[-1]) % 2 == 1
        return found * (1 + sign * 2.0**-52 * odd.double())

    monkeypatch.setattr(Tensor, "cumsum", parallel)
    probs = torch.zeros(8, 8, dtype=torch.float64)
    probs[:, ::4], probs[:, 2] = 0.25, 0.5
    probs[4:] = probs[4:].roll(1, -1)
    drawn = sample(probs, torch.full((8,), number, dtype=torch.float64))
    assert (probs.gather(1, drawn[:, None]) > 0).all()


def test_both_trace_without_reading_a_value() -> None:
    """Meta tensors have no values: a host sync or a shape that depends on data would raise."""
    params = SamplingTensors(*(tensor.to("meta") for tensor in tensors({}, {"top_k": 2})))
    numbers = torch.empty(2, 3, dtype=torch.float64, device="meta")

    def draw(logits: Tensor) -> Tensor:
        return sample(probabilities(logits, params), numbers)

    logits = torch.empty(2, 3, 5, device="meta")
    assert draw(logits).shape == (2, 3)
    assert torch.compile(draw, fullgraph=True, backend="eager")(logits).shape == (2, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("top_p", [1e-40, 1e-50, 5e-324])
def test_a_tiny_top_p_keeps_the_most_likely_token(dtype: torch.dtype, top_p: float) -> None:
    logits = torch.tensor([[0.5, 3.0, 1.0, -2.0, 0.0]], dtype=dtype)
    assert probabilities(logits, tensors({"top_p": top_p})).tolist() == [[0, 1, 0, 0, 0]]


def test_a_huge_temperature_leaves_an_impossible_token_impossible() -> None:
    logits = torch.tensor([[0.5, float("-inf"), 1.0, -2.0, 0.0]])
    found = probabilities(logits, tensors({"temperature": 1e300}))
    torch.testing.assert_close(found, torch.tensor([[0.25, 0, 0.25, 0.25, 0.25]]))
