"""The DFlash draft model: the block backbone alone, its slots drafted independently.

Two published layouts have the same tensors and shapes (DFlash, arXiv 2602.06036, and DeepSpec's
`dflash_*` checkpoints), so only the configuration's `anchor_convention` tells them apart: in
`mask_at_position` slot k fills its own position `anchor + k` and slot 0 yields nothing; in
`anchor_first` slot k predicts the token at `anchor + k + 1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._block_model import BlockDraftModel
from ._choosing import choose_each, greedy

if TYPE_CHECKING:
    from torch import Tensor

    from specmeta import DFlashDrafterConfig

    from ._choosing import Choose


class DFlashDraftModel(BlockDraftModel):
    """Drafter whose parameters carry the names of the published z-lab checkpoints.

    Raises:
        ValueError: the configuration asks for a causal window, which is not implemented.

    """

    def __init__(self, config: DFlashDrafterConfig) -> None:
        super().__init__(config)
        self.config = config

    def draft_logits(self, hidden: Tensor, num_drafts: int) -> Tensor:
        """Logits `[B, K, V]` of the K drafts of `hidden [B, block_size, d]`."""
        out: Tensor = self.lm_head(hidden[:, self.first_slot : self.first_slot + num_drafts])
        return out

    def draft(
        self,
        hidden: Tensor,
        anchor_tokens: Tensor,  # noqa: ARG002 - the signature of every block drafter
        num_drafts: int,
        choose: Choose = greedy,
    ) -> Tensor:
        """Draft tokens `[B, K]` of `hidden [B, block_size, d]`."""
        return choose_each(self.draft_logits(hidden, num_drafts), choose)
