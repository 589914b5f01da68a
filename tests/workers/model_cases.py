"""Draft models with random weights, and contexts that lie in a buffer as a worker keeps them."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)
DENSE: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "vocab_size": 41,
    "draft_vocab_size": 41,
    "attention_kind": "grouped_query",
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500.0,
    "sliding_window": None,
}


def randomized(model: Model, seed: int = 0) -> Model:
    """Float64 weights large enough for every input to matter."""
    generator = torch.Generator().manual_seed(seed)
    model = model.double().requires_grad_(requires_grad=False)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        weight.copy_(1 + 0.1 * noise if "norm" in name else 0.6 * noise)
    return model


def raw_of(config: Any) -> dict[str, Any]:
    """A configuration under the names that the slow implementations read."""
    fields: dict[str, Any] = config.model_dump()
    fields["num_hidden_layers"] = fields["num_layers"]
    fields["rope_parameters"] = {"rope_theta": fields["rope_theta"]}
    return fields


def buffered(rows: list[Tensor], width: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Keys and values `[n, L, 2, kv_heads, head_dim]` of each row in a buffer of `width` columns.

    The columns are in no order, and those that nothing was written to hold large values. Returns
    `[B, L, width, 2, kv_heads, head_dim]` and which columns may be read, `[B, width]`.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (len(rows), width, *rows[0].shape[1:])
    kv = 50 * torch.randn(shape, generator=generator, dtype=rows[0].dtype)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for index, row in enumerate(rows):
        columns = torch.randperm(width, generator=generator)[: row.shape[0]]
        kv[index, columns] = row
        mask[index, columns] = True
    return kv.transpose(1, 2), mask
