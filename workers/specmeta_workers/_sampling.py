"""What a request samples from: temperature, top-k and top-p, and a draw by inverse distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specmeta import SamplingParams


class SamplingTensors(NamedTuple):
    """The sampling parameters of a batch's rows, each `[R]`."""

    temperature: Tensor
    """0 is greedy."""
    top_k: Tensor
    """Tokens to sample from at most; the vocabulary where a request has no limit."""
    top_p: Tensor
    seed: Tensor

    @classmethod
    def of(
        cls,
        params: Sequence[SamplingParams],
        *,
        num_padding: int,
        vocab_size: int,
        device: torch.device,
    ) -> SamplingTensors:
        """Those of the real rows, then greedy ones for padding."""

        def column(values: list[float] | list[int], padding: float, dtype: torch.dtype) -> Tensor:
            return torch.tensor([*values, *[padding] * num_padding], dtype=dtype, device=device)

        tops = [vocab_size if p.top_k is None else min(p.top_k, vocab_size) for p in params]
        return cls(
            temperature=column([p.temperature for p in params], 0, torch.float64),
            top_k=column(tops, vocab_size, torch.long),
            top_p=column([p.top_p for p in params], 1, torch.float64),
            seed=column([p.seed for p in params], 0, torch.long),
        )

    def clone(self) -> SamplingTensors:
        """The same in memory of its own."""
        return SamplingTensors(*(tensor.clone() for tensor in self))


def probabilities(logits: Tensor, params: SamplingTensors) -> Tensor:
    """Distributions `[R, ..., V]` that rows with these parameters sample from.

    `logits [R, ..., V]` are divided by the temperature; the `top_k` largest stay, of equal ones
    those with the smaller token ids; of these, the fewest whose mass reaches `top_p`. At
    temperature 0 the most likely token alone. In float32, or float64 for such logits.
    """
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    shape = (-1, *[1] * (logits.dim() - 1))
    # Finite in the narrower type: -inf over infinity would be no number.
    largest = torch.finfo(exact.dtype).max
    temperature = params.temperature.view(shape).clamp(max=largest).to(exact.dtype)
    top_k, top_p = params.top_k.view(shape), params.top_p.view(shape).to(exact.dtype)
    is_greedy = temperature == 0
    ordered, tokens = exact.sort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(logits.shape[-1], device=logits.device)
    limit = torch.where(is_greedy, 1, top_k)
    # Relative to the largest, so that a tiny temperature overflows to -inf, which softmax can take.
    scaled = (ordered - ordered[..., :1]) / torch.where(is_greedy, 1, temperature)
    kept = scaled.masked_fill(ranks >= limit, float("-inf")).softmax(-1)
    before = kept.cumsum(-1) - kept
    # At 1 nothing is cut, though the sum of the others may round up to 1; and the first token stays
    # even where a tiny top_p has become 0.
    kept = kept.masked_fill((before >= top_p) & (top_p < 1) & (ranks > 0), 0)
    kept = kept / kept.sum(-1, keepdim=True)
    return torch.zeros_like(kept).scatter(-1, tokens, kept)


def sample(probs: Tensor, numbers: Tensor) -> Tensor:
    """Tokens `[...]` of distributions `probs [..., V]`, which need not sum to 1, by uniform
    `numbers [...]` in [0, 1). A token of probability 0 is never drawn.
    """
    # Not a binary search: a parallel sum on a GPU need not be monotone in its last digits. So only
    # tokens that can be drawn are looked at, and argmax takes the first of them beyond `wanted`.
    cumulative = probs.double().cumsum(-1).masked_fill(probs <= 0, 0)
    total = cumulative.amax(-1, keepdim=True)
    # Below the total: at most 1 - 2**-53 of it, which never rounds up to it.
    wanted = numbers[..., None].double() * total
    return (cumulative > wanted).to(torch.uint8).argmax(-1)
