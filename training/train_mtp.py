"""Train the bundled MTP drafter on the target's own text and hidden states.

Trained as it drafts: one layer is unrolled over the drafts of an anchor, each reading the output
of the one before, and gradients flow through all of them. The loss is the cross-entropy of the
drafts, weighted by `exp(-(k - 1) / 4)`.

    python training/train_mtp.py --cache training/cache

Resumable: it saves a checkpoint every `--save-every` steps and goes on from the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.nn.functional as F
from drafting import DRAFTS, Batch, cross_entropy_loss, matched_length, train_drafter
from lean_drafters import LeanMTP
from torch import Tensor

from specmeta import MTPDrafterConfig
from specmeta_workers import MTPDraftModel

if TYPE_CHECKING:
    from collections.abc import Callable


def drafter_config(vocab_size: int) -> MTPDrafterConfig:
    """The architecture of the bundled drafter: 1.3 M parameters of its own."""
    return MTPDrafterConfig(
        hidden_size=256,
        num_layers=1,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=1280,
        vocab_size=vocab_size,
        draft_vocab_size=vocab_size,
        attention_kind="grouped_query",
        sliding_window=None,
        target_hidden_state="before_final_norm",
        rms_norm_eps=1e-6,
        rope_theta=10000.0,
        max_position_embeddings=1024,
    )


def make_model(vocab_size: int) -> MTPDraftModel:
    """A fresh drafter."""
    return MTPDraftModel(drafter_config(vocab_size))


def body(model: MTPDraftModel) -> list[Tensor]:
    """The matrices of the body."""
    return [model.eh_proj.weight, *(p for p in model.layer.parameters() if p.ndim == 2)]


def make_forward(
    model: MTPDraftModel, length: int, head: Tensor
) -> Callable[[Batch], tuple[Tensor, Tensor]]:
    """Batch to loss and matched length."""
    lean = LeanMTP(model, length)

    def forward(batch: Batch) -> tuple[Tensor, Tensor]:
        # The last captured layer is the target's last; behind it only the final norm is kept.
        hidden = lean(batch.tokens, batch.states[:, :, -2], batch.anchors, DRAFTS)
        logits = F.linear(hidden, head).float()
        matched = matched_length(logits, batch.target_logits(head))
        return cross_entropy_loss(logits, batch.labels), matched

    return forward


def main() -> None:
    """Parse the options and train."""
    train_drafter(__doc__, "mtp.pt", make_model, body, make_forward)


if __name__ == "__main__":
    main()
