"""Workers as a step engine sees them: what they do, what is refused, and the one without drafts."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import torch
from torch import Tensor

from ._draft_output import DraftOutput
from ._random import SAMPLE, uniform
from ._sampling import SamplingTensors, probabilities, sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specmeta import Deployment

    from ._requests import RequestState
    from ._target import TargetRunner


class StepWorker(Protocol):
    """What the executors need of a worker; `DSparkWorker`, `DFlashWorker`, `MTPWorker` are such.

    The metadata is Any because each worker takes its own class and refuses the rest; the factory
    picks the class from the deployment.
    """

    def forward(
        self, metadata: Any, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput:
        """Verify the drafts of the rows and draft the next ones."""
        ...

    def seed(
        self, metadata: Any, *, input_ids: Tensor, next_tokens: Tensor, captured: Tensor
    ) -> DraftOutput:
        """Take over rows whose states were captured before, and draft behind known tokens."""
        ...


class PlainWorker:
    """Decoding without drafts: commits the target's token of each row.

    Args:
        target: the runner of the rows; where a request is sampled, its store says at which
            position, which the random numbers depend on.

    """

    def __init__(self, target: TargetRunner) -> None:
        self._target = target

    def forward(
        self, metadata: Any, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput:
        """One token a row; the rows have no drafts."""
        del input_ids, captured
        if metadata.sampling is None:
            return self._output(logits.argmax(-1))
        pool, store = self._target.pool, self._target.store
        positions = [store.lengths[pool.lookup(i).slot] for i in metadata.request_ids]
        sampling = SamplingTensors.of(
            metadata.sampling,
            num_padding=0,
            vocab_size=self._target.vocab_size,
            device=logits.device,
        )
        numbers = uniform(sampling.seed, torch.tensor(positions, device=logits.device), SAMPLE)
        return self._output(sample(probabilities(logits, sampling), numbers))

    def seed(
        self, metadata: Any, *, input_ids: Tensor, next_tokens: Tensor, captured: Tensor
    ) -> DraftOutput:
        """Nothing to take over."""
        del metadata, input_ids, captured
        return self._output(next_tokens)

    def _output(self, tokens: Tensor) -> DraftOutput:
        no_drafts = tokens.new_empty(len(tokens), 0)
        one = torch.ones_like(tokens)
        return DraftOutput(tokens[:, None], one, no_drafts, torch.zeros_like(tokens))


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


@attrs.frozen
class HostOutput:
    """A `DraftOutput` on the host, its rows as `read_output` checked them."""

    tokens: list[list[int]]
    accepted: list[int]
    drafts: list[list[int]]
    """The drafts of each row that are worth verifying."""
    confidence: list[list[float]] | None

    def draft(self, row: int, state: RequestState) -> None:
        """Give a row's drafts to its request."""
        state.drafts = self.drafts[row]
        state.confidence = [] if self.confidence is None else self.confidence[row]


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
        "draft_lens": output.draft_lens.shape == (num_rows,),
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
    lengths = output.draft_lens.tolist()
    # Padding rows, which come last, mean nothing.
    for row, (count, length) in enumerate(zip(counts, row_lengths, strict=False)):
        if not 1 <= count <= length:
            raise ValueError(
                f"worker: num_accepted[{row}] is {count} for a row of {length} tokens; a row "
                "commits at least the target's own token, and one more a draft that it accepts"
            )
    real = len(row_lengths)
    for row, length in enumerate(lengths[:real]):
        if not 0 <= length <= drafts.shape[1]:
            raise ValueError(
                f"worker: draft_lens[{row}] is {length} for {drafts.shape[1]} drafts; return how "
                "many of them to verify"
            )
    committed = [row[:count] for row, count in zip(rows[:real], counts, strict=False)]
    for name, lists in (("tokens", committed), ("draft_tokens", drafted[:real])):
        flat = list(chain.from_iterable(lists))
        if flat and not 0 <= min(flat) <= max(flat) < vocab_size:
            raise ValueError(
                f"worker: {name} has {min(flat)} to {max(flat)}; return tokens of the target's "
                f"vocabulary, 0 to {vocab_size - 1}"
            )
    kept = [row[:length] for row, length in zip(drafted, lengths, strict=True)]
    judged = None if output.confidence is None else output.confidence.tolist()
    return HostOutput(rows, counts, kept, judged)
