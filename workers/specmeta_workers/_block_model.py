"""The backbone that the block drafters share, in plain torch.

A block of `block_size` slots, the anchor token and then mask tokens, attends to the projected
hidden states of the target's committed tokens and to itself; one forward gives the hidden states of
every slot (DFlash, arXiv 2602.06036; DSpark, arXiv 2607.05147). Slot i sits at position
`anchor + i`, a context token at its own position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._dense import dense_shape
from ._layers import DraftLayer, RMSNorm, RotaryEmbedding

if TYPE_CHECKING:
    from specmeta import DFlashDrafterConfig, DSparkDrafterConfig


class BlockDraftModel(nn.Module):
    """Parameters and forwards of a dense block drafter, named as published checkpoints name them.

    Shape letters: B requests, S block slots, W context columns, L drafter layers, d hidden size,
    m captured target layers, t their width (d in most drafters), V vocabulary, K drafted tokens.

    Raises:
        ValueError: the configuration asks for a causal window, which is not implemented, or leaves
            out sizes of the layers.

    """

    def __init__(self, config: DSparkDrafterConfig | DFlashDrafterConfig) -> None:
        super().__init__()
        if config.window_causality != "non_causal":
            raise ValueError(
                f"window_causality: {config.window_causality} is not implemented by "
                f"{type(self).__name__}; use a checkpoint whose window is non_causal"
            )
        self.shape = dense_shape(config)
        width, eps = config.hidden_size, self.shape.rms_norm_eps
        self._block_size, self._mask_token_id = config.block_size, config.mask_token_id
        # The slot that yields the first draft.
        self.first_slot = config.block_size - config.max_block_drafts
        self.embed_tokens = nn.Embedding(config.vocab_size, width)
        planes = len(config.target_layer_ids) * config.target_hidden_size
        self.fc = nn.Linear(planes, width, bias=False)
        self.hidden_norm = RMSNorm(width, eps)
        self.layers = nn.ModuleList(DraftLayer.of(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(width, eps)
        self.rotary = RotaryEmbedding(self.shape.head_dim, self.shape.rope_theta)
        self.lm_head = nn.Linear(width, config.vocab_size, bias=False)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights, hence of every activation."""
        return self.fc.weight.dtype

    def project_context(self, captured: Tensor) -> Tensor:
        """`hidden_norm(fc(captured))`: captured target states `[*, m * t]` to `[*, d]`."""
        out: Tensor = self.hidden_norm(self.fc(captured))
        return out

    def context_kv(self, context: Tensor, positions: Tensor) -> Tensor:
        """Keys and values of committed tokens, once for all later drafts.

        `context [N, d]` from `project_context`, absolute `positions [N]` to
        `[N, L, 2, kv_heads, head_dim]`.
        """
        phases = self.rotary(positions, context.dtype)
        pairs: list[Tensor] = []
        for layer in self.layers:
            assert isinstance(layer, DraftLayer)
            pairs.extend(layer.self_attn.keys_values(context, phases))
        stacked = torch.stack(pairs, 1)
        return stacked.view(-1, len(self.layers), 2, *stacked.shape[2:])

    def block(
        self,
        anchor_tokens: Tensor,
        anchor_positions: Tensor,
        context_kv: Tensor,
        context_mask: Tensor,
        block_size: int | None = None,
    ) -> Tensor:
        """Hidden states `[B, block_size, d]` of one block a request, after the final norm.

        `block_size` is the deployment's at run time; None is the checkpoint's.

        `anchor_tokens [B]`, `anchor_positions [B]`, `context_kv [B, L, W, 2, kv_heads, head_dim]`,
        `context_mask [B, W]` (True: the column may be read). Every slot reads the same columns and
        the whole block.
        """
        size = self._block_size if block_size is None else block_size
        tokens = anchor_tokens.new_full((anchor_tokens.shape[0], size), self._mask_token_id)
        tokens[:, 0] = anchor_tokens
        offsets = torch.arange(size, device=anchor_positions.device)
        mask = F.pad(context_mask, (0, size), value=True)[:, None, None]
        return self.forward_block(
            self.embed_tokens(tokens), anchor_positions[:, None] + offsets, context_kv, mask
        )

    def forward_block(
        self, noise_embeds: Tensor, positions: Tensor, context_kv: Tensor, attn_mask: Tensor
    ) -> Tensor:
        """The general form: any number of blocks a sequence, as training needs it.

        `noise_embeds [B, S, d]`, `positions [B, S]`, `context_kv [B, L, W, 2, kv_heads, head_dim]`
        and a boolean `attn_mask` that broadcasts to `[B, 1, S, W + S]` (True: may be read) to
        `[B, S, d]`. A slot must be allowed to read at least one key.
        """
        phases = self.rotary(positions, noise_embeds.dtype)
        # One additive bias for all layers: the attention kernel would convert the mask in each.
        bias = torch.zeros_like(attn_mask, dtype=noise_embeds.dtype)
        bias = bias.masked_fill(attn_mask.logical_not(), float("-inf"))
        hidden = noise_embeds
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, phases, context_kv[:, index], bias)
        out: Tensor = self.norm(hidden)
        return out
