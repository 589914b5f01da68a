"""A dense multi-token-prediction layer written down once more, slowly, in float64.

One cell, one head, one key at a time, every draft from nothing. Cell p joins the state at position
p with the token at p + 1 and predicts the token at p + 2; the state is the target's for committed
tokens and the layer's own output for drafted ones (arXiv 2412.19437, section 2.2).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.workers.naive_dspark import rms, rotate


def draft(
    raw: dict[str, Any],
    weights: dict[str, Tensor],
    states: Tensor,
    tokens: list[int],
    forced: list[int | None],
    *,
    first_cell: int = 0,
) -> tuple[list[int], list[Tensor]]:
    """Drafted tokens and their logits `[V]`, one for each entry of `forced`.

    `states [n, d]` are the target's at positions 0 to n - 1, `tokens` those at 0 to n: the last is
    the anchor. Cells before `first_cell` are not read. A draft is the most likely token, or the one
    that `forced` has in its place.
    """
    count = states.shape[0]
    assert len(tokens) == count + 1
    drafts: list[int] = []
    logits: list[Tensor] = []
    own: list[Tensor] = []  # outputs of the cells n - 1, n, ...
    for k, choice in enumerate(forced):
        last = count - 1 + k
        cells: list[tuple[int, Tensor]] = []
        for p in range(last + 1):
            state = states[p] if p < count else own[p - count]
            token = (tokens + drafts)[p + 1]
            if p >= first_cell or p >= count - 1:  # a draft's own cells are always read
                cells.append((p, fuse(raw, weights, state, token)))
        own.append(layer(raw, weights, cells))
        out = rms(own[-1], weights["norm.weight"], raw["rms_norm_eps"])
        logits.append(weights["lm_head.weight"] @ out)
        drafts.append(int(logits[-1].argmax()) if choice is None else choice)
    return drafts, logits


def fuse(raw: dict[str, Any], weights: dict[str, Tensor], state: Tensor, token: int) -> Tensor:
    """What goes into a cell `[d]`: the token's embedding and the state, normalised, projected."""
    embedded = rms(
        weights["embed_tokens.weight"][token], weights["enorm.weight"], raw["rms_norm_eps"]
    )
    normed = rms(state, weights["hnorm.weight"], raw["rms_norm_eps"])
    return weights["eh_proj.weight"] @ torch.cat((embedded, normed))


def layer(
    raw: dict[str, Any], weights: dict[str, Tensor], cells: list[tuple[int, Tensor]]
) -> Tensor:
    """Output `[d]` of the last of these cells, each a position and an input."""
    eps, size, theta = raw["rms_norm_eps"], raw["head_dim"], raw["rope_theta"]
    group = raw["num_attention_heads"] // raw["num_key_value_heads"]
    get = {name.removeprefix("layer."): weight for name, weight in weights.items()}
    normed = [(p, rms(cell, get["input_layernorm.weight"], eps)) for p, cell in cells]
    position, query_source = normed[-1]
    mixed: list[Tensor] = []
    for head in range(raw["num_attention_heads"]):
        own = slice(head * size, (head + 1) * size)
        shared = slice(head // group * size, (head // group + 1) * size)
        query = (get["self_attn.q_proj.weight"] @ query_source)[own]
        query = rotate(rms(query, get["self_attn.q_norm.weight"], eps), position, theta)
        scores, values = [], []
        for p, source in normed:
            key = (get["self_attn.k_proj.weight"] @ source)[shared]
            key = rotate(rms(key, get["self_attn.k_norm.weight"], eps), p, theta)
            scores.append(query @ key / size**0.5)
            values.append((get["self_attn.v_proj.weight"] @ source)[shared])
        mixed.append(torch.stack(scores).softmax(0) @ torch.stack(values))
    hidden = cells[-1][1] + get["self_attn.o_proj.weight"] @ torch.cat(mixed)
    inner = rms(hidden, get["post_attention_layernorm.weight"], eps)
    gate = get["mlp.gate_proj.weight"] @ inner
    up = get["mlp.up_proj.weight"] @ inner
    return hidden + get["mlp.down_proj.weight"] @ (gate * gate.sigmoid() * up)
