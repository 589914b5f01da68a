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
from typing import TYPE_CHECKING, NamedTuple

import attrs
import torch
from torch import Tensor

if TYPE_CHECKING:
    from specmeta import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata


class RowIndex(NamedTuple):
    """Index tensors whose shapes follow from the number of rows alone, as a graph needs them."""

    logit: Tensor
    """Logits row `[R, K + 1]` of each column; columns behind a row repeat its last."""
    draft: Tensor
    """Flat token `[R, K]` of each draft; columns behind a row repeat its last token."""
    draft_exists: Tensor
    """Whether the row brought a draft in that column `[R, K]`."""
    first_token: Tensor
    """Flat index `[R, 1]` of each row's first token."""


@attrs.frozen(eq=False)
class ContextLayout:
    """The context rows of a step, down to the tokens that a window can still hold."""

    tokens: Tensor
    """Flat token indices `[M]`: the last `min(window, chunk)` tokens of each chunk."""
    rows: Tensor
    """Row `[M]` of each of them."""
    positions: Tensor
    """Absolute position `[M]` of each of them."""
    offsets: Tensor
    """Place of each of them in its chunk `[M]`."""
    ends: Tensor
    """Position `[C]` behind each chunk."""
    lengths: Tensor
    """Tokens `[C]` of each chunk."""
    last_tokens: Tensor
    """Flat index `[C]` of each chunk's last token."""


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
    index: RowIndex
    contexts: ContextLayout | None
    """None without context rows."""


def make_layout(
    metadata: DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata,
    window: int,
    device: torch.device,
) -> StepLayout:
    """Lay out the rows of `metadata` for state that holds `window` tokens a slot."""
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
    return StepLayout(
        num_rows=len(lengths),
        num_contexts=contexts,
        num_padding=metadata.num_padding,
        num_tokens=starts[-1],
        num_logits=logit_starts[-1],
        index=RowIndex(
            logit=index(logit_index),
            draft=index(draft_index),
            draft_exists=torch.arange(width - 1, device=device) < drafts[:, None],
            first_token=index(starts[:-1])[:, None],
        ),
        contexts=_context_layout(metadata, window, starts, device) if contexts else None,
    )


def _context_layout(
    metadata: DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata,
    window: int,
    starts: list[int],
    device: torch.device,
) -> ContextLayout:
    tokens: list[Tensor] = []
    rows: list[Tensor] = []
    positions: list[Tensor] = []
    offsets: list[Tensor] = []
    ends: list[int] = []
    for row, first in enumerate(metadata.context_positions):
        length = metadata.seq_lens[row]
        kept = torch.arange(max(0, length - window), length)
        tokens.append(starts[row] + kept)
        positions.append(first + kept)
        offsets.append(kept)
        rows.append(torch.full_like(kept, row))
        ends.append(first + length)
    lengths = metadata.seq_lens[: metadata.num_contexts]
    return ContextLayout(
        tokens=torch.cat(tokens).to(device),
        rows=torch.cat(rows).to(device),
        positions=torch.cat(positions).to(device),
        offsets=torch.cat(offsets).to(device),
        ends=torch.tensor(ends, device=device),
        lengths=torch.tensor(lengths, device=device),
        last_tokens=torch.tensor(starts[1 : metadata.num_contexts + 1], device=device) - 1,
    )
