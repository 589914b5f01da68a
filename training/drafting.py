"""What the trainings of the three drafters share: data, target, budget, measure.

The budget is equal: the same sequences and anchors at each step, the same steps, optimizers and
schedule, and parameters within a factor of 1.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs
import numpy as np
import torch
import torch.nn.functional as F
from loop import make_optimizers, train_resumable, training_options
from torch import Tensor, nn
from train_target import load_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from transformers import Qwen3ForCausalLM

M = TypeVar("M", bound=nn.Module)

SEED = 22
STEPS = 3200
BATCH = 16
ANCHORS = 40
DRAFTS = 7
FIRST_ANCHOR = 16
LOSS_DECAY = 4.0
TARGET_LAYERS = (1, 2, 3)
MASK_TOKEN_ID = 1


@attrs.frozen
class Batch:
    """The data of one step: B sequences of S tokens, A anchors each, K drafts an anchor."""

    tokens: Tensor
    """`[B, S]`."""
    states: Tensor
    """The target's states behind `TARGET_LAYERS` and behind its final norm, `[B, S, m + 1, d]`."""
    anchors: Tensor
    """Positions `[B, A]` of the last token that a draft knows."""
    slots: Tensor
    """Positions `[B, A, K]` from the anchor on; a draft predicts the token behind its slot."""

    @property
    def previous(self) -> Tensor:
        """Tokens `[B, A, K]` just before the drafts."""
        return self._at(self.slots)

    @property
    def labels(self) -> Tensor:
        """Tokens `[B, A, K]` that the drafts should be."""
        return self._at(self.slots + 1)

    def _at(self, slots: Tensor) -> Tensor:
        return self.tokens.gather(1, slots.flatten(1)).view_as(slots)

    def target_logits(self, head: Tensor) -> Tensor:
        """The target's own logits `[B, A, K, V]` for the drafts; `head [V, d]`."""
        rows = torch.arange(len(self.tokens))[:, None, None]
        final = self.states[rows, self.slots, -1]
        return F.linear(final.to(head.dtype), head).float()


class Batches:
    """Sequences, their states and random anchors, the same for the same step."""

    def __init__(self, cache: Path) -> None:
        self.tokens = torch.from_numpy(np.load(cache / "drafter_tokens.npy")).long()
        self._states = np.load(cache / "drafter_hidden.npy", mmap_mode="r")
        self._per_epoch = len(self.tokens) // BATCH

    def __call__(self, step: int) -> Batch:
        """The batch of a step, counted from 0."""
        epoch, index = divmod(step, self._per_epoch)
        shuffle = torch.Generator().manual_seed(SEED + epoch)
        order = torch.randperm(len(self.tokens), generator=shuffle)
        rows = order[index * BATCH : (index + 1) * BATCH].sort().values
        drawn = torch.Generator().manual_seed(SEED + 7919 * step)
        span = self.tokens.shape[1] - DRAFTS - FIRST_ANCHOR
        anchors = torch.rand(BATCH, span, generator=drawn).argsort(1)[:, :ANCHORS] + FIRST_ANCHOR
        anchors = anchors.sort(1).values
        return Batch(
            tokens=self.tokens[rows],
            states=torch.from_numpy(self._states[rows.numpy()]),
            anchors=anchors,
            slots=anchors[..., None] + torch.arange(DRAFTS),
        )


def slot_mean(losses: Tensor) -> Tensor:
    """Mean of `losses [B, A, K]`, draft k weighted by `exp(-(k - 1) / 4)`, k from 1."""
    weight = torch.exp(-torch.arange(losses.shape[-1]) / LOSS_DECAY).expand_as(losses)
    return (losses * weight).sum() / weight.sum()


def cross_entropy_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Weighted mean over the drafts; `logits [B, A, K, V]`, `labels [B, A, K]`."""
    losses = F.cross_entropy(logits.flatten(0, 2), labels.flatten(), reduction="none")
    return slot_mean(losses.view_as(labels))


def matched_length(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Mean accept length of greedy drafts where the tokens are forced: both `[B, A, K, V]`."""
    matched = (logits.argmax(-1) == target_logits.argmax(-1)).float().cumprod(-1)
    return 1 + matched.sum(-1).mean()


def share_with_target(model: nn.Module, target: Qwen3ForCausalLM) -> Tensor:
    """Freeze the target's embedding and head into a fresh drafter, draw the matrices of the rest.

    Returns the head `[V, d]`.
    """
    head: Tensor = target.lm_head.weight.detach().clone()
    for name, parameter in model.named_parameters():
        if name.startswith(("embed_tokens", "lm_head")):
            parameter.data.copy_(head)
            parameter.requires_grad = False
        elif parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.02)
    return head


def own_parameters(model: nn.Module) -> int:
    """How many parameters a drafter has that are not the target's."""
    shared = ("embed_tokens", "lm_head")
    return sum(p.numel() for name, p in model.named_parameters() if not name.startswith(shared))


def train_drafter(
    description: str | None,
    checkpoint: str,
    make_model: Callable[[int], M],
    body: Callable[[M], Iterable[Tensor]],
    make_forward: Callable[[M, int, Tensor], Callable[[Batch], tuple[Tensor, Tensor]]],
) -> None:
    """Train a drafter into `checkpoint` of the cache; the command line of a training.

    `make_model(vocab_size)`; `body(model)` are the matrices that Muon trains; `make_forward(model,
    length, head [V, d])` gives the function from a batch to the loss and the matched length.
    """
    options = training_options(description, steps=STEPS)
    torch.manual_seed(SEED)
    target = load_target(options.cache)
    model = make_model(target.config.vocab_size)
    head = share_with_target(model, target).to(torch.bfloat16)
    batches = Batches(options.cache)
    forward = make_forward(model, batches.tokens.shape[1], head)
    print(f"{own_parameters(model):,} trained parameters, {batches.tokens.numel():,} tokens")

    def losses(step: int) -> tuple[Tensor, dict[str, float]]:
        loss, matched = forward(batches(step))
        return loss, {"matched": matched.item()}

    train_resumable(
        options.cache / checkpoint,
        model,
        make_optimizers(model, body(model)),
        steps=options.steps,
        save_every=options.save_every,
        losses=losses,
    )
