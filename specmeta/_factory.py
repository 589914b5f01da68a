"""The one place where a deployment becomes the metadata of a batch."""

from typing import Any

from ._deployment import Deployment
from ._drafter import MTPDrafterConfig
from ._metadata import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata
from ._sampling import SamplingParams
from ._types import RequestId

METADATA_CLASSES: dict[
    str, type[DSparkSpecMetadata] | type[DFlashSpecMetadata] | type[MTPSpecMetadata]
] = {
    "DSpark": DSparkSpecMetadata,
    "DFlash": DFlashSpecMetadata,
    "MTP": MTPSpecMetadata,
}


def static_fields(deployment: Deployment) -> dict[str, Any]:
    """The fields of a step's metadata that the deployment alone decides."""
    engine, drafter = deployment.engine, deployment.drafter
    fields: dict[str, Any] = {
        "num_seq_slots": engine.num_seq_slots,
        "max_num_requests": engine.max_num_requests,
        "max_num_tokens": engine.max_num_tokens,
        "max_draft_len": deployment.decoding.max_draft_len,
        "hidden_size": deployment.target.hidden_size,
        "dtype": engine.dtype,
        "num_stages": drafter.num_layers,
        "uniform_rows": engine.uniform_rows,
    }
    if not isinstance(drafter, MTPDrafterConfig):
        fields["layers_to_capture"] = drafter.layers_to_capture
        fields["window_size"] = deployment.window_size
        fields["block_size"] = deployment.block_size
    return fields


def metadata_class(
    deployment: Deployment,
) -> type[DSparkSpecMetadata] | type[DFlashSpecMetadata] | type[MTPSpecMetadata]:
    """The class of a deployment's metadata."""
    return METADATA_CLASSES[deployment.decoding_type]


def get_spec_metadata(
    deployment: Deployment,
    *,
    request_ids: tuple[RequestId, ...],
    num_contexts: int,
    seq_lens: tuple[int, ...],
    context_positions: tuple[int, ...],
    num_padding: int = 0,
    finished_request_ids: tuple[RequestId, ...] = (),
    all_rank_num_generations: tuple[int, ...] | None = None,
    sampling: tuple[SamplingParams, ...] | None = None,
) -> DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata:
    """The metadata of a batch, of the class that matches the deployment's decoding type.

    The later batches of the same deployment come cheaper from ``metadata.with_batch(...)``, and a
    step whose batch did not change reuses the object it has.

    Raises ``pydantic.ValidationError`` for rows that break a rule, ``TypeError`` for anything but a
    `Deployment`.
    """
    if type(deployment) is not Deployment:  # isinstance believes a mock's __class__
        raise TypeError(f"get_spec_metadata takes a Deployment, not {type(deployment).__name__}")
    return metadata_class(deployment)(
        request_ids=request_ids,
        num_contexts=num_contexts,
        seq_lens=seq_lens,
        context_positions=context_positions,
        num_padding=num_padding,
        finished_request_ids=finished_request_ids,
        all_rank_num_generations=all_rank_num_generations,
        sampling=sampling,
        **static_fields(deployment),
    )
