"""The decoding side of disaggregated serving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._handover import Handover
from ._requests import RequestResult, WaitingRequest, check_id
from ._server import Server
from ._step_batch import KnownStates

if TYPE_CHECKING:
    from specmeta import Deployment, RequestId

    from ._requests import Request
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
        self._waiting: dict[RequestId, Handover] = {}

    @property
    def unfinished(self) -> tuple[Request, ...]:
        """The received requests without a result: the running, then the waiting ones."""
        return self._unfinished(handover.request for handover in self._waiting.values())

    def check(self, request: Request) -> None:
        """Raise what `receive` would for this request, before its prompt runs."""
        self._accept(request, self._waiting)

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
        self._waiting[handover.request.request_id] = handover

    def admit(self) -> int:
        """Take in what fits; how many rows the next step decodes.

        Attention-DP ranks exchange the numbers and pass them to `decode`.

        Raises:
            ExecutorStoppedError: it failed; nothing runs any more.
            SlotPoolExhaustedError: another server holds all slots of the target.

        """
        waiting = [h for i, h in self._waiting.items() if i not in self._paused]
        self._check_progress(waiting=bool(waiting))
        with self._guard():
            batch = self._next_batch()
            known: list[KnownStates] = []
            for index, handover in enumerate(waiting):
                if not self._has_seat(batch, len(waiting) - index):
                    break
                first = WaitingRequest(handover.request, (handover.first_token,))
                state = self._open(first, batch)
                del self._waiting[handover.request.request_id]
                self._store.install(state.slot, handover.keys, handover.values)
                known.append(KnownStates(state, handover.first_position, handover.captured))
            if known:
                self._seed(known)
                batch.start_decoding([part.state for part in known])
            return len(batch.decoding)

    def step(self) -> list[RequestResult]:
        """Take in what fits, then one decode forward; the results of those that it finished.

        Raises:
            ExecutorStoppedError: it failed; nothing runs any more.
            SlotPoolExhaustedError: another server holds all slots of the target.

        """
        self.admit()
        return self.decode(None)

    def decode(self, all_rank_num_generations: tuple[int, ...] | None) -> list[RequestResult]:
        """One decode forward of the requests that are in; the results of those that it finished.

        Args:
            all_rank_num_generations: what `admit` returned on each attention-DP rank for this step;
                a rank without rows runs a step of padding. None without attention DP.

        Raises:
            ExecutorStoppedError: it failed; nothing runs any more.

        """
        counts = all_rank_num_generations
        with self._guard():
            batch = self._next_batch()
            decoding = batch.decoding
            if decoding:
                lengths = self._engine.generation_lengths(decoding)
                lengths = self._engine.scheduled(decoding, lengths)
                self._engine.step((), decoding, lengths, all_rank_num_generations=counts)
                self._finish_decoding(batch)
                self._watch()
            elif counts is not None:
                self._engine.idle(counts)
            self._end_turn()
        return self._hand_out()

    def cancel(self, request_id: RequestId) -> RequestResult:
        """End a received request; raises as `Executor.cancel`."""
        self._check_running()
        check_id(request_id)
        handover = self._waiting.pop(request_id, None)
        if handover is None:
            return self._cancel_live(request_id)
        self._paused.discard(request_id)
        return RequestResult(request_id, (handover.first_token,), (), "cancelled")

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
