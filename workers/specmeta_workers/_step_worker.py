"""Workers as a step engine sees them: what they do, what is refused, and the one without drafts."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ._dspark_worker import DraftOutput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specmeta import Deployment


class StepWorker(Protocol):
    """What the executors need of a worker; `DSparkWorker` is one.

    The metadata is Any because each worker takes its own class and refuses the rest; the factory
    picks the class from the deployment.
    """

    def forward(
        self, metadata: Any, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput:
        """Verify the drafts of the rows and draft the next ones."""
        ...

    def seed(self, metadata: Any, *, next_tokens: Tensor, captured: Tensor) -> DraftOutput:
        """Take over rows whose prompt ran elsewhere, and draft their first block."""
        ...


class PlainWorker:
    """Greedy decoding without drafts: commits the target's token of each row."""

    def forward(
        self, metadata: Any, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput:
        """One token a row; the rows have no drafts."""
        del metadata, input_ids, captured
        return self._output(logits.argmax(-1))

    def seed(self, metadata: Any, *, next_tokens: Tensor, captured: Tensor) -> DraftOutput:
        """Nothing to take over."""
        del metadata, captured
        return self._output(next_tokens)

    def _output(self, tokens: Tensor) -> DraftOutput:
        no_drafts = tokens.new_empty(len(tokens), 0)
        return DraftOutput(tokens[:, None], torch.ones_like(tokens), no_drafts)


def check_worker(worker: object, deployment: Deployment, device: torch.device) -> None:
    """Refuse a worker whose first step would fail.

    Raises:
        TypeError: not a worker.
        ValueError: it says that it is for another deployment or device.

    """
    if isinstance(worker, type) or not callable(getattr(worker, "seed", None)):
        raise TypeError(
            f"worker: {getattr(worker, '__name__', type(worker).__name__)} is no worker; pass an "
            "object with forward() and seed(), like a DSparkWorker, or None for no drafts"
        )
    if getattr(worker, "deployment", deployment) != deployment:
        raise ValueError(
            "worker: its deployment is not this one; build the worker and its executor from the "
            "same deployment"
        )
    if (found := getattr(worker, "device", device)) != device:
        raise ValueError(
            f"worker: its device is {found}, the target's {device}; build both for one device"
        )


HostOutput = tuple[list[list[int]], list[int], list[list[int]]]
"""Tokens, accepted counts and drafts of a `DraftOutput`, on the host."""


def read_output(
    output: object, row_lengths: Sequence[int], num_rows: int, max_draft_len: int, vocab_size: int
) -> HostOutput:
    """Bring an outcome to the host; refuse one that no step can have, before it is committed.

    Args:
        output: what the worker returned.
        row_lengths: tokens that each real row may commit at most.
        num_rows: rows of the metadata, padding included.
        max_draft_len: most drafts of a row.
        vocab_size: tokens are below it.

    Raises:
        TypeError: not a `DraftOutput`.
        ValueError: names the field, the value and what a worker must return.

    """
    if not isinstance(output, DraftOutput):
        raise TypeError(f"worker: returned {type(output).__name__}, expected a DraftOutput")
    tokens, accepted, drafts = output.tokens, output.num_accepted, output.draft_tokens
    width = max(row_lengths, default=1)
    fits = {
        "tokens": tokens.dim() == 2 and len(tokens) == num_rows and tokens.shape[1] >= width,
        "num_accepted": accepted.shape == (num_rows,),
        "draft_tokens": drafts.dim() == 2
        and len(drafts) == num_rows
        and drafts.shape[1] <= max_draft_len,
    }
    for name, fit in fits.items():
        field: Tensor = getattr(output, name)
        if not fit or field.dtype != torch.long:
            raise ValueError(
                f"worker: {name} is {list(field.shape)} {field.dtype} for {num_rows} rows of at "
                f"most {width} tokens and {max_draft_len} drafts; return the shapes and the int64 "
                "of DraftOutput"
            )
    rows, counts, drafted = tokens.tolist(), accepted.tolist(), drafts.tolist()
    # Padding rows, which come last, mean nothing.
    for row, (count, length) in enumerate(zip(counts, row_lengths, strict=False)):
        if not 1 <= count <= length:
            raise ValueError(
                f"worker: num_accepted[{row}] is {count} for a row of {length} tokens; a row "
                "commits at least the target's own token, and one more a draft that it accepts"
            )
    real = len(row_lengths)
    committed = [row[:count] for row, count in zip(rows[:real], counts, strict=False)]
    for name, lists in (("tokens", committed), ("draft_tokens", drafted[:real])):
        flat = list(chain.from_iterable(lists))
        if flat and not 0 <= min(flat) <= max(flat) < vocab_size:
            raise ValueError(
                f"worker: {name} has {min(flat)} to {max(flat)}; return tokens of the target's "
                f"vocabulary, 0 to {vocab_size - 1}"
            )
    return rows, counts, drafted
