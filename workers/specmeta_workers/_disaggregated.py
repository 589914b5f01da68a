"""Prefill and decoding on two servers that share nothing but messages."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ._errors import UnknownRequestError
from ._handover import Handover
from ._requests import ExecutorStoppedError, RequestResult, check_id
from ._serving import RequestRunner

if TYPE_CHECKING:
    from specmeta import RequestId

    from ._context_server import ContextServer
    from ._generation_server import GenerationServer
    from ._requests import Request


class DisaggregatedExecutor(RequestRunner):
    """A context server and a generation server in one process, connected by bytes alone."""

    def __init__(self, context: ContextServer, generation: GenerationServer) -> None:
        self.context = context
        self.generation = generation
        # Between the servers: kept until it has arrived, so that an error cannot lose it.
        self._in_transit: deque[Handover] = deque()
        # Results of a step that an interrupt left: every ExecutorStoppedError since then has them.
        self._ended: list[RequestResult] = []

    @property
    def unfinished(self) -> tuple[Request, ...]:
        """The accepted requests without a result, on either server or between them."""
        moving = (handover.request for handover in self._in_transit)
        return (*self.generation.unfinished, *moving, *self.context.unfinished)

    @property
    def paused(self) -> tuple[RequestId, ...]:
        """The requests that either server has paused."""
        return (*self.generation.paused, *self.context.paused)

    @property
    def stopped(self) -> bool:
        """Whether a step of either server failed, after which the pair serves nothing."""
        return self.context.stopped or self.generation.stopped

    def submit(self, request: Request) -> None:
        """Accept a request that both servers can serve; raises as `Executor.submit`."""
        self.generation.check(request)
        for handover in self._in_transit:
            if handover.request.request_id == request.request_id:
                raise ValueError(
                    f"request {request.request_id}: request_id {request.request_id} is live "
                    "already, on its way between the servers; give every request an id of its own"
                )
        self.context.submit(request)

    def step(self) -> list[RequestResult]:
        """One step of each server; the results of the requests that they finished.

        Raises:
            ExecutorStoppedError: a server stopped; what the other finished is in it.
            ValueError: a hand-over does not fit the generation server.

        """
        results: list[RequestResult] = []
        try:
            for outcome in self.context.step():
                if isinstance(outcome, RequestResult):
                    results.append(outcome)
                else:
                    self._in_transit.append(outcome)
            try:
                self._deliver()
            except (ValueError, MemoryError):
                if not results:
                    raise
                return results  # not lost to the error, which the next step will meet again
            return results + self.generation.step()
        except BaseException as error:
            if self.stopped:
                self._ended += results
            if isinstance(error, ExecutorStoppedError):
                ended = [*self._ended, *error.finished]
                raise ExecutorStoppedError(self.unfinished, ended) from error.__cause__
            raise

    def _deliver(self) -> None:
        while self._in_transit:
            message = self._in_transit[0].to_bytes()
            self.generation.receive(Handover.from_bytes(message))
            self._in_transit.popleft()

    def cancel(self, request_id: RequestId) -> RequestResult:
        """End a request with the tokens it has, wherever it is; raises as `Executor.cancel`."""
        check_id(request_id)
        for handover in self._in_transit:
            if handover.request.request_id == request_id:
                self._in_transit.remove(handover)
                return RequestResult(request_id, (handover.first_token,), (), "cancelled")
        try:
            return self.generation.cancel(request_id)
        except UnknownRequestError:
            return self.context.cancel(request_id)

    def flush(self) -> None:
        """Let the worker release finished requests now rather than with the next step."""
        self.generation.flush()
