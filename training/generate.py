"""Let the target continue prompts of its training split, and keep its hidden states.

The drafter learns from what the target says, so most of its data is the target's own text: greedy
continuations, and some sampled ones for variety.

    python training/generate.py --cache training/cache
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from lean_qwen3 import LeanQwen3
from tokenizers import Tokenizer
from torch import Tensor
from train_target import load_target, token_stream
from transformers import DynamicCache, Qwen3ForCausalLM

SEED = 21
LENGTH = 192
BATCH = 192
GREEDY_SHARE = 0.7
TEMPERATURE = 0.7
PROMPT_LENGTHS = (24, 96)


@torch.inference_mode()
def continue_prompts(
    model: Qwen3ForCausalLM,
    prompts: Tensor,
    length: int,
    greedy: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Extend `prompts [B, P]` to `[B, length]`: rows of `greedy [B]` greedily, others sampled."""
    cache = DynamicCache(config=model.config)
    tokens, step = prompts, prompts
    while tokens.shape[1] < length:
        logits = model(step, cache=cache, logits_to_keep=1).logits[:, -1]
        drawn = torch.multinomial((logits / TEMPERATURE).softmax(-1), 1, generator=generator)
        step = torch.where(greedy[:, None], logits.argmax(-1, keepdim=True), drawn)
        tokens = torch.cat((tokens, step), 1)
    return tokens


def generate(cache: Path, sequences: int) -> None:
    """Write `drafter_tokens.npy [N, LENGTH]`, made in batches that each have one prompt length."""
    tokenizer = Tokenizer.from_file(str(cache / "tokenizer.json"))
    corpus = json.loads((cache / "corpus.json").read_text())
    stream = token_stream(tokenizer, corpus["train"])
    model = load_target(cache)
    generator = torch.Generator().manual_seed(SEED)
    rows, began = [], time.monotonic()
    for start in range(0, sequences, BATCH):
        prompt = int(torch.randint(*PROMPT_LENGTHS, (), generator=generator))
        at = torch.randint(len(stream) - prompt, (BATCH,), generator=generator)
        prompts = stream[at[:, None] + torch.arange(prompt)]
        greedy = torch.rand(BATCH, generator=generator) < GREEDY_SHARE
        rows.append(continue_prompts(model, prompts, LENGTH, greedy, generator))
        done = start + BATCH
        left = (time.monotonic() - began) / done * (sequences - done) / 60
        print(f"{done}/{sequences} sequences, {left:.1f} min left", flush=True)
    tokens = torch.cat(rows)[:sequences]
    np.save(cache / "drafter_tokens.npy", tokens.numpy().astype(np.int16))


@torch.inference_mode()
def hidden_states(cache: Path, layers: tuple[int, ...]) -> None:
    """Write `drafter_hidden.npy [N, LENGTH, len(layers) + 1, d]`: captured layers, final norm."""
    tokens = torch.from_numpy(np.load(cache / "drafter_tokens.npy")).long()
    model = load_target(cache)
    lean = LeanQwen3(model, LENGTH, torch.float32)
    shape = (*tokens.shape, len(layers) + 1, model.config.hidden_size)
    path = cache / "drafter_hidden.npy"
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)
    for start in range(0, len(tokens), 32):
        states = lean.hidden_states(tokens[start : start + 32])
        # Entry 0 is the embedding, so the output of layer i is entry i + 1.
        kept = [states[i + 1] for i in layers] + [states[-1]]
        out[start : start + 32] = torch.stack(kept, 2).to(torch.float16).numpy()
    out.flush()


def main() -> None:
    """Generate the sequences, then their hidden states."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("training/cache"))
    parser.add_argument("--sequences", type=int, default=5184)
    parser.add_argument("--layers", type=int, nargs="+", default=(1, 2, 3))
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    generate(options.cache, options.sequences)
    hidden_states(options.cache, tuple(options.layers))


if __name__ == "__main__":
    main()
