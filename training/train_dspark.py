"""Train the bundled DSpark drafter on the target's own text and hidden states.

The loss is the published one (DSpark, arXiv 2607.05147): per slot k of a block,
`0.1 CE + 0.9 |p_d - p_t|_1 + BCE(c, 1 - |p_d - p_t|_1 / 2)`, weighted by `exp(-(k - 1) / 4)`.

    python training/train_dspark.py --cache training/cache

Resumable: it saves a checkpoint every `--save-every` steps and goes on from the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from lean_qwen3 import apply_rotary, rms_norm, rotary_tables
from loop import make_optimizers, train_resumable, training_options
from torch import Tensor
from train_target import load_target

from specmeta import DSparkDrafterConfig
from specmeta_workers import DSparkDraftModel

if TYPE_CHECKING:
    from pathlib import Path

SEED = 22
BATCH = 16
ANCHORS = 40
MASK_TOKEN_ID = 1
FIRST_ANCHOR = 16
LOSS_DECAY = 4.0


def drafter_config(vocab_size: int) -> DSparkDrafterConfig:
    """The architecture of the bundled drafter: 1.4 M parameters of its own."""
    return DSparkDrafterConfig(
        hidden_size=256,
        num_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=384,
        vocab_size=vocab_size,
        block_size=7,
        mask_token_id=MASK_TOKEN_ID,
        target_layer_ids=(1, 2, 3),
        layer_id_convention="output_of_layer",
        anchor_convention="anchor_first",
        window_causality="non_causal",
        sliding_window=128,
        markov_rank=128,
        markov_head_type="rnn",
        enable_confidence_head=True,
        confidence_head_with_markov=True,
        rms_norm_eps=1e-6,
        rope_theta=10000.0,
        max_position_embeddings=1024,
    )


class LeanDSpark:
    """Training forward over the parameters of a draft model, for sequences of one length.

    The same numbers as `DSparkDraftModel.forward_block` with many anchors a sequence: a slot reads
    the context before its anchor and its own block. Scores with the context and with the block are
    two products, so no slot is ever compared with another block.
    """

    def __init__(
        self, model: DSparkDraftModel, length: int, dtype: torch.dtype = torch.bfloat16
    ) -> None:
        self.model, self.dtype, self.config = model, dtype, model.config
        size = length + model.config.block_size
        self.cos, self.sin = rotary_tables(
            size, model.config.head_dim, model.config.rope_theta, dtype
        )

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(x, weight.to(self.dtype), self.config.rms_norm_eps)

    def _linear(self, x: Tensor, *weights: Tensor) -> Tensor:
        return F.linear(x, torch.cat(weights).to(self.dtype))

    def __call__(self, tokens: Tensor, captured: Tensor, anchors: Tensor) -> Tensor:
        """`tokens [B, S]`, `captured [B, S, m d]`, `anchors [B, A]` to hidden `[B, A, block, d]`.

        The captured state of an anchor's own position is not read, as in serving.
        """
        config, model = self.config, self.model
        batch, length = tokens.shape
        count, block = anchors.shape[1], config.block_size
        groups = config.num_attention_heads // config.num_key_value_heads
        kv_heads, head_dim = config.num_key_value_heads, config.head_dim
        context = self._linear(captured.to(self.dtype), model.fc.weight)
        context = self._norm(context, model.hidden_norm.weight)
        position = torch.arange(length)
        unread = position >= anchors[..., None]
        if config.sliding_window is not None:
            unread |= position < anchors[..., None] - config.sliding_window
        bias = torch.zeros(unread.shape, dtype=self.dtype).masked_fill(unread, -1e9)
        bias = bias.view(batch, 1, 1, count, 1, length)
        slots = anchors[..., None] + torch.arange(block)
        cos, sin = self.cos[slots].flatten(1, 2)[:, None], self.sin[slots].flatten(1, 2)[:, None]
        ids = torch.full_like(slots, config.mask_token_id)
        ids[..., 0] = tokens.gather(1, anchors)
        h = model.embed_tokens.weight.to(self.dtype)[ids].flatten(1, 2)
        layer: Any
        for layer in model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            k_weight, v_weight = attention.k_proj.weight, attention.v_proj.weight
            kv = self._linear(context, k_weight, v_weight)
            kv = kv.view(batch, length, -1, head_dim).transpose(1, 2)
            context_k, context_v = torch.split(kv, kv_heads, 1)
            context_k = self._norm(context_k, attention.k_norm.weight)
            context_k = apply_rotary(context_k, self.cos[:length], self.sin[:length])
            qkv = self._linear(
                self._norm(h, layer.input_layernorm.weight),
                attention.q_proj.weight,
                k_weight,
                v_weight,
            )
            qkv = qkv.view(batch, count * block, -1, head_dim).transpose(1, 2)
            q, k, v = torch.split(qkv, [config.num_attention_heads, kv_heads, kv_heads], 1)
            q = apply_rotary(self._norm(q, attention.q_norm.weight), cos, sin)
            k = apply_rotary(self._norm(k, attention.k_norm.weight), cos, sin)
            # [B, kv, G, A, block, D] for queries, [B, kv, 1, A, block, D] for block keys.
            q = q.reshape(batch, kv_heads, groups, count, block, head_dim) * head_dim**-0.5
            k, v = (x.reshape(batch, kv_heads, 1, count, block, head_dim) for x in (k, v))
            flat = q.reshape(batch, kv_heads, groups * count * block, head_dim)
            far = (flat @ context_k.transpose(-1, -2)).view(*q.shape[:-1], length) + bias
            near = torch.einsum("bkgaid,bkajd->bkgaij", q, k[:, :, 0])
            weights = torch.cat((far, near), -1).softmax(-1)
            far, near = torch.split(weights, [length, block], -1)
            mixed = (far.reshape(*flat.shape[:-1], length) @ context_v).view_as(q)
            mixed = mixed + torch.einsum("bkgaij,bkajd->bkgaid", near, v[:, :, 0])
            mixed = mixed.permute(0, 3, 4, 1, 2, 5).reshape(batch, count * block, -1)
            h = h + self._linear(mixed, attention.o_proj.weight)
            inner = self._norm(h, layer.post_attention_layernorm.weight)
            gate, up = self._linear(inner, mlp.gate_proj.weight, mlp.up_proj.weight).chunk(2, -1)
            h = h + self._linear(F.silu(gate) * up, mlp.down_proj.weight)
        h = self._norm(h, model.norm.weight)
        return h.view(batch, count, block, -1)


def block_loss(
    logits: Tensor, confidence: Tensor, target_logits: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """The published loss, and the accept length of greedy drafts when the tokens are forced.

    `logits`, `target_logits` `[B, A, block, V]`, `confidence`, `labels` `[B, A, block]`.
    """
    drafter, target = logits.softmax(-1), target_logits.softmax(-1)
    distance = (drafter - target).abs().sum(-1)
    agreement = (1 - distance / 2).detach()
    cross = F.cross_entropy(logits.flatten(0, 2), labels.flatten(), reduction="none")
    judged = F.binary_cross_entropy_with_logits(confidence, agreement, reduction="none")
    weight = torch.exp(-torch.arange(logits.shape[2]) / LOSS_DECAY).expand_as(distance)
    total = 0.1 * cross.view_as(distance) + 0.9 * distance + judged
    matched = (logits.argmax(-1) == target_logits.argmax(-1)).float().cumprod(-1)
    return (total * weight).sum() / weight.sum(), 1 + matched.sum(-1).mean()


def optimizers(model: DSparkDraftModel) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the body, AdamW for heads and norms; shared weights stay frozen."""
    layers = [p for p in model.layers.parameters() if p.ndim == 2]
    return make_optimizers(model, [model.fc.weight, *layers])


def make_model(cache: Path) -> tuple[DSparkDraftModel, Tensor]:
    """A fresh drafter whose embedding and head are the target's; and that head `[V, d]`."""
    target = load_target(cache)
    head = target.lm_head.weight.detach().clone()
    model = DSparkDraftModel(drafter_config(target.config.vocab_size))
    for name, parameter in model.named_parameters():
        if name.startswith(("embed_tokens", "lm_head")):
            parameter.data.copy_(head)
            parameter.requires_grad = False
        elif parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.02)
    return model, head


class Batches:
    """Sequences, their states and random anchors, the same for the same step."""

    def __init__(self, cache: Path, block: int) -> None:
        self.tokens = torch.from_numpy(np.load(cache / "drafter_tokens.npy")).long()
        self._states = np.load(cache / "drafter_hidden.npy", mmap_mode="r")
        self._block = block
        self._per_epoch = len(self.tokens) // BATCH

    def __call__(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens `[B, S]`, states `[B, S, m + 1, d]` (final norm last) and anchors `[B, A]`."""
        epoch, index = divmod(step, self._per_epoch)
        shuffle = torch.Generator().manual_seed(SEED + epoch)
        order = torch.randperm(len(self.tokens), generator=shuffle)
        rows = order[index * BATCH : (index + 1) * BATCH].sort().values
        drawn = torch.Generator().manual_seed(SEED + 7919 * step)
        span = self.tokens.shape[1] - self._block - FIRST_ANCHOR
        anchors = torch.rand(BATCH, span, generator=drawn).argsort(1)[:, :ANCHORS] + FIRST_ANCHOR
        states = torch.from_numpy(self._states[rows.numpy()])
        return self.tokens[rows], states, anchors.sort(1).values


def train(cache: Path, steps: int, save_every: int) -> None:
    """Train for `steps` steps in all, resuming from the checkpoint in `cache` if there is one."""
    torch.manual_seed(SEED)
    model, head = make_model(cache)
    head = head.to(torch.bfloat16)
    block = model.config.block_size
    batches = Batches(cache, block)
    lean = LeanDSpark(model, batches.tokens.shape[1])
    own = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"{own:,} trained parameters, {batches.tokens.numel():,} tokens")

    def losses(step: int) -> tuple[Tensor, dict[str, float]]:
        tokens, states, anchors = batches(step)
        slots = (anchors[..., None] + torch.arange(block)).flatten(1)
        shape = (BATCH, ANCHORS, block)
        previous = tokens.gather(1, slots).view(shape)
        labels = tokens.gather(1, slots + 1).view(shape)
        width = states.shape[-1]
        final = states[:, :, -1].gather(1, slots[..., None].expand(-1, -1, width))
        target_logits = (final.to(torch.bfloat16) @ head.T).float().view(*shape, -1)
        hidden = lean(tokens, states[:, :, :-1].flatten(2), anchors)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, confidence = model.head_logits(hidden, previous)
        assert confidence is not None  # the configuration has the head
        loss, matched = block_loss(logits.float(), confidence.float(), target_logits, labels)
        return loss, {"matched": matched.item()}

    train_resumable(
        cache / "dspark.pt",
        model,
        optimizers(model),
        steps=steps,
        save_every=save_every,
        losses=losses,
    )


def main() -> None:
    """Parse the options and train."""
    options = training_options(__doc__, steps=3200)
    train(options.cache, options.steps, options.save_every)


if __name__ == "__main__":
    main()
