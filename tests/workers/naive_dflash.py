"""DFlash written down once more, slowly, in float64: the block of `naive_dspark`, heads apart.

A slot's logits are the head's of its hidden state and nothing else (arXiv 2602.06036). Slot k fills
position `anchor + k`, so the first draft is slot 1's; only where the checkpoint samples from the
anchor does slot k predict `anchor + k + 1`, and the first draft is slot 0's.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tests.workers.naive_dspark import block_hidden


def draft(
    raw: dict[str, Any],
    weights: dict[str, Tensor],
    states: Tensor,
    anchor: int,
    *,
    sample_from_anchor: bool,
) -> list[Tensor]:
    """Logits `[V]` of every draft that a block yields, from all committed states `[n, m * d]`.

    The anchor is the token behind them, at position n.
    """
    hidden = block_hidden(raw, weights, states, anchor, states.shape[0])
    logits: list[Tensor] = []
    for slot in range(raw["block_size"]):
        predicts = slot + 1 if sample_from_anchor else slot
        if predicts > 0:
            logits.append(weights["lm_head.weight"] @ hidden[slot])
    return logits
