"""Training forwards over the parameters of the draft models, for sequences of one length.

They give the numbers of the forwards that serve, for many anchors a sequence at once, with
activations in bfloat16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from lean_layer import LeanLayer, context_bias
from lean_qwen3 import rms_norm, rotary_tables
from torch import Tensor

if TYPE_CHECKING:
    from specmeta_workers import DFlashDraftModel, DSparkDraftModel, MTPDraftModel
    from specmeta_workers._layers import DraftLayer


class LeanBlock:
    """The block of a DSpark or DFlash drafter."""

    def __init__(
        self,
        model: DSparkDraftModel | DFlashDraftModel,
        length: int,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        self.model, self.dtype, self.config = model, dtype, model.config
        size = length + model.config.block_size
        self.cos, self.sin = rotary_tables(
            size, model.shape.head_dim, model.shape.rope_theta, dtype
        )

    def __call__(self, tokens: Tensor, captured: Tensor, anchors: Tensor) -> Tensor:
        """`tokens [B, S]`, `captured [B, S, m d]`, `anchors [B, A]` to hidden `[B, A, block, d]`.

        The captured state of an anchor's own position is not read, as in serving.
        """
        config, model, dtype = self.config, self.model, self.dtype
        length = tokens.shape[1]
        context = F.linear(captured.to(dtype), model.fc.weight.to(dtype))
        context = rms_norm(context, model.hidden_norm.weight.to(dtype), model.shape.rms_norm_eps)
        bias = context_bias(anchors, length, config.sliding_window, dtype)
        slots = anchors[..., None] + torch.arange(config.block_size)
        phases = (self.cos[slots].flatten(1, 2)[:, None], self.sin[slots].flatten(1, 2)[:, None])
        ids = torch.full_like(slots, config.mask_token_id)
        ids[..., 0] = tokens.gather(1, anchors)
        h = model.embed_tokens.weight.to(dtype)[ids]
        for served in model.layers:
            layer = LeanLayer(cast("DraftLayer", served), config, dtype)
            kv = layer.context_kv(context, (self.cos[:length], self.sin[:length]))
            h, _ = layer(h, phases, kv, bias)
        return rms_norm(h, model.norm.weight.to(dtype), model.shape.rms_norm_eps)


class LeanMTP:
    """The draft of an MTP drafter when its tokens are known (teacher forcing)."""

    def __init__(
        self, model: MTPDraftModel, length: int, dtype: torch.dtype = torch.bfloat16
    ) -> None:
        self.model, self.dtype, self.config = model, dtype, model.config
        self.cos, self.sin = rotary_tables(
            length, model.shape.head_dim, model.shape.rope_theta, dtype
        )

    def __call__(self, tokens: Tensor, states: Tensor, anchors: Tensor, num_drafts: int) -> Tensor:
        """`tokens [B, S]`, `states [B, S, d]`, `anchors [B, A]` to hidden `[B, A, K, d]`.

        K = `num_drafts`. Draft k's cell is at `anchor - 1 + k`, is given the token at `anchor + k`
        and predicts the next. The first one reads the target's state, each later one the output of
        the one before, as in serving; context cells read the target's states. `anchors` are 1 to
        `S - K`.
        """
        config, model, dtype = self.config, self.model, self.dtype
        length, eps = tokens.shape[1], model.shape.rms_norm_eps
        eh_token, eh_state = model.eh_proj.weight.to(dtype).chunk(2, 1)
        state_norm = model.hnorm.weight.to(dtype)
        embedding = model.embed_tokens.weight.to(dtype)
        # One row a vocabulary entry: half of every cell's projection is looked up.
        table = F.linear(rms_norm(embedding, model.enorm.weight.to(dtype), eps), eh_token)

        def fuse(ids: Tensor, state: Tensor) -> Tensor:
            return F.embedding(ids, table) + F.linear(rms_norm(state, state_norm, eps), eh_state)

        layer = LeanLayer(model.layer, config, dtype)
        states = states.to(dtype)
        # The last cell has no token behind it; it lies behind every anchor, so none reads it.
        cells = layer.input_norm(fuse(tokens.roll(-1, 1), states))
        context = layer.context_kv(cells, (self.cos[:length], self.sin[:length]))
        bias = context_bias(anchors - 1, length, config.sliding_window, dtype)
        rows = torch.arange(len(tokens))[:, None]
        h, own, out = states[rows, anchors - 1][:, :, None], None, []
        for k in range(num_drafts):
            at = anchors - 1 + k
            phases = (self.cos[at][:, None], self.sin[at][:, None])
            cell = fuse(tokens[rows, at + 1][..., None], h)
            h, own = layer(cell, phases, context, bias, own)
            out.append(h)
        return rms_norm(torch.cat(out, 2), model.norm.weight.to(dtype), eps)
