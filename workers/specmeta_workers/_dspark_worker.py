"""The DSpark worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from specmeta import DSparkDecodingConfig, DSparkSpecMetadata

from ._block_worker import BlockWorker
from ._dspark_model import DSparkDraftModel

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from specmeta import DecodingType, Deployment

    from ._choosing import Choose


class DSparkWorker(BlockWorker[DSparkSpecMetadata]):
    """Verifies a step's drafts, advances the windows, drafts the next block.

    Where the deployment has a `confidence_threshold`, the drafts of a row end before the first
    whose confidence is below it. See `DraftWorker` for arguments, buffers and errors.
    """

    decoding_type: ClassVar[DecodingType] = "DSpark"
    model_type = DSparkDraftModel

    def __init__(
        self, deployment: Deployment, draft_model: Any, device: torch.device | str = "cpu"
    ) -> None:
        super().__init__(deployment, draft_model, device)
        decoding = deployment.decoding
        assert isinstance(decoding, DSparkDecodingConfig)
        self._threshold = decoding.confidence_threshold
        self._judges = self._threshold is not None or decoding.steps_per_second is not None

    def _draft(
        self, slots: Tensor, anchors: Tensor, choose: Choose
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        if not self._judges:
            return super()._draft(slots, anchors, choose)
        hidden = self._block(slots, anchors)
        length = self.deployment.decoding.max_draft_len
        drafts = self.draft_model.draft(hidden, anchors, length, choose)
        confidence = self.draft_model.confidence(hidden, anchors, drafts)
        if self._threshold is None:
            _, lengths, _ = self._all_drafts(drafts)
        else:
            lengths = (confidence >= self._threshold).cumprod(1).sum(1)
        return drafts, lengths, confidence
