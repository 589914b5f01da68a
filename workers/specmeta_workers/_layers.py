"""Layers of a dense drafter: RMS norm, rotary embedding, injected attention, gated MLP.

The attention reads two kinds of keys. *Context* keys are projections of the target's captured
hidden states; they depend on nothing that the drafter computes, so they are made once for each
committed token and kept in a window. *Block* keys are projections of the drafter's own
activations and live for one draft only. Parameter names are those of the published DeepSpec
checkpoints. Every module works in float32, float64 and the half types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._dense import dense_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from specmeta import DrafterConfig


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis, scaled by a learned weight."""

    epsilon: Tensor

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps
        # Not on the default device: a loader builds the model on the meta device. In float64,
        # because the weights that the loader assigns may be, and no cast tells this module so.
        exact = torch.tensor(eps, dtype=torch.float64, device="cpu")
        self.register_buffer("epsilon", exact, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RMSNorm:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        # A cast would keep the digits of the narrowest type on the way.
        device = self.epsilon.device
        self.epsilon = torch.tensor(self.eps, dtype=self.weight.dtype, device=device)
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x [..., width]`."""
        if torch.is_grad_enabled() or x.dtype not in (torch.float32, torch.float64):
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        # The same in two thirds of the time on a CPU, where a draft is mostly the cost of small
        # operations. Half types need the float32 sum of the function above.
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = torch.addcmul(self.epsilon, norm, norm, value=1 / x.shape[-1]).rsqrt_()
        return (x * scale).mul_(self.weight)


class RotaryEmbedding(nn.Module):
    """Rotary phases in the half-rotation form: `x cos + rotate_half(x) sin`.

    The frequencies stay in float64 whatever the module is cast to. In bfloat16 they would be
    off by whole turns at position 1,000.
    """

    frequencies: Tensor

    def __init__(self, head_dim: int, theta: float) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.theta = theta
        self.register_buffer("frequencies", self._make(torch.device("cpu")), persistent=False)

    def _make(self, device: torch.device) -> Tensor:
        exponents = torch.arange(0, self.head_dim, 2, dtype=torch.float64, device=device)
        frequencies = self.theta ** -(exponents / self.head_dim)
        return torch.cat((-frequencies, frequencies))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RotaryEmbedding:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.frequencies = self._make(self.frequencies.device)
        return self

    def forward(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines, each `[..., 1, head_dim]`, for `positions [...]`.

        The middle axis broadcasts over heads. The first half of the sines is negated, so that
        `apply_rotary` needs a roll in place of a rotation.
        """
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        angles = positions.to(exact)[..., None, None] * self.frequencies.to(exact)
        return angles.cos().to(dtype), angles.sin().to(dtype)


def apply_rotary(x: Tensor, phases: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate `x [..., heads, head_dim]` by the phases of `RotaryEmbedding`."""
    cos, signed_sin = phases
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), signed_sin)


class InjectedAttention(nn.Module):
    """Grouped-query attention of a block over context keys and its own keys.

    One `k_proj`/`v_proj` serves both: context keys come from projected target states, block keys
    from the layer's input. No causal mask inside the block is implied; the caller's bias decides.
    """

    def __init__(
        self, hidden_size: int, num_heads: int, num_kv_heads: int, head_dim: int, eps: float
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * head_dim, hidden_size, bias=False)
        self.q_norm = RMSNorm(head_dim, eps)
        self.k_norm = RMSNorm(head_dim, eps)

    def keys_values(self, x: Tensor, phases: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Normalised, rotated keys and values of `x [..., d]`: each `[..., kv_heads, head_dim]`."""
        shape = (*x.shape[:-1], self.num_kv_heads, self.head_dim)
        keys = apply_rotary(self.k_norm(self.k_proj(x).view(shape)), phases)
        return keys, self.v_proj(x).view(shape)

    def forward(
        self, x: Tensor, phases: tuple[Tensor, Tensor], context: Tensor, bias: Tensor
    ) -> Tensor:
        """Attend from `x [B, S, d]` to the context and to itself.

        `context [B, W, 2, kv_heads, head_dim]` holds keys and values; `bias` is added to the
        scores and broadcasts to `[B, 1, S, W + S]`.
        """
        keys, values = self.keys_values(x, phases)
        keys = torch.cat((context[:, :, 0].transpose(1, 2), keys.transpose(1, 2)), 2)
        values = torch.cat((context[:, :, 1].transpose(1, 2), values.transpose(1, 2)), 2)
        return self.attend(x, phases, keys, values, bias)

    def attend(
        self, x: Tensor, phases: tuple[Tensor, Tensor], keys: Tensor, values: Tensor, bias: Tensor
    ) -> Tensor:
        """Attend from `x [B, S, d]` to `keys`, `values [B, kv_heads, N, head_dim]`.

        `bias` broadcasts to `[B, 1, S, N]`.
        """
        batch, slots, _ = x.shape
        queries = self.q_proj(x).view(batch, slots, self.num_heads, self.head_dim)
        queries = apply_rotary(self.q_norm(queries), phases)
        # The query heads of one key head become more query rows: no key is repeated in memory.
        group = self.num_heads // self.num_kv_heads
        grouped = (batch, self.num_kv_heads, group * slots, self.head_dim)
        if bias.shape[2] != 1:
            bias = bias.repeat(1, 1, group, 1)
        mixed = F.scaled_dot_product_attention(
            queries.transpose(1, 2).reshape(grouped), keys, values, attn_mask=bias
        )
        mixed = mixed.reshape(batch, self.num_heads, slots, self.head_dim).transpose(1, 2)
        out: Tensor = self.o_proj(mixed.reshape(batch, slots, -1))
        return out


class GatedMLP(nn.Module):
    """`down(silu(gate(x)) * up(x))`."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map `x [..., d]` to `[..., d]`."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class DraftLayer(nn.Module):
    """One pre-norm decoder layer of the drafter."""

    def __init__(
        self,
        *,
        hidden_size: int,
        intermediate_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        eps: float,
    ) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(hidden_size, eps)
        self.self_attn = InjectedAttention(hidden_size, num_heads, num_kv_heads, head_dim, eps)
        self.post_attention_layernorm = RMSNorm(hidden_size, eps)
        self.mlp = GatedMLP(hidden_size, intermediate_size)

    @classmethod
    def of(cls, config: DrafterConfig) -> DraftLayer:
        """A layer of a drafter's sizes. Raises ``ValueError`` where some are not stated."""
        shape = dense_shape(config)
        return cls(
            hidden_size=config.hidden_size,
            intermediate_size=shape.intermediate_size,
            num_heads=shape.num_attention_heads,
            num_kv_heads=shape.num_key_value_heads,
            head_dim=shape.head_dim,
            eps=shape.rms_norm_eps,
        )

    def forward(
        self, x: Tensor, phases: tuple[Tensor, Tensor], context: Tensor, bias: Tensor
    ) -> Tensor:
        """Same shapes as `InjectedAttention.forward`."""
        x = x + self.self_attn(self.input_layernorm(x), phases, context, bias)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out

    def decode(
        self,
        x: Tensor,
        phases: tuple[Tensor, Tensor],
        keys: Tensor,
        values: Tensor,
        column: int,
        bias: Tensor,
    ) -> Tensor:
        """One token a row, `x [B, 1, d]`, whose key and value are put into `column` first.

        `keys`, `values [B, kv_heads, N, head_dim]`; `bias` broadcasts to `[B, 1, 1, N]`.
        """
        normed = self.input_layernorm(x)
        key, value = self.self_attn.keys_values(normed, phases)
        keys[:, :, column] = key[:, 0]
        values[:, :, column] = value[:, 0]
        x = x + self.self_attn.attend(normed, phases, keys, values, bias)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out
