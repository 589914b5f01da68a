"""Deliberately broken workers, kept to show what the contract prevents. Never serve with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._admission import SlotAdmission
from .._dspark_worker import DSparkWorker

if TYPE_CHECKING:
    import torch

    from specmeta import Deployment, DSparkSpecMetadata

    from .._dspark_model import DSparkDraftModel

DEFAULT_SLOT = 0


class _DefaultSlotAdmission(SlotAdmission):
    """Puts every real row into slot 0, as a dictionary with a default does for unknown ids."""

    def admit(self, metadata: DSparkSpecMetadata) -> None:
        if 0 in metadata.context_positions:
            self.windows.reset((DEFAULT_SLOT,))
        self.batch_to_slot.fill_(self.pool.scratch_slot)
        self.batch_to_slot[: len(metadata.request_ids)] = DEFAULT_SLOT


class DefaultSlotWorker(DSparkWorker):
    """A DSpark worker in which every request owns slot 0 (NVIDIA/TensorRT-LLM#16767).

    Alone in the batch a request drafts as it should. Beside others it reads and overwrites their
    window, nearly every draft is rejected, and the output stays right: only accept length tells.
    """

    def __init__(
        self,
        deployment: Deployment,
        draft_model: DSparkDraftModel,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(deployment, draft_model, device)
        self._admission = _DefaultSlotAdmission(self.windows)
