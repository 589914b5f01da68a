"""The DFlash worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from specmeta import DFlashSpecMetadata

from ._block_worker import BlockWorker
from ._dflash_model import DFlashDraftModel

if TYPE_CHECKING:
    from specmeta import DecodingType


class DFlashWorker(BlockWorker[DFlashSpecMetadata]):
    """Verifies a step's drafts, extends the context buffers, drafts the next block.

    Which block slots yield the drafts is the drafter's `anchor_convention` and nothing else. See
    `DraftWorker` for arguments, buffers and errors.
    """

    decoding_type: ClassVar[DecodingType] = "DFlash"
    model_type = DFlashDraftModel
