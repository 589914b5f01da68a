"""Rejection sampling is lossless: exactly, over many draws, and the tests can fail."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from specmeta_workers._random import ACCEPT, DRAFT, SAMPLE, uniform
from specmeta_workers._rejection import accept_by_rejection
from specmeta_workers._sampling import sample
from tests.workers.chi_square import count, p_value

VOCAB = 4
DRAFTS = 2
ROWS = 400_000

Accept = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def tables() -> tuple[Tensor, Tensor]:
    """Target and drafter distributions `[V + 1, V]` of a token by the one before, or the first."""
    generator = torch.Generator().manual_seed(8)
    logits = torch.randn(2, VOCAB + 1, VOCAB, generator=generator, dtype=torch.float64)
    target, drafter = (1.2 * logits).softmax(-1)
    target[1, 2] = 0  # a token that the drafter proposes and the target never says
    return target / target.sum(-1, keepdim=True), drafter


def first_tokens(accept: Accept, length: int = 3) -> Tensor:
    """The first tokens `[ROWS, length]` of requests that each have a seed of their own."""
    target, drafter = tables()
    seeds = torch.arange(ROWS)
    out = torch.full((ROWS, length + DRAFTS + 1), 0)
    done = torch.zeros(ROWS, dtype=torch.long)
    before = torch.full((ROWS,), VOCAB)
    while int(done.min()) < length:
        token, drafts, draft_probs = before, [], []
        for k in range(DRAFTS):
            draft_probs.append(drafter[token])
            token = sample(draft_probs[-1], uniform(seeds, done + k, DRAFT))
            drafts.append(token)
        inputs = torch.stack([before, *drafts], 1)
        places = done[:, None] + torch.arange(DRAFTS + 1)
        tokens, accepted = accept(
            target[inputs],
            torch.stack(draft_probs, 1),
            inputs[:, 1:],
            torch.ones(ROWS, DRAFTS, dtype=torch.bool),
            uniform(seeds[:, None], places[:, :-1], ACCEPT),
            uniform(seeds[:, None], places, SAMPLE),
        )
        # Requests that have enough tokens stay as they are.
        accepted = torch.where(done < length, accepted, 0)
        for column in range(DRAFTS + 1):
            taken = (column < accepted).nonzero().squeeze(1)
            out[taken, done[taken] + column] = tokens[taken, column]
        moved = accepted > 0
        last = tokens.gather(1, (accepted - 1).clamp(min=0)[:, None]).squeeze(1)
        before = torch.where(moved, last, before)
        done = done + accepted
    return out[:, :length]


def expected(length: int = 3) -> Tensor:
    """Distribution of the first tokens when the target is sampled alone, `[V ** length]`."""
    target, _ = tables()
    found = []
    for tokens in product(range(VOCAB), repeat=length):
        chance, before = 1.0, VOCAB
        for token in tokens:
            chance *= float(target[before, token])
            before = token
        found.append(chance)
    return torch.tensor(found, dtype=torch.float64)


def test_the_output_is_distributed_as_the_target_alone() -> None:
    assert p_value(count(first_tokens(accept_by_rejection), VOCAB), expected()) > 1e-3


def too_willing(target: Tensor, drafter: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
    """Accepts with probability 1.02 p / q."""
    drafts, exists, accept_numbers, sample_numbers = rest
    return accept_by_rejection(
        target, drafter, drafts, exists, accept_numbers / 1.02, sample_numbers
    )


def from_the_target(target: Tensor, drafter: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
    """Replaces a rejected draft by a draw from p in place of the residual."""
    tokens, accepted = accept_by_rejection(target, drafter, *rest)
    column = accepted[:, None] - 1
    probs = target.gather(1, column[..., None].expand(-1, 1, VOCAB)).squeeze(1)
    drawn = sample(probs, rest[3].gather(1, column).squeeze(1))
    return tokens.scatter(1, column, drawn[:, None]), accepted


def by_equality(target: Tensor, drafter: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
    """Accepts a sampled draft where it is the target's most likely token."""
    drafts, exists = rest[:2]
    certain = (drafts == target[:, :-1].argmax(-1)) & exists
    return accept_by_rejection(target, drafter, drafts, exists, (~certain).double(), rest[3])


def same_numbers(target: Tensor, drafter: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
    """Draws the replacement with the number that decided the acceptance."""
    drafts, exists, accept_numbers, sample_numbers = rest
    reused = torch.cat((accept_numbers, sample_numbers[:, -1:]), 1)
    return accept_by_rejection(target, drafter, drafts, exists, accept_numbers, reused)


@pytest.mark.parametrize("biased", [too_willing, from_the_target, by_equality, same_numbers])
def test_a_biased_acceptance_is_found(biased: Accept) -> None:
    assert p_value(count(first_tokens(biased), VOCAB), expected()) < 1e-6


def test_a_shift_of_one_percent_is_seen() -> None:
    """The test has the power that its name claims: 1 % of one token's mass moved to another."""
    wanted = expected(1)
    shifted = wanted.clone()
    shifted[0] -= 0.01
    shifted[3] += 0.01
    numbers = uniform(torch.arange(ROWS), torch.tensor(0), SAMPLE)
    drawn = sample(shifted.expand(ROWS, -1), numbers)
    assert p_value(count(drawn[:, None], VOCAB), wanted) < 1e-6


def test_every_sequence_is_exact_by_enumeration() -> None:
    """Sums over both drafts and over a grid of all three numbers.

    All thresholds of these tables are multiples of 1/8 to accept and of 1/24 to draw, so that the
    middles of such cells integrate over the numbers without error.
    """
    first_p = torch.tensor([1, 3, 2, 2], dtype=torch.float64) / 8
    first_q = torch.tensor([4, 2, 1, 1], dtype=torch.float64) / 8
    # Each token turns the tables of the next: row `token`, or the last row for the first.
    target = torch.stack([first_p.roll(shift) for shift in (1, 2, 3, 4, 0)])
    drafter = torch.stack([first_q.roll(shift) for shift in (3, 1, 4, 2, 0)])
    one, two, try_one, try_two, draw = torch.cartesian_prod(
        *(torch.arange(size) for size in (4, 4, 8, 8, 24))
    ).unbind(1)
    before = torch.full_like(one, 4)
    weight = drafter[before, one] * drafter[one, two] / (8 * 8 * 24)
    middle = (draw + 0.5) / 24
    tokens, accepted = accept_by_rejection(
        target[torch.stack((before, one, two), 1)],
        drafter[torch.stack((before, one), 1)],
        torch.stack((one, two), 1),
        torch.ones(len(one), 2, dtype=torch.bool),
        (torch.stack((try_one, try_two), 1).double() + 0.5) / 8,
        torch.stack((middle, middle, middle), 1).double(),
    )
    assert set(accepted.tolist()) == {1, 2, 3}
    # What is not decided yet follows from the target.
    found = torch.zeros(4, 4, 4, dtype=torch.float64)
    for length in (1, 2, 3):
        rows = accepted == length
        chance = torch.zeros(4, 4, 4, dtype=torch.float64)
        head = tokens[rows, :length].T
        for tail in product(range(4), repeat=3 - length):
            rest = torch.tensor(tail, dtype=torch.long)[:, None].expand(-1, head.shape[1])
            whole = torch.cat((head, rest))
            follows = weight[rows].clone()
            for place in range(length, 3):
                follows *= target[whole[place - 1], whole[place]]
            chance.index_put_(tuple(whole), follows, accumulate=True)
        found += chance
    alone = target[4][:, None, None] * target[:4, :, None] * target[None, :4]
    torch.testing.assert_close(found, alone, rtol=0, atol=1e-12)


def row(drafts: list[int], exists: list[bool], accept: list[float]) -> tuple[list[int], int]:
    target = torch.tensor([[0.5, 0.5, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]]).double()[None]
    drafter = torch.tensor([[0.25, 0.25, 0.5, 0], [0, 0, 0.5, 0.5]]).double()[None]
    tokens, accepted = accept_by_rejection(
        target,
        drafter,
        torch.tensor([drafts]),
        torch.tensor([exists]),
        torch.tensor([accept]).double(),
        torch.full((1, 3), 0.1).double(),
    )
    return tokens[0].tolist(), int(accepted)


def test_all_drafts_accepted_bring_a_bonus_token_of_the_target() -> None:
    assert row([1, 2], [True, True], [0.9, 0.9]) == ([1, 2, 3], 3)


def test_the_first_rejected_draft_is_replaced_from_the_residual() -> None:
    tokens, accepted = row([2, 2], [True, True], [0.0, 0.0])
    assert (tokens[0], accepted) == (0, 1)
    tokens, accepted = row([0, 3], [True, True], [0.9, 0.0])
    assert (tokens[:2], accepted) == ([0, 2], 2)


def test_a_row_without_drafts_draws_from_the_target() -> None:
    tokens, accepted = row([2, 2], [False, False], [0.0, 0.0])
    assert (tokens[0], accepted) == (0, 1)
    tokens, accepted = row([0, 2], [True, False], [0.0, 0.0])
    assert (tokens[:2], accepted) == ([0, 2], 2)


@pytest.mark.parametrize("left", [[0.0] * 4, [0.1, 0.1, 0.1, 0.7], [float("nan")] * 4])
def test_what_an_earlier_request_left_in_a_slot_changes_no_draw(left: list[float]) -> None:
    target = torch.tensor([[0, 0.5, 0, 0.5], [1, 0, 0, 0]]).double()[None]
    tokens, accepted = accept_by_rejection(
        target,
        torch.tensor([[left]]),
        torch.tensor([[3]]),
        torch.zeros(1, 1, dtype=torch.bool),
        torch.zeros(1, 1).double(),
        torch.full((1, 2), 0.75).double(),
    )
    assert (int(tokens[0, 0]), int(accepted)) == (3, 1)


def test_it_traces_without_reading_a_value() -> None:
    """Meta tensors have no values: a host sync or a shape that depends on data would raise."""
    inputs = [
        torch.empty(5, 4, 9, device="meta"),
        torch.empty(5, 3, 9, device="meta"),
        torch.empty(5, 3, dtype=torch.long, device="meta"),
        torch.empty(5, 3, dtype=torch.bool, device="meta"),
        torch.empty(5, 3, dtype=torch.float64, device="meta"),
        torch.empty(5, 4, dtype=torch.float64, device="meta"),
    ]
    compiled = torch.compile(accept_by_rejection, fullgraph=True, backend="eager")
    for step in (accept_by_rejection, compiled):
        tokens, accepted = step(*inputs)
        assert (tokens.shape, accepted.shape) == ((5, 4), (5,))


def test_equal_distributions_accept_everything_and_a_rounded_residual_is_the_target() -> None:
    p = torch.tensor([0.1, 0.2, 0.7, 0]).double()
    for number in (0.0, 1 - 2.0**-53):
        tokens, accepted = accept_by_rejection(
            torch.stack((p, p))[None],
            p[None, None],
            torch.tensor([[1]]),
            torch.ones(1, 1, dtype=torch.bool),
            torch.tensor([[number]]).double(),
            torch.tensor([[0.5, 0.95]]).double(),
        )
        assert int(accepted) == 2
        assert tokens.tolist() == [[1, 2]]
    impossible = torch.tensor([0, 0.3, 0.7, 0]).double()  # a draft that q cannot have drawn
    tokens, accepted = accept_by_rejection(
        torch.stack((impossible, p))[None],
        impossible[None, None],
        torch.tensor([[0]]),
        torch.ones(1, 1, dtype=torch.bool),
        torch.zeros(1, 1).double(),
        torch.tensor([[0.5, 0.5]]).double(),
    )
    assert (int(accepted), int(tokens[0, 0])) == (1, 2)
