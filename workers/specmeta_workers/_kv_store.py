"""Key/value store of the target model behind the transformers cache interface, one row a slot.

The store is allocated once, `[layers, num_slots + 1, kv_heads, capacity, head_dim]` for the keys
and as much for the values. A forward writes its tokens in place at (slot, position), so rows of one
batch may have any mix of lengths, and rejecting drafts only moves a length: nothing is copied.

What lies in a row beyond its length is stale. Attention masks it, which is enough for any finite
number but not for NaN (0 * NaN is NaN), so `KVStore.open` clears the row when a slot changes hands.
After that a row holds zeros and what its own request wrote: no value crosses between requests.
"""

from __future__ import annotations

from typing import Any

import attrs
import torch
from torch import Tensor
from transformers import Cache

__all__ = ["KVStore", "KVView"]


@attrs.frozen(eq=False)
class KVView:
    """Where one forward writes and what it reads, for ``n`` rows of ``S`` tokens."""

    write_index: Tensor
    """`[n * kv_heads * S]` long: where each new (row, head, token) goes in the flattened
    `[slots, kv_heads, capacity]`."""
    slots: slice | Tensor
    """Rows of the store in the batch: a slice where the slots form a range (read as a view), else
    `[n]` long (read by a gather)."""
    length: int
    """Longest context of the batch after this forward, in tokens: how much of each row is read."""


class _SlotCache(Cache):
    """The store as transformers sees it: `update` writes, and returns what to attend to."""

    def __init__(self, store: KVStore) -> None:
        super().__init__(layers=[])
        self._head_dim = store.head_dim
        self._keys = list(store.keys)
        self._values = list(store.values)
        # Views, one a layer: index_copy_ on rows of head_dim is the cheapest scattered write.
        self._flat_keys = [layer.view(-1, store.head_dim) for layer in self._keys]
        self._flat_values = [layer.view(-1, store.head_dim) for layer in self._values]
        self._capacity = store.capacity
        self.view: KVView | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write `[n, kv_heads, S, head_dim]`; keys and values `[n, kv_heads, length, head_dim]`."""
        view = self._bound()
        head_dim = self._head_dim
        self._flat_keys[layer_idx].index_copy_(
            0, view.write_index, key_states.reshape(-1, head_dim)
        )
        self._flat_values[layer_idx].index_copy_(
            0, view.write_index, value_states.reshape(-1, head_dim)
        )
        keys = self._keys[layer_idx].narrow(2, 0, view.length)
        values = self._values[layer_idx].narrow(2, 0, view.length)
        if isinstance(view.slots, slice):
            return keys[view.slots], values[view.slots]
        return keys.index_select(0, view.slots), values.index_select(0, view.slots)

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002 (transformers' names)
        """Longest context of the batch, in tokens."""
        return self._bound().length

    def get_max_length(self, layer_idx: int | None = None) -> int:  # noqa: ARG002
        """Longest sequence that a row can hold, in tokens."""
        return self._capacity

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:  # noqa: ARG002
        """Keys that attention sees, and the position of the first."""
        return self._bound().length, 0

    def _bound(self) -> KVView:
        if self.view is None:
            raise RuntimeError(
                "the slot cache is used outside a forward of its TargetRunner; "
                "call TargetRunner.forward instead of the model"
            )
        return self.view


class KVStore:
    """Preallocated keys and values of `num_slots` sequences, and a scratch row for padding.

    `num_slots` is the engine's sequence-slot pool (never the batch size); row `num_slots` is the
    scratch row, where padding writes. `capacity` is the longest sequence in tokens.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_slots: int,
        num_kv_heads: int,
        head_dim: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> None:
        sizes = {
            "num_layers": num_layers,
            "num_slots": num_slots,
            "num_kv_heads": num_kv_heads,
            "head_dim": head_dim,
            "capacity": capacity,
        }
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name}: {size} is not a size; give at least 1")
        self.num_layers = num_layers
        self.num_slots = num_slots
        self.scratch_slot = num_slots
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.capacity = capacity
        shape = (num_layers, num_slots + 1, num_kv_heads, capacity, head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        # Length of each row in tokens; the scratch row stays at 0, so padding always starts there.
        self.lengths = [0] * (num_slots + 1)
        self.cache = _SlotCache(self)

    def open(self, slot: int) -> None:
        """Give the slot to a new sequence: length 0, every key and value zero.

        Raises:
            ValueError: the slot is outside the pool.
        """
        self._check_slot(slot)
        self.keys[:, slot].zero_()
        self.values[:, slot].zero_()
        self.lengths[slot] = 0

    def truncate(self, slot: int, length: int) -> None:
        """Keep the first `length` tokens of a row; the rest becomes stale. Nothing is copied.

        Raises:
            ValueError: the slot is outside the pool, or `length` is above the row's length.
        """
        self._check_slot(slot)
        if not 0 <= length <= self.lengths[slot]:
            raise ValueError(
                f"length: {length} is outside 0 to {self.lengths[slot]}, the tokens that slot "
                f"{slot} holds; a row grows through a forward or an install"
            )
        self.lengths[slot] = length

    def export(self, slot: int) -> tuple[Tensor, Tensor]:
        """Copies of a row's keys and values, `[layers, kv_heads, length, head_dim]` each.

        Raises:
            ValueError: the slot is outside the pool.
        """
        self._check_slot(slot)
        length = self.lengths[slot]
        return self.keys[:, slot, :, :length].clone(), self.values[:, slot, :, :length].clone()

    def install(self, slot: int, keys: Tensor, values: Tensor) -> None:
        """Open the slot and fill it with the keys and values of another store's `export`.

        Raises:
            ValueError: shape, dtype or length do not fit this store. Nothing is written then.
        """
        self._check_slot(slot)
        for name, given in (("keys", keys), ("values", values)):
            length = given.shape[2] if given.dim() == 4 else -1
            wanted = (self.num_layers, self.num_kv_heads, length, self.head_dim)
            if tuple(given.shape) != wanted or given.dtype != self.keys.dtype:
                raise ValueError(
                    f"{name}: {tuple(given.shape)} {given.dtype} does not fit a store of "
                    f"{self.num_layers} layers, {self.num_kv_heads} heads x {self.head_dim}, "
                    f"{self.keys.dtype}; run the same target model in the same precision"
                )
            if length > self.capacity:
                raise ValueError(
                    f"{name}: {length} tokens exceed the capacity of {self.capacity}; raise "
                    "max_seq_len of the receiving engine"
                )
        if keys.shape != values.shape:
            raise ValueError(f"values: {values.shape[2]} tokens, but keys hold {keys.shape[2]}")
        self.open(slot)
        self.keys[:, slot, :, : keys.shape[2]] = keys
        self.values[:, slot, :, : keys.shape[2]] = values
        self.lengths[slot] = keys.shape[2]

    def _check_slot(self, slot: int) -> None:
        if not 0 <= slot < self.num_slots:
            raise ValueError(
                f"slot: {slot} is outside the pool of {self.num_slots}; use a slot that the pool "
                "assigned"
            )
