"""The DSpark draft model of the dense Qwen3 kind: the block backbone and its sequential heads.

One forward gives the base logits of every slot; the Markov head then walks the slots and adds a
bias that depends on the token drafted just before (DSpark, arXiv 2607.05147). Slot i predicts the
token at `anchor + i + 1`; in the fill-in layout (`mask_at_position`) it fills its own position
`anchor + i`, and slot 0 yields nothing. There the token before slot 0 and before slot 1 is the
anchor, and the rnn head has read slot 0 when it comes to slot 1, as in training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ._block_model import BlockDraftModel
from ._choosing import choose_each, greedy
from ._heads import ConfidenceHead, MarkovHead, make_markov_head

if TYPE_CHECKING:
    from specmeta import DSparkDrafterConfig

    from ._choosing import Choose


class DSparkDraftModel(BlockDraftModel):
    """Drafter whose parameters carry the names of the published DeepSpec checkpoints.

    Raises:
        ValueError: the configuration asks for a causal window, which is not implemented, or leaves
            out sizes of the layers.

    """

    def __init__(self, config: DSparkDrafterConfig) -> None:
        super().__init__(config)
        self.config = config
        width = config.hidden_size
        self.markov_head: MarkovHead | None = None
        if config.markov_head_type is not None:
            self.markov_head = make_markov_head(
                config.markov_head_type, config.vocab_size, config.markov_rank, width
            )
        self.confidence_head: ConfidenceHead | None = None
        if config.enable_confidence_head:
            extra = config.markov_rank if config.confidence_head_with_markov else 0
            self.confidence_head = ConfidenceHead(width + extra)

    def draft(
        self, hidden: Tensor, anchor_tokens: Tensor, num_drafts: int, choose: Choose = greedy
    ) -> Tensor:
        """Draft tokens `[B, K]` of `hidden [B, block_size, d]`; what serving needs."""
        return self._walk(hidden, anchor_tokens, num_drafts, choose)[0]

    def confidence(self, hidden: Tensor, anchor_tokens: Tensor, tokens: Tensor) -> Tensor:
        """Chance `[B, K]` that each draft is accepted, given that those before it were.

        `hidden [B, block_size, d]`, `anchor_tokens [B]`, drafted `tokens [B, K]`.

        Raises:
            ValueError: the drafter has no confidence head.

        """
        previous = torch.cat((anchor_tokens[:, None], tokens[:, :-1]), 1)
        logits = self._confidence(self._yielding(hidden, tokens.shape[1]), previous)
        if logits is None:
            raise ValueError(
                "enable_confidence_head: this drafter has no confidence head; use one that has"
            )
        return torch.sigmoid(logits)

    def sample(
        self, hidden: Tensor, anchor_tokens: Tensor, num_drafts: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Draft greedily and return what the heads said.

        `hidden [B, block_size, d]` of `block`, `anchor_tokens [B]`, K = `num_drafts` to
        `(tokens [B, K], corrected logits [B, K, V], confidence logits [B, K] or None)`.
        """
        tokens, logits = self._walk(hidden, anchor_tokens, num_drafts, greedy)
        previous = torch.cat((anchor_tokens[:, None], tokens[:, :-1]), 1)
        return tokens, logits, self._confidence(self._yielding(hidden, num_drafts), previous)

    def head_logits(self, hidden: Tensor, previous_tokens: Tensor) -> tuple[Tensor, Tensor | None]:
        """Corrected and confidence logits when the tokens are known (teacher forcing).

        `hidden [..., block, d]`, `previous_tokens [..., block]`: the anchor (twice in the fill-in
        layout), then the labels but the last. Returns `[..., block, V]` and `[..., block]`, or None
        without the head.
        """
        logits: Tensor = self.lm_head(hidden)
        if self.markov_head is not None:
            logits = logits + self.markov_head.bias(previous_tokens, hidden)
        return logits, self._confidence(hidden, previous_tokens)

    def _yielding(self, hidden: Tensor, num_drafts: int) -> Tensor:
        """States `[B, K, d]` of the slots that yield drafts."""
        return hidden[:, self.first_slot : self.first_slot + num_drafts]

    def _walk(
        self, hidden: Tensor, anchor_tokens: Tensor, num_drafts: int, choose: Choose
    ) -> tuple[Tensor, Tensor]:
        slots = self._yielding(hidden, num_drafts)
        logits: Tensor = self.lm_head(slots)
        head = self.markov_head
        if head is None:
            return choose_each(logits, choose), logits
        state = head.state_behind(anchor_tokens, hidden[:, 0]) if self.first_slot else None
        return head.walk(logits, slots, anchor_tokens, choose, state)

    def _confidence(self, hidden: Tensor, previous_tokens: Tensor) -> Tensor | None:
        if self.confidence_head is None:
            return None
        features = hidden
        if self.config.confidence_head_with_markov:
            assert self.markov_head is not None
            features = torch.cat((hidden, self.markov_head.markov_w1(previous_tokens)), -1)
        out: Tensor = self.confidence_head(features)
        return out
