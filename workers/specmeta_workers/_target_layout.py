"""Index tensors of a target forward: everything that stays the same while the batch does.

The rows of a step lie flat in metadata order. A forward runs them as at most two rectangular
groups, contexts and generation rows, because a prompt chunk is so much wider than a verification
row. What depends only on the rows (widths, slots) is built here once; per step only the start
positions are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._kv_store import KVStore

__all__ = ["RowGroup", "TargetRows"]


@attrs.frozen
class TargetRows:
    """The rows of a target forward, in metadata order: contexts, generation rows, padding."""

    num_contexts: int
    """How many rows, from the front, are prompt chunks."""
    seq_lens: tuple[int, ...]
    """Tokens of each row in this forward, padding rows included."""
    slots: tuple[int, ...]
    """Row of the KV store of each row; the scratch slot for padding."""

    def __attrs_post_init__(self) -> None:
        if len(self.seq_lens) != len(self.slots):
            raise ValueError(
                f"slots: {len(self.slots)} entries for {len(self.seq_lens)} seq_lens; give one "
                "slot a row"
            )
        if not self.seq_lens or min(self.seq_lens) < 1:
            raise ValueError(
                f"seq_lens: {self.seq_lens} must hold at least one row of at least 1 token"
            )
        if not 0 <= self.num_contexts <= len(self.seq_lens):
            raise ValueError(
                f"num_contexts: {self.num_contexts} is outside 0 to {len(self.seq_lens)}, the "
                "number of rows"
            )


@attrs.frozen(eq=False)
class RowGroup:
    """A run of rows padded to one width `S`; flat tokens `first_token` to `last_token`."""

    seq_lens: tuple[int, ...]
    slots: tuple[int, ...]
    width: int
    first_token: int
    last_token: int
    offsets: Tensor
    """`[n, S]`: token offset within its row; beyond the row's end, the last token again."""
    write_base: Tensor
    """`[n, kv_heads, S]`: where position 0 of the row and head lies in the flattened store; the
    scratch row for what pads the rectangle, so that it never lands in a live row."""
    gather: Tensor | None
    """`[n * S]`: group token of each rectangle cell; None where all rows are equally long."""
    real: Tensor | None
    """`[tokens]`: rectangle cell of each group token; None where all rows are equally long."""
    read_slots: slice | Tensor
    last_offsets: Tensor
    """Sorted distinct offsets of the rows' last tokens."""
    last_index: Tensor
    """`[n]`: index into `last_offsets` of each row."""

    @classmethod
    def build(
        cls, store: KVStore, seq_lens: Sequence[int], slots: Sequence[int], first_token: int
    ) -> RowGroup:
        """Index tensors for rows of these lengths in these slots of the store."""
        device = store.keys.device
        lengths = torch.tensor(seq_lens, device=device)
        width = max(seq_lens)
        offsets = torch.minimum(torch.arange(width, device=device)[None], lengths[:, None] - 1)
        inside = torch.arange(width, device=device)[None] < lengths[:, None]
        first_of_row = lengths.cumsum(0) - lengths
        ragged = min(seq_lens) != width
        heads = torch.arange(store.num_kv_heads, device=device)
        slot_of_cell = torch.where(
            inside, torch.tensor(slots, device=device)[:, None], store.scratch_slot
        )
        base = (slot_of_cell[:, None] * store.num_kv_heads + heads[None, :, None]) * store.capacity
        last_offsets, last_index = torch.unique(lengths - 1, return_inverse=True)
        consecutive = list(slots) == list(range(slots[0], slots[0] + len(slots)))
        return cls(
            seq_lens=tuple(seq_lens),
            slots=tuple(slots),
            width=width,
            first_token=first_token,
            last_token=first_token + sum(seq_lens),
            offsets=offsets,
            write_base=base,
            gather=(first_of_row[:, None] + offsets).reshape(-1) if ragged else None,
            real=inside.reshape(-1).nonzero().squeeze(1) if ragged else None,
            read_slots=(
                slice(slots[0], slots[0] + len(slots))
                if consecutive
                else torch.tensor(slots, device=device)
            ),
            last_offsets=last_offsets,
            last_index=last_index,
        )
