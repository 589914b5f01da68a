"""What the executors and the two disaggregated servers share: live requests, stopping, running."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ._errors import SlotPoolExhaustedError, UnknownRequestError
from ._requests import ExecutorStoppedError, Request, RequestResult, RequestState, check_request
from ._step_engine import StepEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from specmeta import Deployment, RequestId

    from ._requests import FinishReason
    from ._step_worker import StepWorker
    from ._target import TargetRunner


class RequestRunner(ABC):
    """Anything that requests can be submitted to; adds `run` on top of single steps."""

    @abstractmethod
    def submit(self, request: Request) -> None:
        """Accept a request, or refuse it with a `ValueError` that says what to change."""

    @abstractmethod
    def step(self) -> list[RequestResult]:
        """Run one step; the requests that it finished. Without live requests: does nothing."""

    @abstractmethod
    def cancel(self, request_id: RequestId) -> RequestResult:
        """End a request with the tokens it has; `UnknownRequestError` where it is not live."""

    @abstractmethod
    def flush(self) -> None:
        """Let the workers release finished requests now rather than with the next step."""

    @property
    @abstractmethod
    def unfinished(self) -> tuple[Request, ...]:
        """The accepted requests without a result."""

    @property
    @abstractmethod
    def stopped(self) -> bool:
        """Whether a step failed, after which nothing runs any more."""

    def run(
        self,
        requests: Iterable[Request],
        on_progress: Callable[[int, int], None] | None = None,
    ) -> list[RequestResult]:
        """Serve the requests to the end; their results in the order of the requests.

        Where it is left by an error or an interrupt, its requests do not stay behind: between steps
        they are cancelled, within a step the executor stops.

        Args:
            requests: all are checked before the first runs.
            on_progress: called with (finished, total) after each step that finished a request. It
                may look, and stop the run by raising, but not submit, cancel or step.

        Raises:
            ValueError: a request is refused (nothing runs then), or others are still live.
            RuntimeError: `on_progress` changed what is live.
            ExecutorStoppedError: a step failed; it holds the finished and the unfinished.

        """
        todo = list(requests)
        if self.unfinished and not self.stopped:
            raise ValueError(
                f"run: {len(self.unfinished)} submitted requests are unfinished; step() until they "
                "are done, or cancel them, so that no result is mixed up"
            )
        results: dict[RequestId, RequestResult] = {}
        try:
            for request in todo:
                self.submit(request)
            while len(results) < len(todo):
                finished = self.step()
                results.update((result.request_id, result) for result in finished)
                if finished and on_progress is not None:
                    self._report(on_progress, len(results), len(todo))
            self.flush()
        except ExecutorStoppedError as error:
            finished = [*results.values(), *error.finished]
            raise ExecutorStoppedError(error.unfinished, finished) from error.__cause__
        except BaseException:
            if not self.stopped:
                for request in self.unfinished:
                    self.cancel(request.request_id)
            raise
        return [results[request.request_id] for request in todo]

    def _report(self, on_progress: Callable[[int, int], None], finished: int, total: int) -> None:
        live = self.unfinished
        on_progress(finished, total)
        if self.unfinished != live:
            raise RuntimeError(
                "on_progress: submitted, cancelled or served requests inside run(); call submit(), "
                "cancel() and step() yourself in place of run()"
            )


class Server(ABC):
    """Live requests on one target and worker.

    Stopping: an error inside a step leaves the worker in an unknown state, so the server stops. It
    keeps the list of what is unfinished, gives the target's slots back, and refuses everything from
    then on. A `KeyboardInterrupt` inside a step does the same and is raised as it is.
    """

    def __init__(
        self, deployment: Deployment, target: TargetRunner, worker: StepWorker | None
    ) -> None:
        self.deployment = deployment
        self._engine = StepEngine(deployment, target, worker)
        self._pool = target.pool
        self._store = target.store
        self._live: dict[RequestId, RequestState] = {}
        # Replaced when it changes and never altered: its identity means "the same batch".
        self._decoding: list[RequestState] = []
        self._stopped: BaseException | None = None

    @property
    @abstractmethod
    def unfinished(self) -> tuple[Request, ...]:
        """The accepted requests that are still here."""

    @property
    def stopped(self) -> bool:
        """Whether a step failed, after which nothing runs any more."""
        return self._stopped is not None

    def _accept(self, request: Request, waiting: Iterable[Request]) -> None:
        """Refuse a request that this server cannot serve."""
        self._check_running()
        check_request(request, self.deployment)
        request_id = request.request_id
        # In the pool, but not live here: it belongs to another server on the same target.
        if request_id in self._pool or any(r.request_id == request_id for r in waiting):
            raise ValueError(
                f"request {request_id}: request_id {request_id} is live already; give every "
                "request an id of its own"
            )
        if request_id in self._engine.released:
            with self._guard():
                self._engine.flush()

    def _open(self, request: Request) -> RequestState:
        state = RequestState(request, self._pool.assign(request.request_id).slot)
        try:
            self._store.open(state.slot)
        except BaseException:  # not live yet, so nobody else would give the slot back
            self._pool.release(request.request_id)
            raise
        self._live[request.request_id] = state
        return state

    def _check_progress(self, *, waiting: bool) -> None:
        if waiting and not self._live and not self._pool.num_free:
            raise SlotPoolExhaustedError(
                f"all {self._pool.num_slots} slots of the target belong to another server; finish "
                "its requests first, or give each server a runner of its own"
            )

    def _has_seat(self) -> bool:
        return len(self._live) < self.deployment.engine.max_num_requests and self._pool.num_free > 0

    def _finish(self, state: RequestState, reason: FinishReason) -> RequestResult:
        result = state.result(reason)
        self._close(state)
        return result

    def _close(self, state: RequestState) -> None:
        request_id = state.request.request_id
        self._pool.release(request_id)
        if self._store.lengths[state.slot]:  # else the worker has never seen it
            self._engine.released.append(request_id)
        del self._live[request_id]

    def _start_decoding(self, states: list[RequestState]) -> None:
        if states:
            # By slot, so that the batch is a range of the KV store whenever it can be.
            self._decoding = sorted([*self._decoding, *states], key=lambda state: state.slot)

    def _finished_decoding(self) -> list[RequestResult]:
        """Results of the rows that the last step completed."""
        reasons: list[FinishReason | None] = [s.finish_reason() for s in self._decoding]
        if not any(reasons):
            return []
        rows = list(zip(self._decoding, reasons, strict=True))
        self._decoding = [state for state, reason in rows if reason is None]
        return [self._finish(state, reason) for state, reason in rows if reason is not None]

    def _cancel_live(self, request_id: RequestId) -> RequestResult:
        state = self._live.get(request_id)
        if state is None:
            raise UnknownRequestError(
                f"request {request_id!r} is not live here; cancel only what was submitted and has "
                "no result"
            )
        self._decoding = [other for other in self._decoding if other is not state]
        return self._finish(state, "cancelled")

    def _unfinished(self, waiting: Iterable[Request]) -> tuple[Request, ...]:
        return (*(state.request for state in self._live.values()), *waiting)

    def _check_running(self) -> None:
        if self.stopped:
            raise ExecutorStoppedError(self.unfinished) from self._stopped

    @contextmanager
    def _guard(self) -> Generator[None]:
        """Stop the server where the body is left by an exception."""
        self._check_running()
        try:
            yield
        except BaseException as error:
            self._stopped = error
            for request_id in self._live:
                if request_id in self._pool:
                    self._pool.release(request_id)
            if isinstance(error, Exception):
                raise ExecutorStoppedError(self.unfinished) from error
            raise
