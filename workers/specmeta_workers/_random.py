"""Random numbers that depend on the request, the position and the purpose, and on nothing else.

A number is a hash of (seed, absolute position of the token, purpose). So a request draws the same
ones at any batch size, in any row and however its steps are cut. Each position of a request is
decided once, so each number decides at most one token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

DRAFT = 0
"""Draw the draft of a position."""
ACCEPT = 1
"""Accept the draft of a position, or reject it."""
SAMPLE = 2
"""Draw the token of a position without a draft, or in place of a rejected one."""

_PURPOSES = 4


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


# The increment and the multipliers of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014; its finalizer
# is variant 13 of Stafford's mixers).
_GOLDEN = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Logical shift to the right: that of a signed tensor is arithmetic."""
    shifted: Tensor = (x >> bits) & (2 ** (64 - bits) - 1)
    return shifted


def _mixed(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 30)) * _FIRST
    x = (x ^ _shifted(x, 27)) * _SECOND
    return x ^ _shifted(x, 31)


def uniform(seeds: Tensor, positions: Tensor, purpose: int) -> Tensor:
    """Numbers in [0, 1), float64, of the broadcast shape of int64 `seeds` and `positions`.

    Output `4 * position + purpose` of the SplitMix64 generator that starts from the hashed seed.
    """
    # Seed and counter must not be interchangeable: seeds are as small as positions are.
    start = _mixed(seeds + _GOLDEN)
    state = _mixed(start + (positions * _PURPOSES + purpose + 1) * _GOLDEN)
    return _shifted(state, 11).double() * 2.0**-53
