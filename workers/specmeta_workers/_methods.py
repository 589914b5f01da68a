"""What belongs to a decoding type: its worker, its draft model, its decoding configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from specmeta import (
    DFlashDecodingConfig,
    DSparkDecodingConfig,
    MTPDecodingConfig,
    MTPDrafterConfig,
)

from ._checks import check_is_deployment
from ._dflash_model import DFlashDraftModel
from ._dflash_worker import DFlashWorker
from ._dspark_model import DSparkDraftModel
from ._dspark_worker import DSparkWorker
from ._mtp_model import MTPDraftModel
from ._mtp_worker import MTPWorker

if TYPE_CHECKING:
    import torch

    from specmeta import DecodingType, Deployment, DrafterConfig

    from ._loading import DraftModel

Worker = DSparkWorker | DFlashWorker | MTPWorker
"""Any worker; which one, its deployment says."""

MTP_DRAFTS = 7
"""Draft length of an MTP pair where nothing else is asked for: see `usual_draft_len`."""


@attrs.frozen
class Method:
    """The classes of one decoding type."""

    worker: type[Worker]
    draft_model: type[DraftModel]
    decoding: type[DSparkDecodingConfig | DFlashDecodingConfig | MTPDecodingConfig]


METHODS: dict[DecodingType, Method] = {
    "DSpark": Method(DSparkWorker, DSparkDraftModel, DSparkDecodingConfig),
    "DFlash": Method(DFlashWorker, DFlashDraftModel, DFlashDecodingConfig),
    "MTP": Method(MTPWorker, MTPDraftModel, MTPDecodingConfig),
}


def make_worker(
    deployment: Deployment, draft_model: DraftModel, device: torch.device | str = "cpu"
) -> Worker:
    """The worker of a deployment's decoding type.

    Raises:
        TypeError: not a `Deployment`, or a draft model of another method.
        ValueError: the deployment does not describe this draft model.

    """
    check_is_deployment(deployment)
    return METHODS[deployment.decoding_type].worker(deployment, draft_model, device)


def most_drafts(drafter: DrafterConfig) -> int | None:
    """Longest draft that a drafter can make: a block's; None where any length goes, as with MTP,
    whose layer drafts token after token.
    """
    return None if isinstance(drafter, MTPDrafterConfig) else drafter.max_block_drafts


def usual_draft_len(drafter: DrafterConfig) -> int:
    """Draft length of a pair's deployment where nobody chose one, in tokens.

    A block drafter makes its whole block in one forward, so that is its length. MTP has no length
    of its own and pays a forward for each draft; it takes 7, the block of the published DSpark and
    DFlash drafters, and the longest draft for which NVIDIA/TensorRT-LLM#16767 reports it.
    """
    longest = most_drafts(drafter)
    return MTP_DRAFTS if longest is None else longest
