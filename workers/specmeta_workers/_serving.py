"""What everything that requests are submitted to has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ._requests import ExecutorStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from specmeta import RequestId

    from ._requests import Request, RequestResult


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
    def paused(self) -> tuple[RequestId, ...]:
        """The unfinished requests that are in no batch until they are resumed."""

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
        before = self.unfinished, self.paused
        on_progress(finished, total)
        if (self.unfinished, self.paused) != before:
            raise RuntimeError(
                "on_progress: submitted, cancelled, paused or served requests inside run(); call "
                "submit(), cancel() and step() yourself in place of run()"
            )
