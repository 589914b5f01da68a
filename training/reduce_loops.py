"""Teach the trained target not to repeat itself: sequence-level unlikelihood training.

A small model loops when it decodes greedily, and loops flatter accept length. Here it continues
prompts of the training split greedily; a token that completes a 4-gram which its own text already
holds is made less likely, `-log(1 - p)`, while real text keeps the ordinary loss (Welleck et al.,
arXiv 1908.04319).

    python training/reduce_loops.py --cache training/cache
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from generate import continue_prompts
from lean_qwen3 import LeanQwen3
from loop import Schedule, update
from tokenizers import Tokenizer
from torch import Tensor
from train_target import LENGTH, held_out_loss, load_target, optimizers, token_stream, windows

SEED = 23
NGRAM = 4
ROWS = 96
STEPS_PER_ROUND = 6
REAL = 12
TOTAL = 176
PROMPT_LENGTHS = (24, 96)
LEARNING_SHARE = 0.15
UNLIKELY_WEIGHT = 1.0


def repeats(tokens: Tensor, start: int, n: int = NGRAM) -> Tensor:
    """Mask `[B, S]` of the tokens from `start` on that complete an n-gram of the same row."""
    mask = torch.zeros_like(tokens, dtype=torch.bool)
    for row, sequence in enumerate(tokens.tolist()):
        seen: set[tuple[int, ...]] = set()
        for end in range(n, len(sequence) + 1):
            gram = tuple(sequence[end - n : end])
            if gram in seen and end - 1 >= start:
                mask[row, end - 1] = True
            seen.add(gram)
    return mask


def distinct(tokens: Tensor, start: int) -> float:
    """Mean ratio of distinct 4-grams in what was generated from `start` on."""
    ratios = []
    for sequence in tokens[:, start:].tolist():
        grams = [tuple(sequence[i : i + NGRAM]) for i in range(len(sequence) - NGRAM + 1)]
        ratios.append(len(set(grams)) / len(grams))
    return sum(ratios) / len(ratios)


def tune(cache: Path, rounds: int) -> None:
    """Tune the trained target and write `target_tuned.pt`."""
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    tokenizer = Tokenizer.from_file(str(cache / "tokenizer.json"))
    corpus = json.loads((cache / "corpus.json").read_text())
    stream = token_stream(tokenizer, corpus["train"])
    validation = windows(token_stream(tokenizer, corpus["validation"]), epoch=0)
    real = windows(stream, epoch=99)
    model = load_target(cache, "target.pt")
    real_lean, lean = LeanQwen3(model, LENGTH), LeanQwen3(model, TOTAL - 1)
    opts = optimizers(model)
    schedule = Schedule(opts, rounds * STEPS_PER_ROUND, warm_up=10, share=LEARNING_SHARE)
    step, began = 0, time.monotonic()
    print(f"validation loss {held_out_loss(real_lean, validation):.3f}", flush=True)
    everyone = torch.ones(ROWS, dtype=torch.bool)
    for number in range(rounds):
        prompt = int(torch.randint(*PROMPT_LENGTHS, (), generator=generator))
        at = torch.randint(len(stream) - prompt, (ROWS,), generator=generator)
        prompts = stream[at[:, None] + torch.arange(prompt)]
        model.eval()
        tokens = continue_prompts(model, prompts, TOTAL, everyone, generator).clone()
        unwanted = repeats(tokens, prompt)[:, 1:]
        model.train()
        for part in range(STEPS_PER_ROUND):
            rows = slice(part * ROWS // STEPS_PER_ROUND, (part + 1) * ROWS // STEPS_PER_ROUND)
            schedule.apply(step)
            first = step * REAL % (len(real) - REAL)
            batch = real[first : first + REAL]
            logits = real_lean.logits(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            mine, mask = tokens[rows], unwanted[rows]
            log_p = lean.logits(mine[:, :-1]).log_softmax(-1)
            chosen = log_p.gather(-1, mine[:, 1:, None]).squeeze(-1).clamp(max=-1e-4)
            unlikely = -torch.log1p(-chosen.exp())
            penalty = (unlikely * mask).sum() / mask.sum().clamp(min=1)
            update(model, opts, loss + UNLIKELY_WEIGHT * penalty)
            step += 1
        left = (time.monotonic() - began) / (number + 1) * (rounds - number - 1) / 60
        print(
            f"round {number + 1}/{rounds} distinct 4-grams {distinct(tokens, prompt):.3f} "
            f"loss {loss.item():.3f} {left:.1f} min left",
            flush=True,
        )
    print(f"validation loss {held_out_loss(real_lean, validation):.3f}", flush=True)
    torch.save({"model": model.state_dict()}, cache / "target_tuned.pt")


def main() -> None:
    """Parse the options and tune."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("training/cache"))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tune(options.cache, options.rounds)


if __name__ == "__main__":
    main()
