"""Deliberately broken workers, kept to show what the contract prevents. Never serve with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from .._admission import SlotAdmission

if TYPE_CHECKING:
    from specmeta import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata

    from .._methods import Worker

W = TypeVar("W", bound="Worker")

DEFAULT_SLOT = 0


class _DefaultSlotAdmission(SlotAdmission):
    """Puts every real row into slot 0, as a dictionary with a default does for unknown ids."""

    def admit(self, metadata: DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata) -> None:
        if 0 in metadata.context_positions:
            self.windows.reset((DEFAULT_SLOT,))
        self.batch_to_slot.fill_(self.pool.scratch_slot)
        self.batch_to_slot[: len(metadata.request_ids)] = DEFAULT_SLOT


def with_default_slot(worker: W) -> W:
    """The worker, broken for good: every request owns its slot 0 (NVIDIA/TensorRT-LLM#16767).

    Alone in the batch a request drafts as it should. Beside others it reads and overwrites their
    state, nearly every draft is rejected, and the output stays right: only accept length tells.
    """
    worker._admission = _DefaultSlotAdmission(worker.windows)  # noqa: SLF001 - breaks it on purpose
    return worker
