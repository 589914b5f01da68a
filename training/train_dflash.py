"""Train the bundled DFlash drafter on the target's own text and hidden states.

The loss is the published one (DFlash, arXiv 2602.06036): the cross-entropy of the masked slots of
a block, weighted by `exp(-(k - 1) / 4)`. Slot k fills its own position, the anchor's plus k.

    python training/train_dflash.py --cache training/cache

Resumable: it saves a checkpoint every `--save-every` steps and goes on from the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.nn.functional as F
from drafting import (
    DRAFTS,
    MASK_TOKEN_ID,
    TARGET_LAYERS,
    Batch,
    cross_entropy_loss,
    matched_length,
    train_drafter,
)
from lean_drafters import LeanBlock
from torch import Tensor

from specmeta import DFlashDrafterConfig
from specmeta_workers import DFlashDraftModel

if TYPE_CHECKING:
    from collections.abc import Callable


def drafter_config(vocab_size: int) -> DFlashDrafterConfig:
    """The architecture of the bundled drafter: 1.4 M parameters of its own."""
    return DFlashDrafterConfig(
        hidden_size=256,
        num_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=576,
        vocab_size=vocab_size,
        draft_vocab_size=vocab_size,
        attention_kind="grouped_query",
        block_size=DRAFTS + 1,
        mask_token_id=MASK_TOKEN_ID,
        target_hidden_size=256,
        target_layer_ids=TARGET_LAYERS,
        layer_id_convention="output_of_layer",
        anchor_convention="mask_at_position",
        window_causality="non_causal",
        sliding_window=128,
        rms_norm_eps=1e-6,
        rope_theta=10000.0,
        max_position_embeddings=1024,
    )


def make_model(vocab_size: int) -> DFlashDraftModel:
    """A fresh drafter."""
    return DFlashDraftModel(drafter_config(vocab_size))


def body(model: DFlashDraftModel) -> list[Tensor]:
    """The matrices of the body."""
    return [model.fc.weight, *(p for p in model.layers.parameters() if p.ndim == 2)]


def make_forward(
    model: DFlashDraftModel, length: int, head: Tensor
) -> Callable[[Batch], tuple[Tensor, Tensor]]:
    """Batch to loss and matched length."""
    lean = LeanBlock(model, length)

    def forward(batch: Batch) -> tuple[Tensor, Tensor]:
        hidden = lean(batch.tokens, batch.states[:, :, :-1].flatten(2), batch.anchors)
        # Slot 0 holds the anchor itself and is not trained.
        logits = F.linear(hidden[:, :, 1:], head).float()
        matched = matched_length(logits, batch.target_logits(head))
        return cross_entropy_loss(logits, batch.labels), matched

    return forward


def main() -> None:
    """Parse the options and train."""
    train_drafter(__doc__, "dflash.pt", make_model, body, make_forward)


if __name__ == "__main__":
    main()
