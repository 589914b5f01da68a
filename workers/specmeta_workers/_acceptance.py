"""How drafts are accepted: strictly, or by rejection sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch

from ._choosing import Choose, greedy
from ._draft_probs import DraftProbabilities
from ._random import ACCEPT, DRAFT, SAMPLE, uniform
from ._rejection import accept_by_rejection
from ._sampling import SamplingTensors, probabilities, sample

if TYPE_CHECKING:
    from torch import Tensor

    from specmeta import Deployment

    from ._generation_path import Rows


class Acceptance(Protocol):
    """What a worker needs of a way to accept drafts."""

    def sampling(self, metadata: Any) -> SamplingTensors | None:
        """How the rows of a batch are sampled; on the device, built once a metadata object."""
        ...

    def accept(self, rows: Rows, anchors: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens `[R, K + 1]` and how many each row commits `[R]`; the token in column k comes
        k + 1 positions behind `anchors [R]`.
        """
        ...

    def chooser(
        self, slots: Tensor, context_lens: Tensor, sampling: SamplingTensors | None
    ) -> Choose:
        """How the draft model picks the tokens of the rows; `context_lens [num_seq_slots + 1]` are
        the positions of the anchors of all slots.
        """
        ...


class StrictAcceptance:
    """A draft is accepted where it is the target's most likely token."""

    def sampling(self, metadata: Any) -> None:  # noqa: ARG002 - rejection sampling reads it
        """Nothing: the metadata has been checked to ask for nothing."""
        return

    def accept(
        self,
        rows: Rows,
        anchors: Tensor,  # noqa: ARG002 - the random numbers of rejection sampling need them
    ) -> tuple[Tensor, Tensor]:
        """`n = 1 + sum(cumprod(draft == target))` over the drafts that a row brought."""
        index = rows.index
        tokens = rows.logits.argmax(-1).take(index.logit)
        drafts = rows.input_ids.take(index.draft)
        matches = (drafts == tokens[:, :-1]) & index.draft_exists
        return tokens, matches.cumprod(1).sum(1) + 1

    def chooser(
        self,
        slots: Tensor,  # noqa: ARG002
        context_lens: Tensor,  # noqa: ARG002
        sampling: SamplingTensors | None,  # noqa: ARG002
    ) -> Choose:
        """The most likely token: it has the best chance."""
        return greedy


class RejectionAcceptance:
    """Drafts are drawn from the drafter and accepted so that the output is the target's."""

    def __init__(self, deployment: Deployment, device: torch.device) -> None:
        self._vocab_size = deployment.target.vocab_size
        self._device = device
        # Of the tokens behind an anchor.
        self._offsets = torch.arange(1, deployment.decoding.max_draft_len + 2, device=device)
        self.draft_probs = DraftProbabilities(
            num_slots=deployment.engine.num_seq_slots,
            max_draft_len=deployment.decoding.max_draft_len,
            vocab_size=self._vocab_size,
            device=device,
        )

    def sampling(self, metadata: Any) -> SamplingTensors:
        """Temperature, top-k, top-p and seed of each row, greedy ones for padding."""
        return SamplingTensors.of(
            metadata.sampling,
            num_padding=metadata.num_padding,
            vocab_size=self._vocab_size,
            device=self._device,
        )

    def accept(self, rows: Rows, anchors: Tensor) -> tuple[Tensor, Tensor]:
        """See `accept_by_rejection`."""
        sampling, index = rows.sampling, rows.index
        assert sampling is not None  # made by `sampling` above
        seeds, places = sampling.seed[:, None], anchors[:, None] + self._offsets
        return accept_by_rejection(
            probabilities(rows.logits[index.logit], sampling),
            self.draft_probs.read(rows.slots),
            rows.input_ids.take(index.draft),
            index.draft_exists,
            uniform(seeds, places[:, :-1], ACCEPT),
            uniform(seeds, places, SAMPLE),
        )

    def chooser(
        self, slots: Tensor, context_lens: Tensor, sampling: SamplingTensors | None
    ) -> Choose:
        """Draw each draft, and keep the distribution that it was drawn from."""
        assert sampling is not None
        first = context_lens.index_select(0, slots) + 1

        def choose(draft: int, logits: Tensor) -> Tensor:
            probs = probabilities(logits, sampling).to(self.draft_probs.probs.dtype)
            self.draft_probs.write(slots, draft, probs)
            return sample(probs, uniform(sampling.seed, first + draft, DRAFT))

        return choose


def make_acceptance(
    deployment: Deployment, device: torch.device
) -> StrictAcceptance | RejectionAcceptance:
    """The way of accepting that a deployment asks for, its buffers allocated."""
    if deployment.decoding.use_rejection_sampling:
        return RejectionAcceptance(deployment, device)
    return StrictAcceptance()
