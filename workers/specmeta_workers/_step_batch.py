"""The batches of a step engine: metadata and target rows, kept while the batch does not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from specmeta import get_spec_metadata

from ._target_layout import TargetRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from specmeta import Deployment, RequestId

    from ._requests import RequestState


@attrs.frozen(eq=False)
class Chunk:
    """Part of a sequence that a context row brings: tokens to compute, or states known before."""

    state: RequestState
    start: int
    """Position of its first token."""
    length: int

    @property
    def end(self) -> int:
        """Position behind its last token."""
        return self.start + self.length


@attrs.frozen(eq=False)
class KnownStates:
    """Captured states that a request brings along, for the worker."""

    state: RequestState
    start: int
    """Position of the first."""
    captured: Tensor
    """`[n, m * d]`."""


@attrs.frozen(eq=False)
class Batch:
    """Rows of a step in both forms."""

    generations: Sequence[RequestState]
    """Identity says whether the next step has the same."""
    metadata: Any
    rows: TargetRows | None
    """None where there is padding alone, which the target never sees."""


class Batches:
    """Builds batches, and keeps the last ones: one a pipeline stage.

    Args:
        deployment: shapes and limits.

    """

    def __init__(self, deployment: Deployment) -> None:
        engine = deployment.engine
        self._deployment = deployment
        self._scratch_slot = engine.num_seq_slots
        self._width = deployment.decoding.max_draft_len + 1
        self._samples = deployment.decoding.use_rejection_sampling
        # The metadata to go on from, of steps of all attention-DP ranks and of this rank alone.
        self._joint: Any = None
        self._alone: Any = None
        self._kept: list[Batch] = []
        self._num_kept = engine.pipeline_parallel_size

    def find(
        self,
        generations: Sequence[RequestState],
        lengths: tuple[int, ...],
        counts: tuple[int, ...] | None,
    ) -> Batch | None:
        """The batch kept for the same object of rows, unless lengths or counts have changed."""
        for kept in self._kept:
            if kept.generations is generations:
                known = kept.metadata
                same = known.seq_lens == lengths and known.all_rank_num_generations == counts
                return kept if same else None
        return None

    def clear(self) -> None:
        """Keep nothing."""
        self._kept.clear()

    def compose(
        self,
        contexts: Sequence[Chunk],
        generations: Sequence[RequestState] = (),
        generation_lengths: tuple[int, ...] = (),
        *,
        released: Sequence[RequestId],
        num_padding: int = 0,
        joint: bool = False,
        counts: tuple[int, ...] | None = None,
        buckets: Sequence[int] = (),
    ) -> Batch:
        """A new batch, kept where a later step can have the same.

        Args:
            contexts: rows of known tokens.
            generations: rows of an anchor and its drafts.
            generation_lengths: tokens of each of them.
            released: finished requests to tell the worker about.
            num_padding: padding rows.
            joint: whether all attention-DP ranks step; then `counts` once given must be given
                always.
            counts: generation rows of each rank.
            buckets: graph sizes; the smallest that holds the generation rows is padded to.

        """
        states = [*(chunk.state for chunk in contexts), *generations]
        fields: dict[str, Any] = {
            "request_ids": tuple([state.request.request_id for state in states]),
            "num_contexts": len(contexts),
            "seq_lens": (*(chunk.length for chunk in contexts), *generation_lengths),
            "context_positions": tuple([chunk.start for chunk in contexts]),
            "num_padding": num_padding,
            "finished_request_ids": tuple(released),
            "all_rank_num_generations": counts,
        }
        if self._samples:
            fields["sampling"] = tuple([state.request.sampling for state in states])
        template = self._joint if joint else self._alone
        if template is None:
            metadata: Any = get_spec_metadata(self._deployment, **fields)
        else:
            metadata = template.with_batch(**fields)
        if joint:
            self._joint = metadata
        else:
            self._alone = metadata
        if not contexts and not num_padding:
            # A deployment's token budget holds every bucket.
            bucket = next((size for size in buckets if len(states) <= size), None)
            if bucket is not None:
                metadata = metadata.create_cuda_graph_metadata(bucket)
        padded = metadata.num_padding
        rows = None
        if states:
            rows = TargetRows(
                num_contexts=len(contexts),
                seq_lens=fields["seq_lens"] + (self._width,) * padded,
                slots=(*(state.slot for state in states), *[self._scratch_slot] * padded),
            )
        batch = Batch(generations, metadata, rows)
        if states and not contexts:
            kept = [other for other in self._kept if other.generations is not generations]
            # Finished ids must be told once, so a batch that tells them is not for another step.
            self._kept = kept if released else [*kept, batch][-self._num_kept :]
        return batch
