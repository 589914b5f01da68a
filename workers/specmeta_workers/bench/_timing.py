"""What an iteration costs: the target's forward, and the worker's, which accepts and drafts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import attrs

from .._target import TargetRunner

if TYPE_CHECKING:
    from torch import Tensor

    from .._draft_output import DraftOutput
    from .._methods import Worker
    from .._target_layout import TargetRows


@attrs.define
class Stopwatch:
    """Seconds of the iterations that only decode, one figure each; prefills are left out."""

    target: list[float] = attrs.Factory(list)
    worker: list[float] = attrs.Factory(list)

    def add(self, other: Stopwatch) -> None:
        """Take in the iterations of another process."""
        self.target += other.target
        self.worker += other.worker


class TimedTarget(TargetRunner):
    """A runner that several servers use in turn; the stopwatch is that of the one which runs."""

    stopwatch: Stopwatch | None = None

    def forward(self, rows: TargetRows, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        began = time.perf_counter()
        output = super().forward(rows, input_ids)
        if self.stopwatch is not None and rows.num_contexts == 0:
            self.stopwatch.target.append(time.perf_counter() - began)
        return output


class TimedWorker:
    """A worker with a stopwatch."""

    def __init__(self, worker: Worker, stopwatch: Stopwatch) -> None:
        self._worker = worker
        self._stopwatch = stopwatch
        self.deployment = worker.deployment
        self.device = worker.device

    def forward(
        self, metadata: Any, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput:
        """As the worker's."""
        began = time.perf_counter()
        # Any: the engine has the metadata of this worker's deployment.
        worker: Any = self._worker
        output: DraftOutput = worker.forward(
            metadata, input_ids=input_ids, logits=logits, captured=captured
        )
        # A step of padding alone tells about finished requests; it is no iteration.
        if metadata.request_ids and metadata.num_contexts == 0:
            self._stopwatch.worker.append(time.perf_counter() - began)
        return output

    def seed(
        self, metadata: Any, *, input_ids: Tensor, next_tokens: Tensor, captured: Tensor
    ) -> DraftOutput:
        """As the worker's."""
        worker: Any = self._worker
        output: DraftOutput = worker.seed(
            metadata, input_ids=input_ids, next_tokens=next_tokens, captured=captured
        )
        return output
