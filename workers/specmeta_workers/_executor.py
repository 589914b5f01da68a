"""The reference executor: continuous batching of prefill and decoding on one target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._prefix_store import PrefixStore
from ._prompt_server import PromptServer
from ._serving import RequestRunner

if TYPE_CHECKING:
    from specmeta import Deployment, RequestId

    from ._micro_batch import MicroBatch
    from ._prefix_cache import PrefixCache
    from ._requests import RequestResult, RequestState
    from ._step_batch import Chunk
    from ._step_worker import StepWorker
    from ._target import TargetRunner


class Executor(PromptServer, RequestRunner):
    """Serves requests, with a worker's drafts or plainly.

    Each step holds the rows of up to `max_num_requests` requests: prompt chunks first, within
    `max_num_tokens` minus the generation rows' tokens, then one generation row a decoding request
    (its last token and its drafts). A step of generation rows alone is padded to the next size of
    `cuda_graph_batch_sizes`, in the shapes that a graph of it would have. The output is that of
    plain decoding, whatever the worker drafts and whatever `pause`, `preempt` and the prefix cache
    do in between.

    Where the deployment has an acceptance gate and it closes, the executor decodes plainly from
    then on, see `speculating`.

    An error inside a step stops the executor, see `ExecutorStoppedError`.

    Args:
        deployment: shapes and limits.
        target: `TargetRunner.for_deployment`; executors that are used in turn may share it.
        worker: a worker of the same deployment and of nobody else; None decodes without drafts.
        prefix_cache: keeps prompts for later ones that begin alike, of executors with this
            deployment and target; None keeps nothing.

    Raises:
        ValueError: the target, or the cache, does not fit the deployment.

    """

    def __init__(
        self,
        deployment: Deployment,
        target: TargetRunner,
        worker: StepWorker | None,
        *,
        prefix_cache: PrefixCache | None = None,
    ) -> None:
        super().__init__(deployment, target, worker)
        self._prefixes: PrefixStore | None = None
        if prefix_cache is not None:
            self._prefixes = PrefixStore(prefix_cache, deployment, target)

    def step(self) -> list[RequestResult]:
        """One forward over the live requests of a micro-batch; the results of those that it ended.

        Raises:
            ExecutorStoppedError: it failed; nothing runs any more.
            SlotPoolExhaustedError: another executor holds all slots of the target.

        """
        self._check_progress(waiting=self._queue.num_ready(self._paused) > 0)
        with self._guard():
            batch = self._next_batch()
            self._reuse_prefixes(self._admit(batch))
            self._run(batch)
            self._end_turn()
        return self._hand_out()

    def preempt(self, request_id: RequestId) -> None:
        """Take a request's slots away and make it the next to get some.

        It keeps its tokens. Back in a slot, their positions are computed again, and it goes on as
        if nothing had happened. A request without a slot waits already.

        Raises:
            TypeError: no request id.
            UnknownRequestError: it is not live.
            ExecutorStoppedError: an earlier step failed.

        """
        self._check_here(request_id)
        state = self._live.get(request_id)
        if state is not None:
            with self._guard():
                self._queue.put_back(state.suspended())
                self._close(state)

    def flush(self) -> None:
        """Let the worker release finished requests now rather than with the next step."""
        with self._guard():
            self._engine.flush()

    def _run(self, batch: MicroBatch) -> None:
        decoding = batch.decoding
        lengths = self._engine.generation_lengths(decoding)
        chunks: list[Chunk] = []
        if batch.prefilling:
            budget = self.deployment.engine.max_num_tokens - sum(lengths)
            chunks = batch.chunks(budget, self._store.lengths, self._paused)
        new = [chunk for chunk in chunks if not chunk.state.tokens]
        if preempted := [chunk for chunk in chunks if chunk.state.tokens]:
            self._engine.restore(preempted)
        if new or decoding:
            tokens = sum(chunk.length for chunk in new)
            lengths = self._engine.scheduled(decoding, lengths, tokens)
            captured = self._engine.step(new, decoding, lengths)
            if self._prefixes is not None:
                self._prefixes.collect(new, captured)
        self._finish_decoding(batch)
        started = []
        for state in batch.completed(chunks):
            if self._prefixes is not None:
                self._prefixes.keep(state)
            reason = state.finish_reason()
            if reason is None:
                started.append(state)
            else:
                self._finish(state, reason)
        batch.start_decoding(started)
        self._watch()

    def _reuse_prefixes(self, admitted: list[RequestState]) -> None:
        if self._prefixes is not None and admitted:
            self._seed(self._prefixes.install(admitted))

    def _close(self, state: RequestState) -> None:
        if self._prefixes is not None:
            self._prefixes.forget(state)
        super()._close(state)
