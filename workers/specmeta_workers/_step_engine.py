"""One step of a server: validated metadata, target forward, worker, and what they decided.

Nothing here chooses which requests run; that is the executors' business. What a step needs of the
unchanged batch (metadata, target rows) is kept from the step before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch import Tensor

from specmeta import DFlashDrafterConfig, DSparkDrafterConfig, get_spec_metadata

from ._checks import check_is_deployment
from ._step_worker import PlainWorker, StepWorker, check_worker, read_output
from ._target import TargetRunner
from ._target_layout import TargetRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specmeta import Deployment, RequestId

    from ._requests import RequestState
    from ._step_worker import HostOutput


@attrs.frozen(eq=False)
class Chunk:
    """Part of a sequence that a context row brings: prompt tokens, or handed-over states."""

    state: RequestState
    start: int
    """Position of its first token."""
    length: int


class StepEngine:
    """Runs steps of one deployment on one target and one worker.

    Args:
        deployment: shapes and limits.
        target: runner whose KV store belongs to these requests.
        worker: verifies and drafts; None decodes greedily without drafts, and without the padding
            of graph buckets, which are captured for draft verification.

    Raises:
        TypeError: an argument of another type.
        ValueError: the target or the worker does not fit the deployment.

    """

    def __init__(
        self, deployment: Deployment, target: TargetRunner, worker: StepWorker | None
    ) -> None:
        check_is_deployment(deployment)
        if not isinstance(target, TargetRunner):
            raise TypeError(
                f"target: {type(target).__name__} is not a TargetRunner; build it with "
                "TargetRunner.for_deployment"
            )
        if worker is not None:
            check_worker(worker, deployment, target.device)
        _check_target(deployment, target, captures=worker is not None)
        engine = deployment.engine
        self.deployment = deployment
        self.target = target
        self.worker: StepWorker = PlainWorker() if worker is None else worker
        self.padding_width = deployment.decoding.max_draft_len + 1
        self.released: list[RequestId] = []
        """Finished requests that the worker has not been told about yet."""
        self._buckets = engine.cuda_graph_batch_sizes if worker is not None else ()
        self._template: Any = None
        self._metadata: Any = None
        self._rows: TargetRows | None = None
        self._decoded: Sequence[RequestState] | None = None

    def generation_lengths(self, states: Sequence[RequestState]) -> tuple[int, ...]:
        """Tokens of each generation row: anchor and drafts, fewer at the end of the sequence."""
        lengths = self.target.store.lengths
        limit = self.deployment.engine.max_seq_len
        return tuple([min(1 + len(state.drafts), limit - lengths[state.slot]) for state in states])

    def step(
        self,
        contexts: Sequence[Chunk],
        generations: Sequence[RequestState],
        generation_lengths: tuple[int, ...],
    ) -> None:
        """Run the rows and write the outcome into their states.

        The same `generations` object with the same lengths, and no contexts, reuses the metadata.

        A raised error leaves the states as they were, but the worker's own state may have moved.
        """
        reusable = generations is self._decoded and not contexts and not self.released
        if not reusable or self._metadata.seq_lens != generation_lengths:
            self._compose(contexts, generations, generation_lengths)
        rows = self._rows
        assert rows is not None
        flat: list[int] = []
        for chunk in contexts:
            flat += chunk.state.request.prompt_token_ids[chunk.start : chunk.start + chunk.length]
        for state, length in zip(generations, generation_lengths, strict=True):
            flat.append(state.tokens[-1])
            flat += state.drafts[: length - 1]
        padding = self._metadata.num_padding * self.padding_width
        input_ids = torch.tensor(flat + [0] * padding, device=self.target.device)
        logits, captured = self.target.forward(rows, input_ids)
        output = self.worker.forward(
            self._metadata, input_ids=input_ids, logits=logits, captured=captured
        )
        outcome = self._read(output, [*[1] * len(contexts), *generation_lengths])
        self.released.clear()
        self._commit(contexts, generations, generation_lengths, outcome)

    def seed(self, chunks: Sequence[Chunk], next_tokens: Sequence[int], captured: Tensor) -> None:
        """Show the worker handed-over states `[sum of lengths, m * d]`; states get its drafts."""
        self._compose(chunks, (), ())
        device = self.target.device
        output = self.worker.seed(
            self._metadata,
            next_tokens=torch.tensor(next_tokens, device=device),
            captured=captured.to(device),
        )
        _, _, drafts = self._read(output, [1] * len(chunks))
        self.released.clear()
        for chunk, drafted in zip(chunks, drafts, strict=True):
            chunk.state.drafts = drafted

    def flush(self) -> None:
        """Tell the worker about finished requests, in a step of one padding row."""
        if not self.released:
            return
        if not isinstance(self.worker, PlainWorker):
            self._compose((), (), (), num_padding=1)
            target, width = self.target, self.padding_width
            states = len(target.target_layer_ids) * target.hidden_size
            nothing = torch.zeros(width, 1, dtype=target.dtype, device=target.device)
            self.worker.forward(
                self._metadata,
                input_ids=torch.zeros(width, dtype=torch.long, device=target.device),
                logits=nothing.expand(width, target.vocab_size),
                captured=nothing.expand(width, states),
            )
        self.released.clear()

    def _compose(
        self,
        contexts: Sequence[Chunk],
        generations: Sequence[RequestState],
        generation_lengths: tuple[int, ...],
        num_padding: int = 0,
    ) -> None:
        """Metadata and target rows of a new batch."""
        states = [*(chunk.state for chunk in contexts), *generations]
        batch: dict[str, Any] = {
            "request_ids": tuple([state.request.request_id for state in states]),
            "num_contexts": len(contexts),
            "seq_lens": (*(chunk.length for chunk in contexts), *generation_lengths),
            "context_positions": tuple([chunk.start for chunk in contexts]),
            "num_padding": num_padding,
            "finished_request_ids": tuple(self.released),
        }
        if self._template is None:
            metadata = get_spec_metadata(self.deployment, **batch)
        else:
            metadata = self._template.with_batch(**batch)
        self._template = metadata
        bucket = None if contexts or num_padding else self._bucket(len(states))
        if bucket is not None:
            metadata = metadata.create_cuda_graph_metadata(bucket)
        self._metadata = metadata
        # Identity says whether the next step is the same batch; finished ids must be told once.
        self._decoded = None if contexts or self.released or num_padding else generations
        slots = [state.slot for state in states]
        padded = metadata.num_padding
        if states:
            self._rows = TargetRows(
                num_contexts=len(contexts),
                seq_lens=batch["seq_lens"] + (self.padding_width,) * padded,
                slots=(*slots, *[self.target.store.scratch_slot] * padded),
            )

    def _read(self, output: object, row_lengths: Sequence[int]) -> HostOutput:
        return read_output(
            output,
            row_lengths,
            self._metadata.num_rows,
            self.padding_width - 1,
            self.target.vocab_size,
        )

    def _bucket(self, rows: int) -> int | None:
        """The smallest graph bucket that holds the rows; a deployment's token budget holds it."""
        return next((size for size in self._buckets if rows <= size), None)

    def _commit(
        self,
        contexts: Sequence[Chunk],
        generations: Sequence[RequestState],
        generation_lengths: tuple[int, ...],
        outcome: HostOutput,
    ) -> None:
        tokens, accepted, drafts = outcome
        for row, chunk in enumerate(contexts):
            state = chunk.state
            if chunk.start + chunk.length == len(state.request.prompt_token_ids):
                state.tokens.append(tokens[row][0])
                state.drafts = drafts[row]
        store = self.target.store
        first = len(contexts)
        for row, (state, length) in enumerate(
            zip(generations, generation_lengths, strict=True), first
        ):
            count = accepted[row]
            store.truncate(state.slot, store.lengths[state.slot] - length + count)
            state.tokens += tokens[row][:count]
            state.accepted_lengths.append(count)
            state.drafts = drafts[row]


def _check_target(deployment: Deployment, target: TargetRunner, *, captures: bool) -> None:
    engine, drafter = deployment.engine, deployment.drafter
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        if (size := getattr(engine, name)) != 1:
            raise ValueError(
                f"engine.{name}: {size}, but the reference executor runs on one device; set it to 1"
            )
    wanted: dict[str, tuple[object, object]] = {
        "num_slots": (target.store.num_slots, engine.num_seq_slots),
        "vocab_size": (target.vocab_size, deployment.target.vocab_size),
        "hidden_size": (target.hidden_size, deployment.target.hidden_size),
        "dtype": (target.dtype, getattr(torch, engine.dtype)),
    }
    if captures and isinstance(drafter, DSparkDrafterConfig | DFlashDrafterConfig):
        wanted["target_layer_ids"] = (target.target_layer_ids, drafter.layers_to_capture)
    for name, (given, needed) in wanted.items():
        if given != needed:
            raise ValueError(
                f"target: its {name} is {given}, the deployment needs {needed}; build the runner "
                "with TargetRunner.for_deployment"
            )
    needed_length = max(engine.max_seq_len, deployment.decoding.max_draft_len + 1)
    if target.max_seq_len < needed_length:
        raise ValueError(
            f"target: its max_seq_len is {target.max_seq_len}, the deployment needs "
            f"{needed_length}; build the runner with TargetRunner.for_deployment"
        )
