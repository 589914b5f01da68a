"""Train the bundled DSpark drafter on the target's own text and hidden states.

The loss is the published one (DSpark, arXiv 2607.05147): per slot k of a block,
`0.1 CE + 0.9 |p_d - p_t|_1 + BCE(c, 1 - |p_d - p_t|_1 / 2)`, weighted by `exp(-(k - 1) / 4)`.

    python training/train_dspark.py --cache training/cache

Resumable: it saves a checkpoint every `--save-every` steps and goes on from the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from drafting import (
    DRAFTS,
    MASK_TOKEN_ID,
    TARGET_LAYERS,
    Batch,
    matched_length,
    slot_mean,
    train_drafter,
)
from lean_drafters import LeanBlock
from torch import Tensor

from specmeta import DSparkDrafterConfig
from specmeta_workers import DSparkDraftModel

if TYPE_CHECKING:
    from collections.abc import Callable


def drafter_config(vocab_size: int) -> DSparkDrafterConfig:
    """The architecture of the bundled drafter: 1.4 M parameters of its own."""
    return DSparkDrafterConfig(
        hidden_size=256,
        num_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=384,
        vocab_size=vocab_size,
        draft_vocab_size=vocab_size,
        attention_kind="grouped_query",
        block_size=DRAFTS,
        mask_token_id=MASK_TOKEN_ID,
        target_hidden_size=256,
        target_layer_ids=TARGET_LAYERS,
        layer_id_convention="output_of_layer",
        anchor_convention="anchor_first",
        window_causality="non_causal",
        sliding_window=128,
        markov_rank=128,
        markov_head_type="rnn",
        enable_confidence_head=True,
        confidence_head_with_markov=True,
        rms_norm_eps=1e-6,
        rope_theta=10000.0,
        max_position_embeddings=1024,
    )


def block_loss(logits: Tensor, confidence: Tensor, target_logits: Tensor, labels: Tensor) -> Tensor:
    """The published loss.

    `logits`, `target_logits` `[B, A, block, V]`, `confidence`, `labels` `[B, A, block]`.
    """
    drafter, target = logits.softmax(-1), target_logits.softmax(-1)
    distance = (drafter - target).abs().sum(-1)
    agreement = (1 - distance / 2).detach()
    cross = F.cross_entropy(logits.flatten(0, 2), labels.flatten(), reduction="none")
    judged = F.binary_cross_entropy_with_logits(confidence, agreement, reduction="none")
    return slot_mean(0.1 * cross.view_as(distance) + 0.9 * distance + judged)


def make_model(vocab_size: int) -> DSparkDraftModel:
    """A fresh drafter."""
    return DSparkDraftModel(drafter_config(vocab_size))


def body(model: DSparkDraftModel) -> list[Tensor]:
    """The matrices of the body; the heads and norms are left to AdamW."""
    return [model.fc.weight, *(p for p in model.layers.parameters() if p.ndim == 2)]


def make_forward(
    model: DSparkDraftModel, length: int, head: Tensor
) -> Callable[[Batch], tuple[Tensor, Tensor]]:
    """Batch to loss and matched length."""
    lean = LeanBlock(model, length)

    def forward(batch: Batch) -> tuple[Tensor, Tensor]:
        hidden = lean(batch.tokens, batch.states[:, :, :-1].flatten(2), batch.anchors)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, confidence = model.head_logits(hidden, batch.previous)
        assert confidence is not None  # the configuration has the head
        logits, target_logits = logits.float(), batch.target_logits(head)
        loss = block_loss(logits, confidence.float(), target_logits, batch.labels)
        return loss, matched_length(logits, target_logits)

    return forward


def main() -> None:
    """Parse the options and train."""
    train_drafter(__doc__, "dspark.pt", make_model, body, make_forward)


if __name__ == "__main__":
    main()
