"""Counter-based random numbers."""

from __future__ import annotations

import pytest
import torch

from specmeta_workers._random import ACCEPT, DRAFT, SAMPLE, uniform
from tests.workers.chi_square import p_value

PURPOSES = (DRAFT, ACCEPT, SAMPLE)


def grid(seeds: int, positions: int, purpose: int) -> torch.Tensor:
    return uniform(torch.arange(seeds)[:, None], torch.arange(positions), purpose)


def test_the_numbers_stay_the_same_between_releases() -> None:
    found = uniform(torch.tensor([0, 1, 2**63 - 1]), torch.tensor([0, 7, 1_000_000]), ACCEPT)
    assert found.dtype == torch.float64
    assert found.tolist() == [0.7012121095215252, 0.3333969137921232, 0.3968052239386387]


def test_they_equal_an_integer_implementation() -> None:
    mask = 2**64 - 1

    def mix(x: int) -> int:
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return x ^ (x >> 31)

    golden = 0x9E3779B97F4A7C15
    for seed, position, purpose in ((0, 0, 0), (5, 12, 1), (2**63 - 1, 2**40, 2)):
        state = mix((seed + golden) & mask)
        state = mix((state + (position * 4 + purpose + 1) * golden) & mask)
        found = uniform(torch.tensor(seed), torch.tensor(position), purpose)
        assert float(found) == (state >> 11) * 2.0**-53


@pytest.mark.parametrize("purpose", PURPOSES)
def test_they_are_uniform_over_positions_and_over_seeds(purpose: int) -> None:
    for numbers in (grid(1, 200_000, purpose), grid(200_000, 1, purpose)):
        assert numbers.min() >= 0
        assert numbers.max() < 1
        bins = torch.bincount((numbers.flatten() * 100).long(), minlength=100)
        assert p_value(bins, torch.full((100,), 0.01)) > 1e-4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (grid(300, 300, DRAFT), grid(300, 300, ACCEPT)),
        (grid(300, 300, ACCEPT), grid(300, 300, SAMPLE)),
        (grid(300, 301, ACCEPT)[:, 1:], grid(300, 301, ACCEPT)[:, :-1]),
        (grid(301, 300, ACCEPT)[1:], grid(301, 300, ACCEPT)[:-1]),
    ],
    ids=["draft and accept", "accept and sample", "next position", "next seed"],
)
def test_two_numbers_are_independent(one: torch.Tensor, other: torch.Tensor) -> None:
    cells = (one.flatten() * 10).long() * 10 + (other.flatten() * 10).long()
    assert p_value(torch.bincount(cells, minlength=100), torch.full((100,), 0.01)) > 1e-4


def test_small_seeds_share_no_number_with_each_other() -> None:
    """Seeds are as small as positions are: exchanged or equal, they must not meet."""
    numbers = torch.stack([grid(400, 100, purpose) for purpose in PURPOSES])
    assert len(set(numbers.flatten().tolist())) == numbers.numel()
    assert numbers.min() > 0


def test_a_row_draws_the_same_alone_and_in_a_batch() -> None:
    seeds, positions = torch.tensor([3, 9, 3, 2**62]), torch.tensor([5, 5, 6, 7])
    together = uniform(seeds, positions, SAMPLE)
    for row in range(4):
        assert uniform(seeds[row], positions[row], SAMPLE) == together[row]
    assert len(set(together.tolist())) == 4
