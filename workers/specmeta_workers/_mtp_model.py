"""The MTP draft model: one causal layer behind the target, drafting token after token.

Cell p joins the target's hidden state at position p with the token at p + 1, and predicts the token
at p + 2 (DeepSeek-V3, arXiv 2412.19437). A draft feeds the layer its own output and the token just
drafted. Keys and values of a cell depend on nothing but its state and its token, so those of
committed tokens are made once, from the target's own states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._choosing import greedy
from ._dense import dense_shape
from ._layers import DraftLayer, RMSNorm, RotaryEmbedding

if TYPE_CHECKING:
    from specmeta import MTPDrafterConfig

    from ._choosing import Choose


class MTPDraftModel(nn.Module):
    """One multi-token-prediction layer, its parameters named as DeepSeek-V3 names them.

    Shape letters: B requests, W context columns, d hidden size, V vocabulary, K drafted tokens.

    Raises:
        ValueError: the configuration has several layers, or reads the target's state behind its
            final norm; neither is implemented.

    """

    def __init__(self, config: MTPDrafterConfig) -> None:
        super().__init__()
        _check_supported(config)
        self.config = config
        self.shape = dense_shape(config)
        width, eps = config.hidden_size, self.shape.rms_norm_eps
        self.embed_tokens = nn.Embedding(config.vocab_size, width)
        self.enorm = RMSNorm(width, eps)
        self.hnorm = RMSNorm(width, eps)
        self.eh_proj = nn.Linear(2 * width, width, bias=False)
        self.layer = DraftLayer.of(config)
        self.norm = RMSNorm(width, eps)
        self.rotary = RotaryEmbedding(self.shape.head_dim, self.shape.rope_theta)
        self.lm_head = nn.Linear(width, config.vocab_size, bias=False)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights, hence of every activation."""
        return self.eh_proj.weight.dtype

    def fuse(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        """Inputs `[..., d]` of cells: states `hidden [..., d]`, the tokens behind them `[...]`."""
        embedded = self.enorm(self.embed_tokens(tokens))
        out: Tensor = self.eh_proj(torch.cat((embedded, self.hnorm(hidden)), -1))
        return out

    def context_kv(self, tokens: Tensor, hidden: Tensor, positions: Tensor) -> Tensor:
        """Keys and values of committed cells, once for all later drafts.

        `tokens [N]`, `hidden [N, d]`, absolute `positions [N]` of the states to
        `[N, 1, 2, kv_heads, head_dim]`.
        """
        layer = self.layer
        phases = self.rotary(positions, hidden.dtype)
        pair = layer.self_attn.keys_values(layer.input_layernorm(self.fuse(tokens, hidden)), phases)
        return torch.stack(pair, 1)[:, None]

    def draft(
        self,
        hidden: Tensor,
        anchor_tokens: Tensor,
        positions: Tensor,
        context_kv: Tensor,
        context_mask: Tensor,
        num_drafts: int,
        choose: Choose = greedy,
    ) -> Tensor:
        """Draft tokens `[B, K]`, each from a forward of its own.

        `hidden [B, d]` is the target's state at `positions [B]`, the last committed token's;
        `anchor_tokens [B]` follow it. `context_kv [B, 1, W, 2, kv_heads, head_dim]` and
        `context_mask [B, W]` (True: the column may be read) are of the cells before.
        """
        window = context_mask.shape[1]
        kv = F.pad(context_kv[:, 0].permute(2, 0, 3, 1, 4), (0, 0, 0, num_drafts))
        keys, values = kv[0], kv[1]
        bias = torch.zeros_like(context_mask, dtype=hidden.dtype)
        bias = bias.masked_fill(context_mask.logical_not(), float("-inf"))
        bias = F.pad(bias, (0, num_drafts), value=float("-inf"))[:, None, None]
        token, tokens = anchor_tokens, []
        state = hidden
        for k in range(num_drafts):
            phases = self.rotary((positions + k)[:, None], hidden.dtype)
            bias[..., window + k] = 0
            cell = self.fuse(token, state)[:, None]
            state = self.layer.decode(cell, phases, keys, values, window + k, bias)[:, 0]
            token = choose(k, self.lm_head(self.norm(state)))
            tokens.append(token)
        return torch.stack(tokens, 1)


def _check_supported(config: MTPDrafterConfig) -> None:
    """Refuse what would run and be wrong."""
    if config.num_layers != 1:
        raise ValueError(
            f"num_layers: {config.num_layers}, but MTPDraftModel drafts with one layer in turn; "
            "use a checkpoint with one"
        )
    if config.target_hidden_state != "before_final_norm":
        raise ValueError(
            f"target_hidden_state: {config.target_hidden_state} is not implemented by "
            "MTPDraftModel; use a checkpoint that reads before_final_norm"
        )
