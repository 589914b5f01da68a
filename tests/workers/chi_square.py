"""Pearson's chi-square test on counts, and its p-value from torch alone."""

from __future__ import annotations

import torch
from torch import Tensor


def p_value(counts: Tensor, expected: Tensor) -> float:
    """Chance of counts at least as far from `expected` probabilities as these; cells flat."""
    wanted = expected.double().flatten() * counts.sum()
    counts = counts.double().flatten()
    possible = wanted > 0
    assert not counts[~possible].any(), "a token of probability 0 was drawn"
    statistic = ((counts - wanted)[possible] ** 2 / wanted[possible]).sum()
    freedom = possible.sum().double() - 1
    return float(torch.special.gammaincc(freedom / 2, statistic / 2))


def count(tokens: Tensor, vocab_size: int) -> Tensor:
    """How often each sequence of `tokens [N, L]` occurs, `[vocab_size ** L]`."""
    places = vocab_size ** torch.arange(tokens.shape[1] - 1, -1, -1)
    return torch.bincount((tokens * places).sum(1), minlength=vocab_size ** tokens.shape[1])
