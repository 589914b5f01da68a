"""How a draft model picks the token of a slot from its logits."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Choose = Callable[[int, Tensor], Tensor]
"""`choose(k, logits [B, V])` to the tokens `[B]` of draft k, counted from 0."""


def greedy(_: int, logits: Tensor) -> Tensor:
    """The most likely token of each row."""
    return logits.argmax(-1)


def choose_each(logits: Tensor, choose: Choose) -> Tensor:
    """Tokens `[B, K]` of `logits [B, K, V]` that do not depend on each other."""
    if choose is greedy:
        return logits.argmax(-1)
    return torch.stack([choose(k, logits[:, k]) for k in range(logits.shape[1])], 1)
