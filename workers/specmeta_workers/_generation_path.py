"""The device side of a step: accept, take into the slots, draft. Tensors only, no host sync."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch import Tensor

from ._acceptance import make_acceptance

if TYPE_CHECKING:
    from specmeta import Deployment

    from ._choosing import Choose
    from ._draft_output import Parts
    from ._sampling import SamplingTensors
    from ._step_layout import ContextLayout, RowIndex
    from ._windows import ContextWindows


@attrs.frozen(eq=False)
class Rows:
    """The tensors of a step of generation and padding rows, in the shapes of its bucket."""

    index: RowIndex
    slots: Tensor
    """Slot of each row `[R]`."""
    input_ids: Tensor
    """The target's input `[T]`."""
    logits: Tensor
    """The target's output `[L, V]`."""
    captured: Tensor
    """Captured states `[T, m * d]`."""
    sampling: SamplingTensors | None
    """How each row is sampled; None where drafts are accepted strictly."""


class GenerationPath(ABC):
    """Slot-indexed state, and what a step does with it.

    `_generate` runs rows of one shape without a data-dependent operation, so that it can be
    captured and traced. A method adds four things: its state, how committed tokens are written into
    it, what the next step needs of the last of them, and how drafts are made.
    """

    def __init__(self, deployment: Deployment, draft_model: Any, device: torch.device) -> None:
        self.deployment = deployment
        self.draft_model = draft_model
        self.windows = self._make_windows(device)
        # As the buffers report it: "cuda" becomes "cuda:0", which tensors can be compared with.
        self.device = self.windows.device
        self._acceptance = make_acceptance(deployment, self.device)
        self._offsets = torch.arange(deployment.decoding.max_draft_len + 1, device=self.device)

    def _generate(self, rows: Rows) -> Parts:
        """A step without context rows."""
        old = self.windows.context_lens.index_select(0, rows.slots)
        tokens, accepted = self._acceptance.accept(rows, old)
        self._commit(rows, old, accepted)
        return self._drafted(rows, tokens, accepted)

    def _generate_padded(self, rows: Rows) -> Parts:
        """The same with padding rows, which leave nothing behind on the scratch slot.

        The reset is inside the step: replays of a captured graph cannot accumulate a position.
        """
        parts = self._generate(rows)
        self.windows.reset((self.windows.scratch_slot,))
        return parts

    def _mixed(self, rows: Rows, contexts: ContextLayout, num_contexts: int) -> Parts:
        """A step whose first rows are contexts."""
        old = self.windows.context_lens.index_select(0, rows.slots)
        old[:num_contexts] = contexts.ends - 1
        tokens, accepted = self._acceptance.accept(rows, old)
        self._seed_contexts(rows.slots[:num_contexts], contexts, rows.input_ids, rows.captured)
        if len(rows.slots) > num_contexts:
            first_token = rows.index.first_token[num_contexts:]
            generations = attrs.evolve(
                rows,
                index=rows.index._replace(first_token=first_token),
                slots=rows.slots[num_contexts:],
            )
            self._commit(generations, old[num_contexts:], accepted[num_contexts:])
        return self._drafted(rows, tokens, accepted)

    def _seed_contexts(
        self, slots: Tensor, contexts: ContextLayout, input_ids: Tensor, captured: Tensor
    ) -> None:
        self._write(
            slots.index_select(0, contexts.rows),
            contexts.positions,
            contexts.tokens,
            contexts.offsets,
            input_ids,
            captured,
        )
        self.windows.advance(slots, contexts.ends, contexts.lengths)
        self.windows.initialized[slots] = True
        self._remember(slots, captured, contexts.last_tokens)

    def _commit(self, rows: Rows, old: Tensor, accepted: Tensor) -> None:
        """Take the accepted tokens of each row into its slot, which stands at position `old`."""
        # Offsets behind the last accepted token repeat it, so that every row writes K + 1 columns,
        # all of accepted tokens: a rejected token's state is never even projected.
        steps = torch.minimum(self._offsets, accepted[:, None] - 1)
        slots, tokens = rows.slots, rows.index.first_token + steps
        self._write(
            slots[:, None].expand_as(steps).flatten(),
            (old[:, None] + steps).flatten(),
            tokens.flatten(),
            steps.flatten(),
            rows.input_ids,
            rows.captured,
        )
        self.windows.advance(slots, old + accepted, accepted)
        self._remember(slots, rows.captured, tokens[:, -1])

    def _drafted(self, rows: Rows, tokens: Tensor, accepted: Tensor) -> Parts:
        bonus = tokens.gather(1, accepted[:, None] - 1).squeeze(1)
        choose = self._chooser(rows.slots, rows.sampling)
        drafts, lengths, confidence = self._draft(rows.slots, bonus, choose)
        return tokens, accepted, drafts, lengths, confidence

    def _chooser(self, slots: Tensor, sampling: SamplingTensors | None) -> Choose:
        return self._acceptance.chooser(slots, self.windows.context_lens, sampling)

    def _all_drafts(self, drafts: Tensor) -> tuple[Tensor, Tensor, None]:
        """The drafts of a method without a confidence head: all are worth verifying."""
        count, length = drafts.shape
        return drafts, torch.full((count,), length, device=drafts.device), None

    # What a method adds.

    @abstractmethod
    def _make_windows(self, device: torch.device) -> ContextWindows:
        """The slot-indexed state."""

    @abstractmethod
    def _write(
        self,
        slots: Tensor,
        positions: Tensor,
        tokens: Tensor,
        offsets: Tensor,
        input_ids: Tensor,
        captured: Tensor,
    ) -> None:
        """Write committed tokens into their slots: `slots`, absolute `positions`, flat indices
        `tokens` and places in their rows `offsets`, all `[N]`; a token may come repeatedly.
        """

    @abstractmethod
    def _remember(self, slots: Tensor, captured: Tensor, last_tokens: Tensor) -> None:
        """Keep what the next step needs of each row's last committed token, flat `[B]`."""

    @abstractmethod
    def _draft(
        self, slots: Tensor, anchors: Tensor, choose: Choose
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Drafts `[B, K]` behind the anchors `[B]`, their useful lengths `[B]`, their confidence
        `[B, K]` or None.
        """
