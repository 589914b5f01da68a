"""Train the bundled DSpark drafter on the target's own text and hidden states.

The loss is the published one (DSpark, arXiv 2607.05147): per slot k of a block,
`0.1 CE + 0.9 |p_d - p_t|_1 + BCE(c, 1 - |p_d - p_t|_1 / 2)`, weighted by `exp(-(k - 1) / 4)`.

    python training/train_dspark.py --cache training/cache

Resumable: it saves a checkpoint every `--save-every` steps and goes on from the last one.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from lean_qwen3 import apply_rotary, rms_norm, rotary_tables
from specmeta_workers import DSparkDraftModel
from torch import Tensor
from train_target import load_target, rate

from specmeta import DSparkDrafterConfig

SEED = 22
BATCH = 16
ANCHORS = 40
LOSS_DECAY = 4.0
MUON_LR = 0.02
ADAM_LR = 3e-3


def drafter_config(vocab_size: int, mask_token_id: int) -> DSparkDrafterConfig:
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
        mask_token_id=mask_token_id,
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
        for layer in model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            k_weight, v_weight = attention.k_proj.weight, attention.v_proj.weight
            kv = self._linear(context, k_weight, v_weight)
            kv = kv.view(batch, length, -1, head_dim).transpose(1, 2)
            context_k, context_v = kv.split(kv_heads, 1)
            context_k = self._norm(context_k, attention.k_norm.weight)
            context_k = apply_rotary(context_k, self.cos[:length], self.sin[:length])
            qkv = self._linear(
                self._norm(h, layer.input_layernorm.weight),
                attention.q_proj.weight,
                k_weight,
                v_weight,
            )
            qkv = qkv.view(batch, count * block, -1, head_dim).transpose(1, 2)
            q, k, v = qkv.split([config.num_attention_heads, kv_heads, kv_heads], 1)
            q = apply_rotary(self._norm(q, attention.q_norm.weight), cos, sin)
            k = apply_rotary(self._norm(k, attention.k_norm.weight), cos, sin)
            # [B, kv, G, A, block, D] for queries, [B, kv, 1, A, block, D] for block keys.
            q = q.reshape(batch, kv_heads, groups, count, block, head_dim) * head_dim**-0.5
            k, v = (x.reshape(batch, kv_heads, 1, count, block, head_dim) for x in (k, v))
            flat = q.reshape(batch, kv_heads, groups * count * block, head_dim)
            far = (flat @ context_k.transpose(-1, -2)).view(*q.shape[:-1], length) + bias
            near = torch.einsum("bkgaid,bkajd->bkgaij", q, k[:, :, 0])
            weights = torch.cat((far, near), -1).softmax(-1)
            far, near = weights.split([length, block], -1)
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
    """The published loss and the expected accept length `1 + sum_k prod_(i<=k) (1 - TV_i)`.

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
    matrices = [model.fc.weight, *(p for p in model.layers.parameters() if p.ndim == 2)]
    inside = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if p.requires_grad and id(p) not in inside]
    muon = torch.optim.Muon(matrices, lr=MUON_LR, weight_decay=0.05)
    adam = torch.optim.AdamW(rest, lr=ADAM_LR, betas=(0.9, 0.95), weight_decay=0.0)
    return [muon, adam]


def make_model(cache: Path) -> tuple[DSparkDraftModel, Tensor]:
    """A fresh drafter whose embedding and head are the target's; and that head `[V, d]`."""
    target = load_target(cache)
    head = target.lm_head.weight.detach().clone()
    model = DSparkDraftModel(drafter_config(target.config.vocab_size, mask_token_id=1))
    for name, parameter in model.named_parameters():
        if name.startswith(("embed_tokens", "lm_head")):
            parameter.data.copy_(head)
            parameter.requires_grad_(requires_grad=False)
        elif parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.02)
    return model, head


def train(cache: Path, steps: int, save_every: int) -> None:
    """Train for `steps` steps in all, resuming from the checkpoint in `cache` if there is one."""
    torch.manual_seed(SEED)
    model, head = make_model(cache)
    tokens = torch.from_numpy(np.load(cache / "drafter_tokens.npy")).long()
    states = np.load(cache / "drafter_hidden.npy", mmap_mode="r")
    length, block = tokens.shape[1], model.config.block_size
    lean = LeanDSpark(model, length)
    opts = optimizers(model)
    peaks = [[group["lr"] for group in opt.param_groups] for opt in opts]
    checkpoint = cache / "dspark.pt"
    state: dict[str, Any] = {"step": 0}
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        for opt, saved in zip(opts, state["optimizers"], strict=True):
            opt.load_state_dict(saved)
    own = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"{own:,} trained parameters, {tokens.numel():,} tokens")
    per_epoch = len(tokens) // BATCH
    offsets = torch.arange(block)
    began, average, accept = time.monotonic(), 0.0, 0.0
    for step in range(state["step"], steps):
        epoch, index = divmod(step, per_epoch)
        order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(SEED + epoch))
        rows = order[index * BATCH : (index + 1) * BATCH].sort().values
        generator = torch.Generator().manual_seed(SEED + 7919 * step)
        span = length - block - 16
        anchors = torch.rand(BATCH, span, generator=generator).argsort(1)[:, :ANCHORS] + 16
        anchors = anchors.sort(1).values
        batch, hidden = tokens[rows], torch.from_numpy(states[rows.numpy()])
        for opt, lrs in zip(opts, peaks, strict=True):
            for group, lr in zip(opt.param_groups, lrs, strict=True):
                group["lr"] = lr * rate(step, steps)
        slots = (anchors[..., None] + offsets).flatten(1)
        previous = batch.gather(1, slots).view(BATCH, ANCHORS, block)
        labels = batch.gather(1, slots + 1).view(BATCH, ANCHORS, block)
        final = hidden[:, :, -1].gather(1, slots[..., None].expand(-1, -1, hidden.shape[-1]))
        target_logits = (final.to(torch.bfloat16) @ head.to(torch.bfloat16).T).float()
        target_logits = target_logits.view(BATCH, ANCHORS, block, -1)
        out = lean(batch, hidden[:, :, :-1].flatten(2), anchors)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, confidence = model.head_logits(out, previous)
        assert confidence is not None  # the configuration has the head
        loss, expected = block_loss(logits.float(), confidence.float(), target_logits, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad()
        mix = 0.98 if average else 0.0
        average = mix * average + (1 - mix) * loss.item()
        accept = mix * accept + (1 - mix) * expected.item()
        done = step + 1
        if done % 50 == 0 or done == steps:
            pace = (time.monotonic() - began) / (done - state["step"])
            left = pace * (steps - done) / 60
            print(
                f"step {done}/{steps} loss {average:.3f} matched {accept:.2f} "
                f"{pace:.2f} s/step {left:.0f} min left",
                flush=True,
            )
        if done % save_every == 0 or done == steps:
            saved_state = {
                "step": done,
                "model": model.state_dict(),
                "optimizers": [opt.state_dict() for opt in opts],
            }
            torch.save(saved_state, checkpoint.with_suffix(".tmp"))
            checkpoint.with_suffix(".tmp").replace(checkpoint)


def main() -> None:
    """Parse the options and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("training/cache"))
    parser.add_argument("--steps", type=int, default=3600)
    parser.add_argument("--save-every", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    train(options.cache, options.steps, options.save_every)


if __name__ == "__main__":
    main()
