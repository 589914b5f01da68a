"""The live requests of one pipeline stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ._step_batch import Chunk

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from specmeta import RequestId

    from ._requests import RequestState


@attrs.define(eq=False)
class MicroBatch:
    """Requests that are served by the same steps: prompts on their way, then decoding rows."""

    states: dict[RequestId, RequestState] = attrs.Factory(dict)
    """All of them, oldest first."""
    prefilling: list[RequestState] = attrs.Factory(list)
    """Those with positions to compute before they decode, paused ones included."""
    decoding: list[RequestState] = attrs.Factory(list)
    """Those that decode now, without the paused. Replaced when it changes and never altered: its
    identity means "the same batch"."""

    def chunks(
        self, budget: int, positions: Sequence[int], paused: Collection[RequestId]
    ) -> list[Chunk]:
        """The context rows of a step of at most `budget` tokens, oldest request first.

        Args:
            budget: tokens that the step has left for them.
            positions: how far each slot is.
            paused: requests to leave out.

        """
        chunks: list[Chunk] = []
        for state in self.prefilling:
            if budget <= 0:
                break
            if state.request.request_id in paused:
                continue
            start = positions[state.slot]
            length = min(state.context_length - start, budget)
            chunks.append(Chunk(state, start, length))
            budget -= length
        return chunks

    def completed(self, chunks: Sequence[Chunk]) -> list[RequestState]:
        """Take out the requests that can decode after a step with these rows."""
        done = [chunk.state for chunk in chunks if chunk.end == chunk.state.context_length]
        if done:
            self.prefilling = [state for state in self.prefilling if state not in done]
        return done

    def start_decoding(self, states: Sequence[RequestState]) -> None:
        """Let requests take part in the decode steps."""
        if states:
            # By slot, so that the batch is a range of the KV store whenever it can be.
            self.decoding = sorted([*self.decoding, *states], key=lambda state: state.slot)

    def pause(self, state: RequestState) -> None:
        """Leave a request out of the decode steps."""
        if state in self.decoding:
            self.decoding = [other for other in self.decoding if other is not state]

    def resume(self, state: RequestState) -> None:
        """Take a request back in, where it was."""
        if state not in self.prefilling and state not in self.decoding:
            self.start_decoding([state])

    def remove(self, state: RequestState) -> None:
        """Forget a request."""
        del self.states[state.request.request_id]
        self.prefilling = [other for other in self.prefilling if other is not state]
        self.pause(state)
