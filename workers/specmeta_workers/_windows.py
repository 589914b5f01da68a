"""Rolling windows of context keys and values, one for each sequence slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence


class ContextWindows:
    """Slot-indexed state of a block drafter, allocated once and never moved.

    Row `num_slots` is the scratch row of padding. The token at absolute position p sits in frame
    p + 1, column `(p + 1) % window`. A slot whose next position is `start` and whose last `valid`
    tokens were written may read column c iff `(start - c) mod window < valid`: exactly the frames
    `start - valid + 1 ... start`. All rows start, and are reset to, zeros, because a masked column
    still enters the attention as 0 times its value.

    Args:
        num_slots: the engine's sequence slots, never a batch size.
        num_stages: drafter layers.
        window: columns.
        num_kv_heads, head_dim: shape of a key.
        dtype, device: of the keys and values.

    """

    def __init__(
        self,
        *,
        num_slots: int,
        num_stages: int,
        window: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        rows = num_slots + 1
        self.num_slots = num_slots
        self.scratch_slot = num_slots
        self.window = window
        # Stored so that the gathered keys of a stage are one dense [B, heads, window, head_dim].
        self._storage = torch.zeros(
            (num_stages, 2, rows, num_kv_heads, window, head_dim), dtype=dtype, device=device
        )
        self.kv = self._storage.permute(2, 0, 4, 1, 3, 5)
        """Keys, values `[num_slots + 1, num_stages, window, 2, kv_heads, head_dim]`; a view."""
        self.context_lens = torch.zeros(rows, dtype=torch.long, device=device)
        """Next position `[num_slots + 1]`: tokens committed since position 0."""
        self.valid_lens = torch.zeros(rows, dtype=torch.long, device=device)
        """Readable columns `[num_slots + 1]`, 0 to window."""
        self.initialized = torch.zeros(rows, dtype=torch.bool, device=device)
        """Whether the position of a slot is known `[num_slots + 1]`."""
        self._columns = torch.arange(window, device=device)

    def reset(self, slots: Sequence[int]) -> None:
        """Forget everything of these rows."""
        for slot in slots:
            self._storage[:, :, slot].zero_()
            for buffer in (self.context_lens, self.valid_lens, self.initialized):
                buffer[slot].zero_()

    @property
    def device(self) -> torch.device:
        """Where the buffers live, as they report it: "cuda" becomes "cuda:0"."""
        return self.context_lens.device

    def write(self, slots: Tensor, positions: Tensor, kv: Tensor) -> None:
        """Put tokens at their columns.

        `slots [N]`, `positions [N]`, `kv [N, num_stages, 2, kv_heads, head_dim]`. Two tokens of one
        call may share a column only where they are the same token.
        """
        self.kv[slots, :, (positions + 1) % self.window] = kv

    def advance(self, slots: Tensor, starts: Tensor, counts: Tensor) -> None:
        """Move rows to their next positions `starts [N]`, after `counts [N]` more tokens."""
        valid = self.valid_lens.index_select(0, slots) + counts
        self.valid_lens.index_copy_(0, slots, valid.clamp_(max=self.window))
        self.context_lens.index_copy_(0, slots, starts)

    def read(self, slots: Tensor) -> Tensor:
        """A copy of these rows `[B, num_stages, window, 2, kv_heads, head_dim]`."""
        return self._storage.index_select(2, slots).permute(2, 0, 4, 1, 3, 5)

    def readable(self, starts: Tensor, valid: Tensor) -> Tensor:
        """Columns `[B, window]` that rows with these next positions and valid counts may read."""
        return (starts[:, None] - self._columns) % self.window < valid[:, None]


class StateWindows(ContextWindows):
    """Windows of the cells of an MTP layer, and the last target state of each slot.

    The cell at position p needs the token at p + 1. So the state of a slot's last token waits in
    `hidden` until its successor is known, in a later chunk or step.
    """

    def __init__(
        self,
        *,
        num_slots: int,
        num_stages: int,
        window: int,
        num_kv_heads: int,
        head_dim: int,
        hidden_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(
            num_slots=num_slots,
            num_stages=num_stages,
            window=window,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            dtype=dtype,
            device=device,
        )
        self.hidden = torch.zeros((num_slots + 1, hidden_size), dtype=dtype, device=device)
        """State of the last committed token `[num_slots + 1, hidden_size]`."""

    def reset(self, slots: Sequence[int]) -> None:
        """Forget everything of these rows."""
        super().reset(slots)
        for slot in slots:
            self.hidden[slot].zero_()
