"""A resumable training loop with progress, shared by the target and the drafter."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MUON_LR = 0.02
ADAM_LR = 3e-3
WARM_UP = 100


def training_options(description: str | None, steps: int) -> argparse.Namespace:
    """The options of a training: `cache`, `steps`, `save_every`; sets torch's threads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cache", type=Path, default=Path("training/cache"))
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--save-every", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return options


def make_optimizers(model: nn.Module, matrices: Iterable[Tensor]) -> list[torch.optim.Optimizer]:
    """Muon for the given matrices, AdamW for everything else that is trained."""
    chosen = list(matrices)
    inside = {id(matrix) for matrix in chosen}
    rest = [p for p in model.parameters() if p.requires_grad and id(p) not in inside]
    muon = torch.optim.Muon(chosen, lr=MUON_LR, weight_decay=0.05)
    adam = torch.optim.AdamW(rest, lr=ADAM_LR, betas=(0.9, 0.95), weight_decay=0.0)
    return [muon, adam]


class Schedule:
    """Linear warm-up to each optimizer's rate, then linear decay to zero."""

    def __init__(self, optimizers: list[torch.optim.Optimizer], steps: int) -> None:
        self._groups = [(group, group["lr"]) for opt in optimizers for group in opt.param_groups]
        self._steps = steps

    def apply(self, step: int) -> None:
        """Set the learning rates of step `step`, counted from 0."""
        decay = (self._steps - step) / (self._steps - WARM_UP)
        for group, peak in self._groups:
            group["lr"] = peak * min((step + 1) / WARM_UP, decay)


def update(model: nn.Module, optimizers: list[torch.optim.Optimizer], loss: Tensor) -> None:
    """One optimizer step with the gradient clipped to norm 1."""
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for opt in optimizers:
        opt.step()
        opt.zero_grad()


def train_resumable(
    checkpoint: Path,
    model: nn.Module,
    optimizers: list[torch.optim.Optimizer],
    *,
    steps: int,
    save_every: int,
    losses: Callable[[int], tuple[Tensor, dict[str, float]]],
    on_save: Callable[[], None] = lambda: None,
) -> None:
    """Train for `steps` steps in all, going on from `checkpoint` if it exists.

    `losses(step)` returns the loss and figures to show; their running means are printed every 50
    steps with the pace and the time left.
    """
    schedule = Schedule(optimizers, steps)
    first = 0
    if checkpoint.exists():
        saved: dict[str, Any] = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        for opt, state in zip(optimizers, saved["optimizers"], strict=True):
            opt.load_state_dict(state)
        first = saved["step"]
    means: dict[str, float] = {}
    began = time.monotonic()
    for step in range(first, steps):
        schedule.apply(step)
        loss, figures = losses(step)
        update(model, optimizers, loss)
        for name, value in {"loss": loss.item(), **figures}.items():
            means[name] = 0.98 * means.get(name, value) + 0.02 * value
        done = step + 1
        if done % 50 == 0 or done == steps:
            pace = (time.monotonic() - began) / (done - first)
            shown = " ".join(f"{name} {mean:.3f}" for name, mean in means.items())
            left = f"{pace:.2f} s/step {pace * (steps - done) / 60:.0f} min left"
            print(f"step {done}/{steps} {shown} {left}", flush=True)
        if done % save_every == 0 or done == steps:
            on_save()
            state = {
                "step": done,
                "model": model.state_dict(),
                "optimizers": [opt.state_dict() for opt in optimizers],
            }
            torch.save(state, checkpoint.with_suffix(".tmp"))
            checkpoint.with_suffix(".tmp").replace(checkpoint)
