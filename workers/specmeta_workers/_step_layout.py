"""Where the rows of a step lie in its flat tensors, as index tensors.

Rows come in metadata order: contexts, generations, padding. Tokens lie flat, row after row; a
padding row has `max_draft_len + 1` tokens. Logits have one row for each context (its last token)
and one for each token of every other row. The layout is a function of the metadata alone, so a
worker builds it once for each metadata object, and a decode step on an unchanged batch does no host
work.

Letters: R rows, C contexts, G generation and padding rows, K = `max_draft_len`, T tokens.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import attrs
import torch
from torch import Tensor

if TYPE_CHECKING:
    from specmeta import DSparkSpecMetadata


@attrs.frozen(eq=False)
class ContextLayout:
    """The context rows of a step, down to the tokens that a window can still hold."""

    tokens: Tensor
    """Flat token indices `[M]`: the last `min(window, chunk)` tokens of each chunk."""
    rows: Tensor
    """Row `[M]` of each of them."""
    positions: Tensor
    """Absolute position `[M]` of each of them."""
    ends: Tensor
    """Position `[C]` behind each chunk."""
    lengths: Tensor
    """Tokens `[C]` of each chunk."""


@attrs.frozen(eq=False)
class StepLayout:
    """Index tensors of one metadata object on one device."""

    num_rows: int
    num_contexts: int
    num_padding: int
    num_tokens: int
    """T, padding included."""
    num_logits: int
    """Rows of the logits, padding included."""
    logit_index: Tensor
    """Logits row `[R, K + 1]` of each column; columns behind a row repeat its last."""
    draft_index: Tensor
    """Flat token `[R, K]` of each draft; columns behind a row repeat its last token."""
    draft_exists: Tensor
    """Whether the row brought a draft in that column `[R, K]`."""
    first_token: Tensor
    """Flat index `[G, 1]` of the first token of each generation and padding row."""
    offsets: Tensor
    """`0 ... K`, `[K + 1]`."""
    contexts: ContextLayout | None
    """None without context rows."""


def make_layout(metadata: DSparkSpecMetadata, device: torch.device) -> StepLayout:
    """Lay out the rows of `metadata`."""
    width = metadata.max_draft_len + 1
    contexts = metadata.num_contexts
    lengths = [*metadata.seq_lens, *[width] * metadata.num_padding]
    starts = [0, *accumulate(lengths)]
    # A context's last token has its only logits row, at the row's own index.
    widths = [1] * contexts + lengths[contexts:]
    logit_starts = [0, *accumulate(widths)]

    def index(values: list[int] | list[list[int]]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=device)

    rows = range(len(lengths))
    logit_index = [
        [logit_starts[row] + min(column, widths[row] - 1) for column in range(width)]
        for row in rows
    ]
    draft_index = [
        [starts[row] + min(column, lengths[row] - 1) for column in range(1, width)] for row in rows
    ]
    drafts = index([size - 1 for size in widths])
    offsets = torch.arange(width, device=device)
    return StepLayout(
        num_rows=len(lengths),
        num_contexts=contexts,
        num_padding=metadata.num_padding,
        num_tokens=starts[-1],
        num_logits=logit_starts[-1],
        logit_index=index(logit_index),
        draft_index=index(draft_index),
        draft_exists=offsets[:-1] < drafts[:, None],
        first_token=index(starts[contexts:-1])[:, None],
        offsets=offsets,
        contexts=_context_layout(metadata, starts, device) if contexts else None,
    )


def _context_layout(
    metadata: DSparkSpecMetadata, starts: list[int], device: torch.device
) -> ContextLayout:
    tokens: list[Tensor] = []
    rows: list[Tensor] = []
    positions: list[Tensor] = []
    ends: list[int] = []
    for row, first in enumerate(metadata.context_positions):
        length = metadata.seq_lens[row]
        skipped = max(0, length - metadata.window_size)
        kept = torch.arange(skipped, length)
        tokens.append(starts[row] + kept)
        positions.append(first + kept)
        rows.append(torch.full_like(kept, row))
        ends.append(first + length)
    return ContextLayout(
        tokens=torch.cat(tokens).to(device),
        rows=torch.cat(rows).to(device),
        positions=torch.cat(positions).to(device),
        ends=torch.tensor(ends, device=device),
        lengths=torch.tensor(metadata.seq_lens[: metadata.num_contexts], device=device),
    )


def accept_greedy(layout: StepLayout, input_ids: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The target's tokens `[R, K + 1]` and how many each row commits `[R]`.

    `n = 1 + sum(cumprod(draft == target))` over the drafts that a row brought.
    """
    tokens = logits.argmax(-1).take(layout.logit_index)
    matches = (input_ids.take(layout.draft_index) == tokens[:, :-1]) & layout.draft_exists
    return tokens, matches.cumprod(1).sum(1) + 1
