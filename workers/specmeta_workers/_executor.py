"""The reference executor: continuous batching of prefill and decoding on one target."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ._requests import RequestResult
from ._serving import RequestRunner, Server
from ._step_engine import Chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specmeta import Deployment, RequestId

    from ._requests import Request, RequestState
    from ._step_worker import StepWorker
    from ._target import TargetRunner


class PromptQueue:
    """Prompts on their way into the KV store: those that wait for a seat, those in chunks."""

    def __init__(self) -> None:
        self.waiting: deque[Request] = deque()
        self.prefilling: list[RequestState] = []

    def chunks(self, budget: int, positions: Sequence[int]) -> list[Chunk]:
        """The context rows of a step of at most `budget` prompt tokens, oldest request first."""
        chunks = []
        for state in self.prefilling:
            if budget <= 0:
                break
            start = positions[state.slot]
            length = min(len(state.request.prompt_token_ids) - start, budget)
            chunks.append(Chunk(state, start, length))
            budget -= length
        return chunks

    def completed(self, chunks: Sequence[Chunk]) -> list[RequestState]:
        """Take out the requests whose prompt is complete after a step with these rows."""
        done = [chunk.state for chunk in chunks if chunk.state.tokens]
        if done:
            self.prefilling = [state for state in self.prefilling if not state.tokens]
        return done

    def drop(self, request_id: RequestId) -> Request | None:
        """Forget a request; returned where it was still waiting."""
        self.prefilling = [s for s in self.prefilling if s.request.request_id != request_id]
        for request in self.waiting:
            if request.request_id == request_id:
                self.waiting.remove(request)
                return request
        return None


class Executor(Server, RequestRunner):
    """Serves requests greedily, with a worker's drafts or plainly.

    Each step holds the rows of up to `max_num_requests` requests: prompt chunks first, within
    `max_num_tokens` minus the generation rows' tokens, then one generation row a decoding request
    (its last token and its drafts). A step of generation rows alone is padded to the next size of
    `cuda_graph_batch_sizes`, in the shapes that a graph of it would have. The output is that of
    plain greedy decoding, whatever the worker drafts.

    An error inside a step stops the executor, see `ExecutorStoppedError`.

    Args:
        deployment: shapes and limits.
        target: `TargetRunner.for_deployment`; executors that are used in turn may share it.
        worker: a worker of the same deployment and of nobody else; None decodes without drafts.

    Raises:
        ValueError: the target does not fit the deployment.

    """

    def __init__(
        self, deployment: Deployment, target: TargetRunner, worker: StepWorker | None
    ) -> None:
        super().__init__(deployment, target, worker)
        self._prompts = PromptQueue()

    @property
    def unfinished(self) -> tuple[Request, ...]:
        """The accepted requests without a result: the running, then the waiting ones."""
        return self._unfinished(self._prompts.waiting)

    def submit(self, request: Request) -> None:
        """Accept a request; it starts when a seat is free.

        Raises:
            ValueError: names the request, the value and the remedy; nothing has changed.
            TypeError: not a `Request`.
            ExecutorStoppedError: an earlier step failed.

        """
        self._accept(request, self._prompts.waiting)
        self._prompts.waiting.append(request)

    def step(self) -> list[RequestResult]:
        """One forward over all live requests; the results of those that it finished.

        Raises:
            ExecutorStoppedError: it failed; nothing runs any more.
            SlotPoolExhaustedError: another executor holds all slots of the target.

        """
        prompts = self._prompts
        self._check_progress(waiting=bool(prompts.waiting))
        with self._guard():
            while prompts.waiting and self._has_seat():
                prompts.prefilling.append(self._open(prompts.waiting[0]))
                prompts.waiting.popleft()
            decoding = self._decoding
            lengths = self._engine.generation_lengths(decoding)
            chunks: list[Chunk] = []
            if prompts.prefilling:
                budget = self.deployment.engine.max_num_tokens - sum(lengths)
                chunks = prompts.chunks(budget, self._store.lengths)
            if not chunks and not decoding:
                return []
            self._engine.step(chunks, decoding, lengths)
            results = self._finished_decoding()
            started = []
            for state in prompts.completed(chunks):
                reason = state.finish_reason()
                if reason is None:
                    started.append(state)
                else:
                    results.append(self._finish(state, reason))
            self._start_decoding(started)
            return results

    def cancel(self, request_id: RequestId) -> RequestResult:
        """End a request with the tokens it has.

        Raises:
            UnknownRequestError: it is not live.
            ExecutorStoppedError: an earlier step failed.

        """
        self._check_running()
        waiting = self._prompts.drop(request_id)
        if waiting is not None:
            return RequestResult(request_id, (), (), "cancelled")
        return self._cancel_live(request_id)

    def flush(self) -> None:
        """Let the worker release finished requests now rather than with the next step."""
        with self._guard():
            self._engine.flush()
