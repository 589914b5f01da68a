"""The decoding side of disaggregated serving."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ._handover import Handover
from ._requests import RequestResult
from ._serving import Server
from ._step_engine import Chunk

if TYPE_CHECKING:
    from specmeta import Deployment, RequestId

    from ._requests import Request, RequestState
    from ._step_worker import StepWorker
    from ._target import TargetRunner


class GenerationServer(Server):
    """Decodes requests whose prompt ran elsewhere.

    A hand-over waits until a slot is free. Then its KV goes into the slot, and the worker is seeded
    under the request's real id with the handed-over states, so the first draft already sees the
    whole window (what a seed under a shared id costs: NVIDIA/TensorRT-LLM#16767).

    Args:
        deployment: shapes and limits.
        target: runner of this server alone.
        worker: a worker of the same deployment and of nobody else; None decodes without drafts.

    Raises:
        ValueError: the target does not fit the deployment.

    """

    def __init__(
        self, deployment: Deployment, target: TargetRunner, worker: StepWorker | None
    ) -> None:
        super().__init__(deployment, target, worker)
        self._waiting: deque[Handover] = deque()

    @property
    def unfinished(self) -> tuple[Request, ...]:
        """The received requests without a result: the running, then the waiting ones."""
        return self._unfinished(handover.request for handover in self._waiting)

    def check(self, request: Request) -> None:
        """Raise what `receive` would for this request, before its prompt runs."""
        self._accept(request, (handover.request for handover in self._waiting))

    def receive(self, handover: Handover) -> None:
        """Accept a request from a context server.

        Raises:
            TypeError: not a `Handover`.
            ValueError: the request, or the states that came along, do not fit the deployment.
            ExecutorStoppedError: an earlier step failed.

        """
        if type(handover) is not Handover:
            raise TypeError(
                f"handover: {type(handover).__name__} is not a Handover; read a message with "
                "Handover.from_bytes"
            )
        self.check(handover.request)
        self._check_parts(handover)
        self._waiting.append(handover)

    def step(self) -> list[RequestResult]:
        """Take in what fits, then one decode forward; the results of those that it finished.

        Raises:
            ExecutorStoppedError: it failed; nothing runs any more.
            SlotPoolExhaustedError: another server holds all slots of the target.

        """
        self._check_progress(waiting=bool(self._waiting))
        with self._guard():
            admitted = []
            while self._waiting and self._has_seat():
                handover = self._waiting[0]
                state = self._open(handover.request)
                self._waiting.popleft()
                self._store.install(state.slot, handover.keys, handover.values)
                state.tokens.append(handover.first_token)
                admitted.append((state, handover))
            if admitted:
                self._seed(admitted)
                self._start_decoding([state for state, _ in admitted])
            decoding = self._decoding
            if not decoding:
                return []
            self._engine.step((), decoding, self._engine.generation_lengths(decoding))
            return self._finished_decoding()

    def cancel(self, request_id: RequestId) -> RequestResult:
        """End a received request; raises as `Executor.cancel`."""
        self._check_running()
        for handover in self._waiting:
            if handover.request.request_id == request_id:
                self._waiting.remove(handover)
                return RequestResult(request_id, (handover.first_token,), (), "cancelled")
        return self._cancel_live(request_id)

    def flush(self) -> None:
        """Let the worker release finished requests now rather than with the next step."""
        with self._guard():
            self._engine.flush()

    def _check_parts(self, handover: Handover) -> None:
        name = f"handover of request {handover.request.request_id}"
        target, store = self._engine.target, self._store
        kv = (store.num_layers, store.num_kv_heads, store.head_dim, store.keys.dtype)
        keys = handover.keys
        found = (keys.shape[0], keys.shape[1], keys.shape[3], keys.dtype)
        states = (len(target.target_layer_ids) * target.hidden_size, target.dtype)
        given = (handover.captured.shape[1], handover.captured.dtype)
        for part, (has, needs) in {"keys": (found, kv), "captured": (given, states)}.items():
            if has != needs:
                raise ValueError(
                    f"{name}: its {part} are {has}, this server needs {needs}; run the same target "
                    "and drafter on both servers"
                )
        if (layers := handover.target_layer_ids) != target.target_layer_ids:
            raise ValueError(
                f"{name}: its captured states are of target_layer_ids {layers}, this server needs "
                f"{target.target_layer_ids}; run the same drafter on both servers"
            )
        token = handover.first_token
        if type(token) is not int or not 0 <= token < target.vocab_size:
            raise ValueError(
                f"{name}: first_token {token!r} is not an int from 0 to {target.vocab_size - 1}; "
                "hand over the token that the prefill produced"
            )
        # Fewer states would not be wrong, only drafted from badly: nothing later would notice.
        window = self.deployment.window_size
        first = max(0, len(handover.request.prompt_token_ids) - window)
        if handover.first_position > first:
            raise ValueError(
                f"{name}: first_position {handover.first_position} is above {first}, where the "
                f"window of {window} begins; run the same window_size on both servers"
            )

    def _seed(self, admitted: list[tuple[RequestState, Handover]]) -> None:
        """Seed the worker, in as many batches as `max_num_tokens` asks for."""
        limit = self.deployment.engine.max_num_tokens
        chunks: list[Chunk] = []
        captured: list[Tensor] = []
        next_tokens: list[int] = []
        budget = limit
        for state, handover in admitted:
            prompt = handover.request.prompt_token_ids
            start = handover.first_position
            while start < len(prompt):
                # A row may appear once in a batch, so a chunk that fills it is its last.
                length = min(len(prompt) - start, budget)
                end = start + length
                states = handover.captured[start - handover.first_position :][:length]
                chunks.append(Chunk(state, start, length))
                captured.append(states)
                next_tokens.append(prompt[end] if end < len(prompt) else handover.first_token)
                budget -= length
                start = end
                if budget == 0:
                    self._engine.seed(chunks, next_tokens, torch.cat(captured))
                    chunks, captured, next_tokens, budget = [], [], [], limit
        if chunks:
            self._engine.seed(chunks, next_tokens, torch.cat(captured))
