"""What the executor and the two disaggregated servers share: live requests, and how they end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from ._errors import SlotPoolExhaustedError, UnknownRequestError
from ._gate import AcceptanceGate
from ._micro_batch import MicroBatch
from ._requests import ExecutorStoppedError, RequestState, check_id, check_request
from ._step_batch import Chunk
from ._step_engine import StepEngine

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Iterable, Sequence

    from torch import Tensor

    from specmeta import Deployment, RequestId

    from ._requests import FinishReason, Request, RequestResult, WaitingRequest
    from ._step_batch import KnownStates
    from ._step_worker import StepWorker
    from ._target import TargetRunner


class Server(ABC):
    """Live requests on one target and worker.

    The requests are divided over `pipeline_parallel_size` micro-batches of up to `max_num_requests`
    each. A step serves one, then it is the next one's turn; a request keeps its slots in between.

    Stopping: an error inside a step leaves the worker in an unknown state, so the server stops. It
    keeps the list of what is unfinished, gives the target's slots back, and refuses everything from
    then on. A `KeyboardInterrupt` inside a step does the same and is raised as it is.
    """

    def __init__(
        self, deployment: Deployment, target: TargetRunner, worker: StepWorker | None
    ) -> None:
        self._engine = StepEngine(deployment, target, worker)
        self.deployment = deployment
        self._pool = target.pool
        self._store = target.store
        self._batches = [MicroBatch() for _ in range(deployment.engine.pipeline_parallel_size)]
        self._turn = 0
        self._live: dict[RequestId, RequestState] = {}
        self._paused: set[RequestId] = set()
        self._gate = AcceptanceGate.of(deployment.decoding)
        self._stopped: BaseException | None = None
        # Results that no step has returned yet: an error on the way cannot lose them.
        self._ended: list[RequestResult] = []

    @property
    @abstractmethod
    def unfinished(self) -> tuple[Request, ...]:
        """The accepted requests that are still here."""

    @property
    def stopped(self) -> bool:
        """Whether a step failed, after which nothing runs any more."""
        return self._stopped is not None

    @property
    def paused(self) -> tuple[RequestId, ...]:
        """The unfinished requests that are paused."""
        ids = (request.request_id for request in self.unfinished)
        return tuple(request_id for request_id in ids if request_id in self._paused)

    @property
    def speculating(self) -> bool:
        """Whether drafts are made: not without a worker, nor once the acceptance gate closed."""
        return self._engine.speculating

    def pause(self, request_id: RequestId) -> None:
        """Leave a request out of every batch until `resume`; it keeps its slots and what is in
        them, and its seat. One that waits for a slot goes on waiting.

        Raises:
            TypeError: no request id.
            UnknownRequestError: it is not live.
            ExecutorStoppedError: an earlier step failed.

        """
        self._check_here(request_id)
        self._paused.add(request_id)
        if (state := self._live.get(request_id)) is not None:
            self._batch_of(state).pause(state)

    def resume(self, request_id: RequestId) -> None:
        """Go on with a paused request where it was; raises as `pause`."""
        self._check_here(request_id)
        self._paused.discard(request_id)
        if (state := self._live.get(request_id)) is not None:
            self._batch_of(state).resume(state)

    def _check_here(self, request_id: RequestId) -> None:
        self._check_running()
        check_id(request_id)
        if all(request.request_id != request_id for request in self.unfinished):
            raise _unknown(request_id)

    def _accept(self, request: Request, waiting: Container[RequestId]) -> None:
        """Refuse a request that this server cannot serve."""
        self._check_running()
        check_request(request, self.deployment)
        request_id = request.request_id
        # In the pool, but not live here: it belongs to another server on the same target.
        if request_id in self._pool or request_id in waiting:
            raise ValueError(
                f"request {request_id}: request_id {request_id} is live already; give every "
                "request an id of its own"
            )

    def _next_batch(self) -> MicroBatch:
        """The micro-batch whose turn it is, until `_end_turn`."""
        return self._batches[self._turn]

    def _end_turn(self) -> None:
        self._turn = (self._turn + 1) % len(self._batches)

    def _has_seat(self, batch: MicroBatch, num_waiting: int) -> bool:
        """Whether one of the waiting requests may join: micro-batches fill up evenly."""
        share = -(-(len(self._live) + num_waiting) // len(self._batches))
        seats = min(self.deployment.engine.max_num_requests, share)
        return len(batch.states) < seats and self._pool.num_free > 0

    def _open(self, waiting: WaitingRequest, batch: MicroBatch) -> RequestState:
        request_id = waiting.request.request_id
        if request_id in self._engine.released:  # the worker must see it end before it starts
            self._engine.flush()
        try:
            state = RequestState(
                waiting.request,
                self._pool.assign(request_id).slot,
                tokens=list(waiting.tokens),
                accepted_lengths=list(waiting.accepted_lengths),
            )
            self._store.open(state.slot)
            self._live[request_id] = batch.states[request_id] = state
        except BaseException:  # not live, so nobody else would give the slot back
            self._live.pop(request_id, None)
            batch.states.pop(request_id, None)
            if request_id in self._pool:
                self._pool.release(request_id)
            raise
        return state

    def _check_progress(self, *, waiting: bool) -> None:
        if waiting and not self._live and not self._pool.num_free:
            raise SlotPoolExhaustedError(
                f"all {self._pool.num_slots} slots of the target belong to another server; finish "
                "its requests first, or give each server a runner of its own"
            )

    def _seed(self, parts: Sequence[KnownStates]) -> None:
        """Show the worker known states, in as many batches as `max_num_tokens` asks for."""
        limit = self.deployment.engine.max_num_tokens
        chunks: list[Chunk] = []
        captured: list[Tensor] = []
        budget = limit
        for part in parts:
            done = 0
            while done < len(part.captured):
                # A row may appear once in a batch, so a chunk that fills it is its last.
                states = part.captured[done : done + budget]
                chunks.append(Chunk(part.state, part.start + done, len(states)))
                captured.append(states)
                budget -= len(states)
                done += len(states)
                if budget == 0:
                    self._engine.seed(chunks, torch.cat(captured))
                    chunks, captured, budget = [], [], limit
        if chunks:
            self._engine.seed(chunks, torch.cat(captured))

    def _finish(self, state: RequestState, reason: FinishReason) -> None:
        """End a request; its result is handed out with those of the step."""
        self._ended.append(state.result(reason))
        self._close(state)
        self._paused.discard(state.request.request_id)

    def _hand_out(self) -> list[RequestResult]:
        ended, self._ended = self._ended, []
        return ended

    def _close(self, state: RequestState) -> None:
        """Give the slots of a request back."""
        request_id = state.request.request_id
        self._pool.release(request_id)
        if self._store.lengths[state.slot]:  # else the worker has never seen it
            self._engine.released.append(request_id)
        self._batch_of(state).remove(state)
        del self._live[request_id]

    def _batch_of(self, state: RequestState) -> MicroBatch:
        request_id = state.request.request_id
        return next(batch for batch in self._batches if request_id in batch.states)

    def _finish_decoding(self, batch: MicroBatch) -> None:
        """End the rows that the last step completed."""
        for state in batch.decoding:
            if (reason := state.finish_reason()) is not None:
                self._finish(state, reason)

    def _watch(self) -> None:
        """Show what the step ended to the acceptance gate; decode plainly once it closes."""
        if self._gate is None or not self.speculating:
            return
        for result in self._ended:
            self._gate.record(result)
        if not self._gate.open:
            self._engine.stop_speculating(list(self._live.values()))

    def _cancel_live(self, request_id: RequestId) -> RequestResult:
        state = self._live.get(request_id)
        if state is None:
            raise _unknown(request_id)
        with self._guard():
            self._finish(state, "cancelled")
        return self._ended.pop()

    def _unfinished(self, waiting: Iterable[Request]) -> tuple[Request, ...]:
        """Each once, and none with a result, wherever an interrupt left them."""
        found = {state.request.request_id: state.request for state in self._live.values()}
        for request in waiting:
            found.setdefault(request.request_id, request)
        for result in self._ended:
            found.pop(result.request_id, None)
        return tuple(found.values())

    def _check_running(self) -> None:
        if self.stopped:
            raise ExecutorStoppedError(self.unfinished, self._ended) from self._stopped

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
                raise ExecutorStoppedError(self.unfinished, self._ended) from error
            raise


def _unknown(request_id: RequestId) -> UnknownRequestError:
    return UnknownRequestError(
        f"request {request_id!r} is not live here; name one that was submitted and has no result"
    )
