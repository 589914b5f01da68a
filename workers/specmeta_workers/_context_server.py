"""The prefill side of disaggregated serving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._checks import check_is_deployment
from ._handover import Handover
from ._prompt_server import PromptServer
from ._step_worker import PlainWorker

if TYPE_CHECKING:
    from specmeta import Deployment, RequestId

    from ._draft_output import DraftOutput
    from ._requests import RequestResult, RequestState
    from ._target import TargetRunner


class _WindowCollector(PlainWorker):
    """Keeps the captured states of the last `window` prompt positions of each request."""

    def __init__(self, target: TargetRunner, window: int) -> None:
        super().__init__(target)
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


class ContextServer(PromptServer):
    """Runs prompts and sends each on, with its KV and the states that its drafter will need.

    Args:
        deployment: shapes and limits; its window decides how many states go along.
        target: runner of this server alone.

    Raises:
        ValueError: the target does not fit the deployment.

    """

    def __init__(self, deployment: Deployment, target: TargetRunner) -> None:
        check_is_deployment(deployment)
        self._collector = _WindowCollector(target, deployment.window_size)
        super().__init__(deployment, target, self._collector)

    def step(self) -> list[Handover | RequestResult]:
        """One prefill forward: what it completed, as hand-overs, or as results where the first
        token is the last.

        Raises:
            ExecutorStoppedError: it failed; nothing runs any more.
            SlotPoolExhaustedError: another server holds all slots of the target.

        """
        self._check_progress(waiting=self._queue.num_ready(self._paused) > 0)
        with self._guard():
            batch = self._next_batch()
            self._admit(batch)
            budget = self.deployment.engine.max_num_tokens
            chunks = batch.chunks(budget, self._store.lengths, self._paused)
            outcomes: list[Handover | RequestResult] = []
            if chunks:
                self._engine.step(chunks, (), ())
                completed = batch.completed(chunks)
                outcomes += [self._outcome(state) for state in completed]
                for state in completed:  # all or none: an error above loses no finished prompt
                    self._close(state)
            self._end_turn()
            return outcomes

    def _close(self, state: RequestState) -> None:
        self._collector.take(state.request.request_id)
        super()._close(state)

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
