"""DSpark written down once more, slowly: one head, one slot, one key at a time, in float64.

An independent computation to compare the drafter with. It reads the published names and the
formulas of the paper (arXiv 2607.05147), has no cache, window buffer, batch or fused operation, and
shares no code with the package.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm."""
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight


def rotate(x: Tensor, position: int, theta: float) -> Tensor:
    """Turn the pairs (i, i + half) of one head `[head_dim]`."""
    half = x.shape[0] // 2
    out = torch.empty_like(x)
    for i in range(half):
        angle = torch.tensor(position * theta ** (-2 * i / x.shape[0]), dtype=x.dtype)
        out[i] = x[i] * angle.cos() - x[i + half] * angle.sin()
        out[i + half] = x[i + half] * angle.cos() + x[i] * angle.sin()
    return out


def block_hidden(
    raw: dict[str, Any], weights: dict[str, Tensor], states: Tensor, anchor: int, position: int
) -> Tensor:
    """Hidden states `[block, d]`, from every committed state `[position, m * d]`."""
    eps, head_dim = raw["rms_norm_eps"], raw["head_dim"]
    theta = raw["rope_parameters"]["rope_theta"]
    group = raw["num_attention_heads"] // raw["num_key_value_heads"]
    window = raw["sliding_window"] or position
    seen = range(max(0, position - window), position)
    context = rms(states @ weights["fc.weight"].T, weights["hidden_norm.weight"], eps)
    tokens = [anchor] + [raw["mask_token_id"]] * (raw["block_size"] - 1)
    hidden = weights["embed_tokens.weight"][tokens]
    for layer in range(raw["num_hidden_layers"]):
        get = {
            name.removeprefix(f"layers.{layer}."): weight
            for name, weight in weights.items()
            if name.startswith(f"layers.{layer}.")
        }
        normed = rms(hidden, get["input_layernorm.weight"], eps)
        sources = [(p, context[p]) for p in seen]
        sources += [(position + slot, normed[slot]) for slot in range(len(tokens))]
        mixed = torch.zeros(len(tokens), raw["num_attention_heads"] * head_dim, dtype=hidden.dtype)
        for head in range(raw["num_attention_heads"]):
            own = slice(head * head_dim, (head + 1) * head_dim)
            shared = slice(head // group * head_dim, (head // group + 1) * head_dim)
            keys, values = [], []
            for p, source in sources:
                key = (get["self_attn.k_proj.weight"] @ source)[shared]
                keys.append(rotate(rms(key, get["self_attn.k_norm.weight"], eps), p, theta))
                values.append((get["self_attn.v_proj.weight"] @ source)[shared])
            for slot in range(len(tokens)):
                query = (get["self_attn.q_proj.weight"] @ normed[slot])[own]
                query = rms(query, get["self_attn.q_norm.weight"], eps)
                query = rotate(query, position + slot, theta)
                scores = torch.stack([query @ key for key in keys]) / head_dim**0.5
                mixed[slot, own] = scores.softmax(0) @ torch.stack(values)
        hidden = hidden + mixed @ get["self_attn.o_proj.weight"].T
        normed = rms(hidden, get["post_attention_layernorm.weight"], eps)
        gate = normed @ get["mlp.gate_proj.weight"].T
        up = normed @ get["mlp.up_proj.weight"].T
        hidden = hidden + (gate * gate.sigmoid() * up) @ get["mlp.down_proj.weight"].T
    return rms(hidden, weights["norm.weight"], eps)


def golden_round(
    raw: dict[str, Any], weights: dict[str, Tensor], states: Tensor, anchor: int, position: int
) -> dict[str, Tensor]:
    """One round, under the names of the parity files.

    Slot k predicts the token behind its own. With `sample_from_anchor` false it fills its own
    position instead: slot 0, the anchor's, passes the heads like the others and yields nothing, and
    the token before it and before slot 1 is the anchor.
    """
    hidden = block_hidden(raw, weights, states, anchor, position)
    head = weights.get("lm_head.weight", weights["embed_tokens.weight"])
    base = hidden @ head.T
    rank = raw["markov_rank"]
    state = torch.zeros(rank, dtype=hidden.dtype)
    previous = anchor
    corrected, confidence, tokens = [], [], []
    first = 0 if raw.get("sample_from_anchor", True) else 1
    for slot in range(raw["block_size"]):
        logits, features = base[slot], hidden[slot]
        if rank:
            embedding = weights["markov_head.markov_w1.weight"][previous]
            if raw["markov_head_type"] == "gated":
                gate = linear(weights, "markov_head.gate_proj", (hidden[slot], embedding))
                latent = gate.sigmoid() * embedding
            elif raw["markov_head_type"] == "rnn":
                joint = linear(weights, "markov_head.joint_proj", (state, embedding, hidden[slot]))
                g, c, o = joint[:rank], joint[rank : 2 * rank], joint[2 * rank :]
                state = g.sigmoid() * state + (1 - g.sigmoid()) * c.tanh()
                latent = o.tanh()
            else:
                latent = embedding
            logits = logits + weights["markov_head.markov_w2.weight"] @ latent
            if raw.get("confidence_head_with_markov"):
                features = torch.cat((hidden[slot], embedding))
        if slot < first:
            continue
        if raw["enable_confidence_head"]:
            confidence.append(linear(weights, "confidence_head.proj", (features,))[0])
        previous = int(logits.argmax())
        tokens.append(previous)
        corrected.append(logits)
    result = {
        "block_hidden": hidden[None],
        "base_logits": base[None],
        "corrected_logits": torch.stack(corrected)[None],
        "draft_tokens": torch.tensor([tokens]),
        "anchor_token": torch.tensor([anchor]),
        "anchor_position": torch.tensor([position]),
    }
    if confidence:
        result["confidence_logits"] = torch.stack(confidence)[None]
    return result


def linear(weights: dict[str, Tensor], name: str, parts: tuple[Tensor, ...]) -> Tensor:
    """A linear layer over concatenated inputs, with its bias where there is one."""
    out = weights[f"{name}.weight"] @ torch.cat(parts)
    return out + weights[f"{name}.bias"] if f"{name}.bias" in weights else out
