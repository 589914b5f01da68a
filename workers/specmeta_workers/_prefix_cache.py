"""Blocks of prompts that have been computed, for later prompts that begin with the same tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from specmeta import Deployment

    from ._target import TargetRunner


@attrs.frozen(eq=False)
class PrefixBlock:
    """What `block_size` tokens at their place in a sequence have left."""

    number: int
    """Never given twice, so that it stands for the block and all before it."""
    keys: Tensor
    """Target keys `[layers, kv_heads, block_size, head_dim]`."""
    values: Tensor
    """Target values, shaped as `keys`."""
    captured: Tensor
    """Captured states `[block_size, m * d]`."""


# The block before, None for the first of a sequence, and the tokens: compared by value, so two
# prefixes are one only where every token is the same.
_Key = tuple[int | None, tuple[int, ...]]


class PrefixCache:
    """The blocks that were used last, within a limit.

    A block's key holds its tokens and the block before it, so equal tokens behind different
    beginnings are different blocks. The least recently used goes first, and a block never before
    those that follow it.

    Args:
        block_size: tokens of a block; only whole blocks are kept.
        capacity_tokens: tokens to keep at most.

    Raises:
        ValueError: a size below 1, or a capacity below one block.

    """

    def __init__(self, block_size: int = 16, *, capacity_tokens: int) -> None:
        for name, size in (("block_size", block_size), ("capacity_tokens", capacity_tokens)):
            if type(size) is not int or size < 1:
                raise ValueError(f"{name}: {size!r} is not an int of at least 1; give tokens")
        if capacity_tokens < block_size:
            raise ValueError(
                f"capacity_tokens: {capacity_tokens} is below block_size {block_size}, so nothing "
                "would ever be kept; give room for at least one block"
            )
        self.block_size = block_size
        self.capacity_tokens = capacity_tokens
        self._blocks: dict[_Key, PrefixBlock] = {}  # the least recently used first
        self._next_number = 0
        self._owner: tuple[Deployment, TargetRunner] | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens that are kept now."""
        return len(self._blocks) * self.block_size

    def bind(self, deployment: Deployment, target: TargetRunner) -> None:
        """Say whose states the cache holds; they mean nothing to anybody else.

        Raises:
            ValueError: it is another's already.

        """
        if self._owner is None:
            self._owner = (deployment, target)
        known_deployment, known_target = self._owner
        if known_target is not target or known_deployment != deployment:
            what = "deployment" if known_target is target else "target"
            raise ValueError(
                f"prefix_cache: it holds prompts of another {what}; give each deployment and "
                "target a cache of its own"
            )

    def find(self, tokens: Sequence[int]) -> list[PrefixBlock]:
        """The longest kept beginning of a sequence, block by block; counts as a use of it."""
        keys, blocks = self._chain(tokens)
        self._touch(keys)
        return blocks

    def add(
        self, tokens: Sequence[int], keys: Tensor, values: Tensor, captured: Tensor, start: int
    ) -> None:
        """Keep the whole blocks of a sequence; counts as a use of those that are kept already.

        Args:
            tokens: the sequence.
            keys: its keys `[layers, kv_heads, len(tokens), head_dim]`; copied.
            values: its values, shaped as `keys`; copied.
            captured: captured states of its positions from `start` on; copied.
            start: position of the first of them. Blocks below it are not kept anew, nor, then,
                those behind them.

        """
        size = self.block_size
        chain, blocks = self._chain(tokens)
        self._touch(chain)
        for index in range(len(chain), len(tokens) // size):
            first, last = index * size, (index + 1) * size
            if first < start or not self._make_room(chain):
                break
            before = blocks[-1].number if blocks else None
            block = PrefixBlock(
                self._next_number,
                keys[:, :, first:last].clone(),
                values[:, :, first:last].clone(),
                captured[first - start : last - start].clone(),
            )
            self._next_number += 1
            key = (before, tuple(tokens[first:last]))
            self._blocks[key] = block
            chain.append(key)
            blocks.append(block)
        self._touch(chain)

    def _chain(self, tokens: Sequence[int]) -> tuple[list[_Key], list[PrefixBlock]]:
        keys: list[_Key] = []
        blocks: list[PrefixBlock] = []
        for first in range(0, len(tokens) - self.block_size + 1, self.block_size):
            before = blocks[-1].number if blocks else None
            key = (before, tuple(tokens[first : first + self.block_size]))
            block = self._blocks.get(key)
            if block is None:
                break
            keys.append(key)
            blocks.append(block)
        return keys, blocks

    def _touch(self, chain: list[_Key]) -> None:
        """Make a chain the most recent, its beginning last: so blocks outlive those behind them."""
        for key in reversed(chain):
            self._blocks[key] = self._blocks.pop(key)

    def _make_room(self, chain: list[_Key]) -> bool:
        """Drop the oldest block where there is no room; False where only this chain is left."""
        if (len(self._blocks) + 1) * self.block_size <= self.capacity_tokens:
            return True
        oldest = next(iter(self._blocks))
        if oldest in chain:
            return False
        del self._blocks[oldest]
        return True
