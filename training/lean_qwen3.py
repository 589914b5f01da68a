"""A training forward for a transformers Qwen3 model that is quick on a few CPU cores.

It computes what `Qwen3ForCausalLM` computes, from the same parameters, with activations in
bfloat16, fused projections and plain batched attention: the backward of the fused attention kernel
takes about half of a step on a CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM


def rotary_tables(
    length: int, head_dim: int, theta: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Cosine and sine tables `[length, head_dim]` of rotate-half rotary embedding."""
    inverse = theta ** -(torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(length).float(), inverse).repeat(1, 2)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the halves of the last axis of `x`."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class _RMSNorm(torch.autograd.Function):
    """RMS norm in few passes over memory; the composite backward is a third of a step."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        scale = torch.rsqrt(norm * norm / x.shape[-1] + eps).to(x.dtype)
        normed = x * scale
        ctx.save_for_backward(normed, weight, scale)
        return normed * weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        normed, weight, scale = ctx.saved_tensors
        width = grad.shape[-1]
        product = grad * normed
        ones = grad.new_ones(1, product.numel() // width)
        weight_grad = (ones @ product.reshape(-1, width)).view_as(weight)
        mean = (product @ weight.unsqueeze(-1)) / width
        x_grad = torch.addcmul(grad * weight, normed, mean, value=-1).mul_(scale)
        return x_grad, weight_grad, None


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm over the last axis; `weight` has the type of `x`."""
    out: Tensor = _RMSNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]  # as torch has it
    return out


class LeanQwen3:
    """Training forward over the parameters of `model`, for sequences of one fixed length."""

    def __init__(
        self, model: Qwen3ForCausalLM, length: int, dtype: torch.dtype = torch.bfloat16
    ) -> None:
        config: Any = model.config  # transformers types its sizes as optional
        self.model, self.dtype = model, dtype
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_dim: int = config.head_dim
        self.eps: float = config.rms_norm_eps
        theta = config.rope_parameters["rope_theta"]
        self.cos, self.sin = rotary_tables(length, self.head_dim, theta, dtype)
        causal = torch.full((length, length), -1e9).triu(1).to(dtype)
        self.bias = causal.repeat(self.heads // self.kv_heads, 1)[None]

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(x, weight.to(self.dtype), self.eps)

    def hidden_states(self, tokens: Tensor) -> list[Tensor]:
        """Outputs of the embedding and of every layer, then the final norm, `[B, S, hidden]`."""
        batch, length = tokens.shape
        groups = self.heads // self.kv_heads
        h = self.model.model.embed_tokens.weight.to(self.dtype)[tokens]
        states = [h]
        for layer in self.model.model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            projections = (attention.q_proj, attention.k_proj, attention.v_proj)
            weight = torch.cat([p.weight for p in projections]).to(self.dtype)
            qkv = F.linear(self._norm(h, layer.input_layernorm.weight), weight)
            qkv = qkv.view(batch, length, -1, self.head_dim).transpose(1, 2)
            q, k, v = torch.split(qkv, [self.heads, self.kv_heads, self.kv_heads], 1)
            q = apply_rotary(self._norm(q, attention.q_norm.weight), self.cos, self.sin)
            k = apply_rotary(self._norm(k, attention.k_norm.weight), self.cos, self.sin)
            q = q.reshape(batch * self.kv_heads, groups * length, self.head_dim)
            k = k.reshape(batch * self.kv_heads, length, self.head_dim)
            v = v.reshape(batch * self.kv_heads, length, self.head_dim)
            scores = torch.baddbmm(self.bias, q, k.transpose(1, 2), alpha=self.head_dim**-0.5)
            mixed = torch.bmm(scores.softmax(-1), v)
            mixed = mixed.view(batch, self.heads, length, self.head_dim).transpose(1, 2)
            mixed = mixed.reshape(batch, length, -1)
            h = h + F.linear(mixed, attention.o_proj.weight.to(self.dtype))
            inner = self._norm(h, layer.post_attention_layernorm.weight)
            weight = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).to(self.dtype)
            gate, up = F.linear(inner, weight).chunk(2, -1)
            h = h + F.linear(F.silu(gate) * up, mlp.down_proj.weight.to(self.dtype))
            states.append(h)
        states.append(self._norm(h, self.model.model.norm.weight))
        return states

    def logits(self, tokens: Tensor) -> Tensor:
        """Next-token logits `[B, S, vocab]` in float32."""
        last = self.hidden_states(tokens)[-1]
        return F.linear(last, self.model.lm_head.weight.to(self.dtype)).float()
