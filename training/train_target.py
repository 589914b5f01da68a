"""Train the bundled target: a small Qwen3 language model of documentation prose.

    python training/train_target.py --cache training/cache

Resumable: it saves a checkpoint every `--save-every` steps and goes on from the last one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from lean_qwen3 import LeanQwen3
from loop import make_optimizers, train_resumable, training_options
from tokenizers import Tokenizer
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

if TYPE_CHECKING:
    from pathlib import Path

SEED = 20
LENGTH = 256
BATCH = 16


def target_config(vocab_size: int) -> Qwen3Config:
    """The architecture of the bundled target: 2.4 M parameters."""
    return Qwen3Config(
        vocab_size=vocab_size,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )


def token_stream(tokenizer: Tokenizer, documents: list[str]) -> Tensor:
    """All documents as one stream of token ids, each ended by the end-of-text token."""
    ids: list[int] = []
    for encoding in tokenizer.encode_batch(documents):
        ids += [*encoding.ids, 0]
    return torch.tensor(ids)


def windows(stream: Tensor, epoch: int, length: int = LENGTH) -> Tensor:
    """Windows of one epoch, `[N, length + 1]`: shifted by a random offset and shuffled."""
    generator = torch.Generator().manual_seed(SEED + 1000 * epoch)
    offset = int(torch.randint(length, (), generator=generator))
    usable = stream[offset : offset + (len(stream) - offset - 1) // length * length + 1]
    rows = usable.unfold(0, length + 1, length)
    return rows[torch.randperm(len(rows), generator=generator)]


def optimizers(model: Qwen3ForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings and norms."""
    return make_optimizers(model, (p for p in model.model.layers.parameters() if p.ndim == 2))


@torch.no_grad()
def held_out_loss(lean: LeanQwen3, rows: Tensor) -> float:
    """Mean next-token loss in nats over `rows`."""
    losses = []
    for part in torch.split(rows, BATCH):
        logits = lean.logits(part[:, :-1])
        losses.append(
            F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="none")
        )
    return torch.cat(losses).mean().item()


def load_target(cache: Path) -> Qwen3ForCausalLM:
    """The trained target in float32, its weights rounded to float16 as they are shipped."""
    tokenizer = Tokenizer.from_file(str(cache / "tokenizer.json"))
    model = Qwen3ForCausalLM(target_config(tokenizer.get_vocab_size()))
    weights: dict[str, Tensor] = torch.load(cache / "target.pt", weights_only=True)["model"]
    model.load_state_dict({key: weight.half().float() for key, weight in weights.items()})
    model.train(mode=False)
    return model


def train(cache: Path, steps: int, save_every: int) -> None:
    """Train for `steps` steps in all, resuming from the checkpoint in `cache` if there is one."""
    torch.manual_seed(SEED)
    tokenizer = Tokenizer.from_file(str(cache / "tokenizer.json"))
    corpus = json.loads((cache / "corpus.json").read_text())
    stream = token_stream(tokenizer, corpus["train"])
    validation = windows(token_stream(tokenizer, corpus["validation"]), epoch=0)
    model = Qwen3ForCausalLM(target_config(tokenizer.get_vocab_size()))
    lean = LeanQwen3(model, LENGTH)
    per_epoch = len(windows(stream, 0)) // BATCH
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(stream):,} tokens")
    epochs: dict[int, Tensor] = {}

    def losses(step: int) -> tuple[Tensor, dict[str, float]]:
        epoch, index = divmod(step, per_epoch)
        if epoch not in epochs:
            epochs.clear()
            epochs[epoch] = windows(stream, epoch)
        batch = epochs[epoch][index * BATCH : (index + 1) * BATCH]
        logits = lean.logits(batch[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()), {}

    def show_validation() -> None:
        print(f"validation loss {held_out_loss(lean, validation):.3f}", flush=True)

    train_resumable(
        cache / "target.pt",
        model,
        optimizers(model),
        steps=steps,
        save_every=save_every,
        losses=losses,
        on_save=show_validation,
    )


def main() -> None:
    """Parse the options and train."""
    options = training_options(__doc__, steps=2200)
    train(options.cache, options.steps, options.save_every)


if __name__ == "__main__":
    main()
