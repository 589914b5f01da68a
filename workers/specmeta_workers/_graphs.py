"""The generation path in the fixed shapes of graph buckets: captured on CUDA, eager elsewhere.

A bucket owns copies of the step's inputs at their full shape; a step copies its rows to the front
of them. The slot-indexed state belongs to the worker and is only read and written through them, so
which buckets exist, and in which order they came, changes nothing about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import torch

from ._step_layout import RowIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from specmeta import Deployment

    from ._draft_output import Parts
    from ._generation_path import Rows

    Step = Callable[[], Parts]
    """The generation path on inputs that stay at their addresses."""
    Capture = Callable[[Step], Step]
    """Makes of a step its replay, whose outputs too stay at their addresses."""

_WARM_UPS = 2


class BucketRunner:
    """The buckets of one worker, each made when it is first used.

    Args:
        generate: the worker's generation path.
        deployment: its deployment.
        device: where it runs.

    """

    def __init__(
        self, generate: Callable[[Rows], Parts], deployment: Deployment, device: torch.device
    ) -> None:
        self.generate = generate
        self.capture: Capture | None = CUDACapture(device) if device.type == "cuda" else None
        """How a bucket's step is captured; None runs it eagerly."""
        self._width = deployment.decoding.max_draft_len + 1
        self._scratch_slot = deployment.engine.num_seq_slots
        self._buckets: dict[tuple[int, torch.dtype], _Bucket] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each bucket, in the order in which they were made."""
        return tuple(size for size, _ in self._buckets)

    def run(self, rows: Rows) -> Parts:
        """A step of as many rows as the bucket has; rows may bring fewer than K + 1 tokens."""
        key = (len(rows.slots), rows.logits.dtype)
        if key not in self._buckets:
            inputs = _full_shape(rows, self._width, self._scratch_slot)
            self._buckets[key] = _Bucket(inputs, self.generate, self.capture)
        return self._buckets[key].run(rows)


class CUDACapture:
    """Captures steps as CUDA graphs, which share one memory pool.

    They may share it because no two of them run at once and nobody keeps a replay's own output.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, step: Step) -> Step:
        """Run `step` until its kernels are loaded, then record it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device):
            stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UPS):
                    step()
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(graph, pool=self._pool):
                parts = step()

        def replay() -> Parts:
            graph.replay()
            return parts

        return replay


class _Bucket:
    """One shape. Captured while every row is on the scratch slot, so that no live state changes."""

    def __init__(
        self, inputs: Rows, generate: Callable[[Rows], Parts], capture: Capture | None
    ) -> None:
        self._inputs = inputs

        def step() -> Parts:
            return generate(inputs)

        self._step = step if capture is None else capture(step)

    def run(self, rows: Rows) -> Parts:
        # Fewer tokens than the bucket holds leave older ones behind them: no row refers to those.
        for given, kept in zip(_tensors(rows), _tensors(self._inputs), strict=True):
            kept[: len(given)].copy_(given)
        tokens, accepted, drafts, lengths, confidence = self._step()
        # The next replay overwrites the bucket's own outputs.
        return (
            tokens.clone(),
            accepted.clone(),
            drafts.clone(),
            lengths.clone(),
            None if confidence is None else confidence.clone(),
        )


def _tensors(rows: Rows) -> list[Tensor]:
    sampling = () if rows.sampling is None else rows.sampling
    return [*rows.index, rows.slots, rows.input_ids, rows.logits, rows.captured, *sampling]


def _full_shape(rows: Rows, width: int, scratch_slot: int) -> Rows:
    """Inputs of a bucket: zeros of these rows' types, with all tokens that the rows can have."""
    tokens = len(rows.slots) * width

    def flat(tensor: Tensor) -> Tensor:
        return tensor.new_zeros((tokens, *tensor.shape[1:]))

    return attrs.evolve(
        rows,
        index=RowIndex(*(tensor.clone() for tensor in rows.index)),
        slots=torch.full_like(rows.slots, scratch_slot),
        input_ids=flat(rows.input_ids),
        logits=flat(rows.logits),
        captured=flat(rows.captured),
        sampling=None if rows.sampling is None else rows.sampling.clone(),
    )
