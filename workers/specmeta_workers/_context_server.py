"""The prefill side of disaggregated serving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._checks import check_is_deployment
from ._executor import PromptQueue
from ._handover import Handover
from ._requests import RequestResult
from ._serving import Server
from ._step_worker import PlainWorker

if TYPE_CHECKING:
    from specmeta import Deployment, RequestId

    from ._dspark_worker import DraftOutput
    from ._requests import Request, RequestState
    from ._target import TargetRunner


class _WindowCollector(PlainWorker):
    """Keeps the captured states of the last `window` prompt positions of each request."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._states: dict[RequestId, Tensor] = {}

    def forward(
        self, metadata: Any, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput:
        chunks = torch.split(captured, list(metadata.seq_lens))
        for request_id, chunk in zip(metadata.request_ids, chunks, strict=True):
            before = self._states.get(request_id)
            states = chunk if before is None else torch.cat([before, chunk])
            # A copy: a view would keep the states of the whole batch alive.
            self._states[request_id] = states[-self._window :].clone()
        return super().forward(metadata, input_ids=input_ids, logits=logits, captured=captured)

    def take(self, request_id: RequestId) -> Tensor | None:
        """Hand out what a request has, which then is forgotten; None before its first chunk."""
        return self._states.pop(request_id, None)


class ContextServer(Server):
    """Runs prompts and sends each on, with its KV and the states that its drafter will need.

    Args:
        deployment: shapes and limits; its window decides how many states go along.
        target: runner of this server alone.

    Raises:
        ValueError: the target does not fit the deployment.

    """

    def __init__(self, deployment: Deployment, target: TargetRunner) -> None:
        check_is_deployment(deployment)
        self._collector = _WindowCollector(deployment.window_size)
        super().__init__(deployment, target, self._collector)
        self._prompts = PromptQueue()

    @property
    def unfinished(self) -> tuple[Request, ...]:
        """The accepted requests that were neither handed over nor finished."""
        return self._unfinished(self._prompts.waiting)

    def submit(self, request: Request) -> None:
        """Accept a request; raises as `Executor.submit`."""
        self._accept(request, self._prompts.waiting)
        self._prompts.waiting.append(request)

    def step(self) -> list[Handover | RequestResult]:
        """One prefill forward: what it completed, as hand-overs, or as results where the first
        token is the last.

        Raises:
            ExecutorStoppedError: it failed; nothing runs any more.
            SlotPoolExhaustedError: another server holds all slots of the target.

        """
        prompts = self._prompts
        self._check_progress(waiting=bool(prompts.waiting))
        with self._guard():
            while prompts.waiting and self._has_seat():
                prompts.prefilling.append(self._open(prompts.waiting[0]))
                prompts.waiting.popleft()
            budget = self.deployment.engine.max_num_tokens
            chunks = prompts.chunks(budget, self._store.lengths)
            if not chunks:
                return []
            self._engine.step(chunks, (), ())
            completed = prompts.completed(chunks)
            outcomes = [self._outcome(state) for state in completed]
            for state in completed:  # all or none: an error above loses no finished prompt
                self._close(state)
            return outcomes

    def cancel(self, request_id: RequestId) -> RequestResult:
        """End a request that was not handed over yet; raises as `Executor.cancel`."""
        self._check_running()
        self._collector.take(request_id)
        if self._prompts.drop(request_id) is not None:
            return RequestResult(request_id, (), (), "cancelled")
        return self._cancel_live(request_id)

    def _outcome(self, state: RequestState) -> Handover | RequestResult:
        request = state.request
        captured = self._collector.take(request.request_id)
        assert captured is not None
        reason = state.finish_reason()
        if reason is not None:
            return state.result(reason)
        keys, values = self._store.export(state.slot)
        return Handover(
            request=request,
            first_token=state.tokens[0],
            keys=keys,
            values=values,
            captured=captured,
            first_position=len(request.prompt_token_ids) - len(captured),
            target_layer_ids=self._engine.target.target_layer_ids,
        )
