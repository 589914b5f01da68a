"""The distributions that pending drafts were drawn from, one row a sequence slot."""

from __future__ import annotations

import torch
from torch import Tensor


class DraftProbabilities:
    """Slot-indexed draft probabilities, allocated once and never moved.

    Row `num_slots` is the scratch row of padding. Indexed by slot and not by row of the batch: a
    request that is absent for a step, or in another row of the next one, keeps its own.

    Args:
        num_slots: the engine's sequence slots, never a batch size.
        max_draft_len: drafts of a row.
        vocab_size: tokens of a distribution.
        device: where the buffer lives.

    """

    def __init__(
        self, *, num_slots: int, max_draft_len: int, vocab_size: int, device: torch.device
    ) -> None:
        shape = (num_slots + 1, max_draft_len, vocab_size)
        self.probs = torch.zeros(shape, dtype=torch.float32, device=device)
        """`[num_slots + 1, max_draft_len, vocab_size]`."""

    def write(self, slots: Tensor, draft: int, probs: Tensor) -> None:
        """Keep the distributions `probs [B, V]` of draft `draft` of the rows in `slots [B]`."""
        self.probs[slots, draft] = probs.to(self.probs.dtype)

    def read(self, slots: Tensor) -> Tensor:
        """Those of `slots [B]`, `[B, max_draft_len, vocab_size]`."""
        return self.probs.index_select(0, slots)
