"""A decoder layer of a drafter with a forward that is quick on a few CPU cores.

A draft slot reads the context before its anchor and slots of its own draft. The scores with the two
are two products, so no slot is ever compared with those of another anchor.

Shape letters: B sequences, S tokens of a sequence, A anchors of a sequence, I slots of an anchor in
this forward, J slots of an anchor that they read, G query heads a key head, D channels of a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from lean_qwen3 import apply_rotary, rms_norm
from torch import Tensor

from specmeta_workers._dense import dense_shape

if TYPE_CHECKING:
    from specmeta import DrafterConfig
    from specmeta_workers._layers import DraftLayer

Phases = tuple[Tensor, Tensor]
Pair = tuple[Tensor, Tensor]


def context_bias(ends: Tensor, length: int, window: int | None, dtype: torch.dtype) -> Tensor:
    """Bias `[B, 1, 1, A, 1, S]` that hides what is not in the `window` positions before `ends`."""
    position = torch.arange(length)
    unread = position >= ends[..., None]
    if window is not None:
        unread |= position < ends[..., None] - window
    bias = torch.zeros(unread.shape, dtype=dtype).masked_fill(unread, -1e9)
    return bias[:, None, None, :, None]


class LeanLayer:
    """The weights of a `DraftLayer`, cast and fused once for all forwards of a step."""

    def __init__(self, layer: DraftLayer, config: DrafterConfig, dtype: torch.dtype) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        shape = dense_shape(config)
        self._heads, self._kv_heads = shape.num_attention_heads, shape.num_key_value_heads
        self._head_dim, self._eps = shape.head_dim, shape.rms_norm_eps
        self._input_norm = layer.input_layernorm.weight.to(dtype)
        self._inner_norm = layer.post_attention_layernorm.weight.to(dtype)
        self._q_norm, self._k_norm = (
            norm.weight.to(dtype) for norm in (attention.q_norm, attention.k_norm)
        )
        self._kv = torch.cat((attention.k_proj.weight, attention.v_proj.weight)).to(dtype)
        self._qkv = torch.cat((attention.q_proj.weight.to(dtype), self._kv))
        self._out = attention.o_proj.weight.to(dtype)
        self._gate_up = torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight)).to(dtype)
        self._down = mlp.down_proj.weight.to(dtype)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(x, weight, self._eps)

    def input_norm(self, x: Tensor) -> Tensor:
        """What the projections of this layer read of `x [..., d]`."""
        return self._norm(x, self._input_norm)

    def context_kv(self, x: Tensor, phases: Phases) -> Pair:
        """Keys and values `[B, kv, S, D]` of `x [B, S, d]`; phases `[S, D]`."""
        kv = F.linear(x, self._kv).view(*x.shape[:2], -1, self._head_dim).transpose(1, 2)
        k, v = kv.chunk(2, 1)
        return apply_rotary(self._norm(k, self._k_norm), *phases), v

    def __call__(
        self, h: Tensor, phases: Phases, context: Pair, bias: Tensor, earlier: Pair | None = None
    ) -> tuple[Tensor, Pair]:
        """Output `[B, A, I, d]` of `h [B, A, I, d]`, and the keys and values that its slots read.

        Phases `[B, 1, A * I, D]`; `context` of `context_kv` and its `bias` of `context_bias`;
        `earlier [B, kv, A, J - I, D]` are the keys and values of slots of former forwards. Every
        slot reads those and all I of its own anchor.
        """
        batch, count, slots, _ = h.shape
        heads, kv_heads, head_dim = self._heads, self._kv_heads, self._head_dim
        qkv = F.linear(self.input_norm(h), self._qkv)
        qkv = qkv.view(batch, count * slots, -1, head_dim).transpose(1, 2)
        q, k, v = torch.split(qkv, [heads, kv_heads, kv_heads], 1)
        q = apply_rotary(self._norm(q, self._q_norm), *phases)
        k = apply_rotary(self._norm(k, self._k_norm), *phases)
        q = q.reshape(batch, kv_heads, -1, count, slots, head_dim) * head_dim**-0.5
        k, v = (x.reshape(batch, kv_heads, count, slots, head_dim) for x in (k, v))
        if earlier is not None:
            k, v = torch.cat((earlier[0], k), 3), torch.cat((earlier[1], v), 3)
        mixed = _attend(q, context, bias, (k, v))
        mixed = mixed.permute(0, 3, 4, 1, 2, 5).reshape(batch, count, slots, -1)
        h = h + F.linear(mixed, self._out)
        gate, up = F.linear(self._norm(h, self._inner_norm), self._gate_up).chunk(2, -1)
        return h + F.linear(F.silu(gate) * up, self._down), (k, v)


def _attend(q: Tensor, context: Pair, bias: Tensor, own: Pair) -> Tensor:
    """Attend from `q [B, kv, G, A, I, D]` to the context and to `own [B, kv, A, J, D]`."""
    context_k, context_v = context
    own_k, own_v = own
    length = context_k.shape[2]
    flat = q.flatten(2, 4)
    far = (flat @ context_k.transpose(-1, -2)).view(*q.shape[:-1], length) + bias
    near = torch.einsum("bkgaid,bkajd->bkgaij", q, own_k)
    weights = torch.cat((far, near), -1).softmax(-1)
    far, near = torch.split(weights, [length, own_k.shape[3]], -1)
    mixed = (far.reshape(*flat.shape[:-1], length) @ context_v).view_as(q)
    return mixed + torch.einsum("bkgaij,bkajd->bkgaid", near, own_v)
