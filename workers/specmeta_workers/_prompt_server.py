"""What the servers that run prompts share: the queue, and who leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._prompt_queue import PromptQueue
from ._requests import check_id
from ._server import Server

if TYPE_CHECKING:
    from specmeta import Deployment, RequestId

    from ._micro_batch import MicroBatch
    from ._requests import Request, RequestResult, RequestState
    from ._step_worker import StepWorker
    from ._target import TargetRunner


class PromptServer(Server):
    """A server whose requests arrive as prompts."""

    def __init__(
        self, deployment: Deployment, target: TargetRunner, worker: StepWorker | None
    ) -> None:
        super().__init__(deployment, target, worker)
        self._queue = PromptQueue()

    @property
    def unfinished(self) -> tuple[Request, ...]:
        """The accepted requests that are still here: the running, then the waiting ones."""
        return self._unfinished(self._queue.requests())

    def submit(self, request: Request) -> None:
        """Accept a request; it starts when a seat is free.

        Raises:
            ValueError: names the request, the value and the remedy; nothing has changed.
            TypeError: not a `Request`.
            ExecutorStoppedError: an earlier step failed.

        """
        self._accept(request, self._queue)
        self._queue.append(request)

    def cancel(self, request_id: RequestId) -> RequestResult:
        """End a request with the tokens it has.

        Raises:
            TypeError: no request id.
            UnknownRequestError: it is not live.
            ExecutorStoppedError: an earlier step failed.

        """
        self._check_running()
        check_id(request_id)
        waiting = self._queue.find(request_id)
        if waiting is None:
            return self._cancel_live(request_id)
        self._queue.remove(waiting)
        self._paused.discard(request_id)
        return waiting.result("cancelled")

    def _admit(self, batch: MicroBatch) -> list[RequestState]:
        """Let waiting requests into a micro-batch; those that came in."""
        admitted: list[RequestState] = []
        while (waiting := self._queue.first_ready(self._paused)) is not None:
            if not self._has_seat(batch, self._queue.num_ready(self._paused)):
                break
            state = self._open(waiting, batch)
            self._queue.remove(waiting)
            batch.prefilling.append(state)
            admitted.append(state)
        return admitted
