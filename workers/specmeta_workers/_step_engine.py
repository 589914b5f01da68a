"""One step of a server: validated metadata, target forward, worker, and what they decided.

Nothing here chooses which requests run; that is the servers' business.
"""

from __future__ import annotations

from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ._schedule import StepRates, schedule_draft_lens
from ._step_batch import Batches
from ._step_checks import check_engine
from ._step_worker import PlainWorker, StepWorker, read_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specmeta import Deployment, RequestId

    from ._requests import RequestState
    from ._step_batch import Batch, Chunk
    from ._step_worker import HostOutput
    from ._target import TargetRunner


class StepEngine:
    """Runs steps of one deployment on one target and one worker.

    Args:
        deployment: shapes and limits.
        target: runner whose KV store belongs to these requests.
        worker: verifies and drafts; None decodes without drafts, and without the padding of graph
            buckets, which are captured for draft verification.

    Raises:
        TypeError: an argument of another type.
        ValueError: the target or the worker does not fit the deployment.

    """

    def __init__(
        self, deployment: Deployment, target: TargetRunner, worker: StepWorker | None
    ) -> None:
        check_engine(deployment, target, worker)
        self.deployment = deployment
        self.target = target
        self.worker: StepWorker = PlainWorker(target) if worker is None else worker
        self.padding_width = deployment.decoding.max_draft_len + 1
        self.released: list[RequestId] = []
        """Finished requests that the worker has not been told about yet."""
        self._buckets = deployment.engine.cuda_graph_batch_sizes if worker is not None else ()
        rates = getattr(deployment.decoding, "steps_per_second", None)  # DSpark alone has it
        self._rates = None if rates is None else StepRates(rates)
        self._batches = Batches(deployment)

    @property
    def speculating(self) -> bool:
        """Whether there is a worker that drafts."""
        return not isinstance(self.worker, PlainWorker)

    def generation_lengths(self, states: Sequence[RequestState]) -> tuple[int, ...]:
        """Tokens that each row can have: anchor and drafts, fewer at the end of the sequence."""
        lengths = self.target.store.lengths
        limit = self.deployment.engine.max_seq_len
        return tuple([min(1 + len(state.drafts), limit - lengths[state.slot]) for state in states])

    def scheduled(
        self,
        states: Sequence[RequestState],
        generation_lengths: tuple[int, ...],
        context_tokens: int = 0,
    ) -> tuple[int, ...]:
        """Tokens that each generation row should have: without drafts that slow the step down more
        than they are likely to gain, where the deployment has `steps_per_second`.
        """
        if self._rates is None or not self.speculating:
            return generation_lengths
        survival = [
            [*accumulate(state.confidence[: length - 1], mul)]
            for state, length in zip(states, generation_lengths, strict=True)
        ]
        drafts = schedule_draft_lens(survival, self._rates, context_tokens=context_tokens)
        return tuple([1 + length for length in drafts])

    def step(
        self,
        contexts: Sequence[Chunk],
        generations: Sequence[RequestState],
        generation_lengths: tuple[int, ...],
        *,
        all_rank_num_generations: tuple[int, ...] | None = None,
    ) -> Tensor:
        """Run the rows and write the outcome into their states.

        The same `generations` object with the same lengths and rank counts, and no contexts, reuses
        its metadata.

        A raised error leaves the states as they were, but the worker's own state may have moved.

        Args:
            contexts: rows of prompt tokens.
            generations: rows of an anchor and its drafts.
            generation_lengths: tokens of each of them.
            all_rank_num_generations: generation rows of each attention-DP rank in this step; once
                given, every later step needs them.

        Returns:
            The captured states `[T, m * d]` of all rows, contexts first.

        """
        counts = all_rank_num_generations
        batch = None
        if not contexts and not self.released:
            batch = self._batches.find(generations, generation_lengths, counts)
        if batch is None:
            batch = self._batches.compose(
                contexts,
                generations,
                generation_lengths,
                released=self.released,
                joint=True,
                counts=counts,
                buckets=self._buckets,
            )
        flat = _chunk_tokens(contexts)
        for state, length in zip(generations, generation_lengths, strict=True):
            flat.append(state.tokens[-1])
            flat += state.drafts[: length - 1]
        padding = batch.metadata.num_padding * self.padding_width
        input_ids = torch.tensor(flat + [0] * padding, device=self.target.device)
        assert batch.rows is not None
        logits, captured = self.target.forward(batch.rows, input_ids)
        output = self.worker.forward(
            batch.metadata, input_ids=input_ids, logits=logits, captured=captured
        )
        outcome = self._read(batch, output, [*[1] * len(contexts), *generation_lengths])
        self.released.clear()
        self._commit(contexts, generations, generation_lengths, outcome)
        return captured

    def restore(self, chunks: Sequence[Chunk]) -> None:
        """Compute positions again whose next tokens are known: nothing is chosen anew.

        The target gets its keys and values back, the worker its state; requests get its drafts.
        """
        batch = self._batches.compose(chunks, released=self.released)
        assert batch.rows is not None
        input_ids = torch.tensor(_chunk_tokens(chunks), device=self.target.device)
        _, captured = self.target.forward(batch.rows, input_ids)
        self._seed(batch, chunks, input_ids, captured)

    def seed(self, chunks: Sequence[Chunk], captured: Tensor) -> None:
        """Show the worker states that were captured before `[sum of lengths, m * d]`, as `restore`;
        the target has its keys and values already.
        """
        batch = self._batches.compose(chunks, released=self.released)
        input_ids = torch.tensor(_chunk_tokens(chunks), device=self.target.device)
        self._seed(batch, chunks, input_ids, captured.to(self.target.device))

    def flush(self) -> None:
        """Tell the worker about finished requests, in a step of this rank alone."""
        if self.released:
            self._padding_step(joint=False, counts=None)

    def idle(self, all_rank_num_generations: tuple[int, ...] | None = None) -> None:
        """A step of one padding row, for an attention-DP rank without requests while others have
        some; tells the worker about finished requests as well.
        """
        self._padding_step(joint=True, counts=all_rank_num_generations)

    def stop_speculating(self, live: Sequence[RequestState]) -> None:
        """Take the drafts and the worker from these requests; from now on they decode plainly."""
        known = [s for s in live if self.target.store.lengths[s.slot]]
        self.released += [state.request.request_id for state in known]
        self.flush()
        self.worker = PlainWorker(self.target)
        self._buckets = ()
        self._batches.clear()
        for state in live:
            state.drafts, state.confidence = [], []

    def _padding_step(self, *, joint: bool, counts: tuple[int, ...] | None) -> None:
        batch = self._batches.compose(
            (), released=self.released, num_padding=1, joint=joint, counts=counts
        )
        target, width = self.target, self.padding_width
        if self.speculating:
            states = len(target.target_layer_ids) * target.hidden_size
            nothing = torch.zeros(width, 1, dtype=target.dtype, device=target.device)
            self.worker.forward(
                batch.metadata,
                input_ids=torch.zeros(width, dtype=torch.long, device=target.device),
                logits=nothing.expand(width, target.vocab_size),
                captured=nothing.expand(width, states),
            )
        self.released.clear()

    def _seed(
        self, batch: Batch, chunks: Sequence[Chunk], input_ids: Tensor, captured: Tensor
    ) -> None:
        following = [chunk.state.known(chunk.end, chunk.end + 1)[0] for chunk in chunks]
        output = self.worker.seed(
            batch.metadata,
            input_ids=input_ids,
            next_tokens=torch.tensor(following, device=self.target.device),
            captured=captured,
        )
        outcome = self._read(batch, output, [1] * len(chunks))
        self.released.clear()
        for row, chunk in enumerate(chunks):
            outcome.draft(row, chunk.state)

    def _read(self, batch: Batch, output: object, row_lengths: Sequence[int]) -> HostOutput:
        rows, most = batch.metadata.num_rows, self.padding_width - 1
        return read_output(output, row_lengths, rows, most, self.target.vocab_size)

    def _commit(
        self,
        contexts: Sequence[Chunk],
        generations: Sequence[RequestState],
        generation_lengths: tuple[int, ...],
        outcome: HostOutput,
    ) -> None:
        for row, chunk in enumerate(contexts):
            if chunk.end == len(chunk.state.request.prompt_token_ids):
                chunk.state.tokens.append(outcome.tokens[row][0])
                outcome.draft(row, chunk.state)
        store = self.target.store
        first = len(contexts)
        for row, (state, length) in enumerate(
            zip(generations, generation_lengths, strict=True), first
        ):
            count = outcome.accepted[row]
            store.truncate(state.slot, store.lengths[state.slot] - length + count)
            state.tokens += outcome.tokens[row][:count]
            state.accepted_lengths.append(count)
            outcome.draft(row, state)


def _chunk_tokens(chunks: Sequence[Chunk]) -> list[int]:
    flat: list[int] = []
    for chunk in chunks:
        flat += chunk.state.known(chunk.start, chunk.end)
    return flat
