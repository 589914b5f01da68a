"""What a DSpark worker refuses, before it touches any state."""

from __future__ import annotations

import torch
from torch import Tensor

from specmeta import Deployment, DSparkDrafterConfig, DSparkSpecMetadata

from ._dspark_model import DSparkDraftModel


def check_is_deployment(deployment: object) -> None:
    """Take a `Deployment` and nothing else: what looks like one has not been checked.

    Raises:
        TypeError: any other type, exactly.

    """
    if type(deployment) is not Deployment:
        raise TypeError(
            f"deployment: {type(deployment).__name__} is not a specmeta.Deployment; compose one, "
            "in tests with specmeta.testing.make_deployment"
        )


def check_deployment(deployment: Deployment, draft_model: DSparkDraftModel) -> DSparkDrafterConfig:
    """The drafter of a deployment that a `DSparkWorker` can serve with this model.

    Raises:
        TypeError: not a `Deployment`, or not a `DSparkDraftModel`.
        ValueError: another method, rejection sampling, an acceptance gate, or another model's
            configuration or type.

    """
    check_is_deployment(deployment)
    if not isinstance(draft_model, DSparkDraftModel):
        raise TypeError(
            f"draft_model: {type(draft_model).__name__} is not a DSparkDraftModel; load one with "
            "load_draft_model"
        )
    drafter = deployment.drafter
    if not isinstance(drafter, DSparkDrafterConfig):
        raise ValueError(  # noqa: TRY004 - a valid Deployment, with a value that is not served here
            f"deployment: its decoding_type is {deployment.decoding_type}; a DSparkWorker serves "
            "DSpark deployments"
        )
    if deployment.decoding.use_rejection_sampling:
        raise ValueError(
            "decoding.use_rejection_sampling: True, but DSparkWorker accepts greedily; set it to "
            "False"
        )
    if (window := deployment.decoding.acceptance_rate_window_size) is not None:
        raise ValueError(
            f"decoding.acceptance_rate_window_size: {window}, but no acceptance gate is "
            "implemented here; leave it and its threshold None"
        )
    if draft_model.config != drafter:
        raise ValueError(
            "draft_model: its configuration is not deployment.drafter; compose the deployment from "
            "draft_model.config"
        )
    if draft_model.dtype != getattr(torch, deployment.engine.dtype):
        raise ValueError(
            f"draft_model: its weights are {draft_model.dtype}, engine.dtype is "
            f"{deployment.engine.dtype}; load it with dtype={deployment.engine.dtype!r}"
        )
    return drafter


def check_metadata(metadata: object, deployment: Deployment) -> None:
    """Take a validated `DSparkSpecMetadata` of this deployment and nothing else.

    Raises:
        TypeError: any other type, exactly: a mock with a spec would pass `isinstance`.
        ValueError: a static field differs from the deployment's.

    """
    if type(metadata) is not DSparkSpecMetadata:
        raise TypeError(
            f"metadata: {type(metadata).__name__} is not a DSparkSpecMetadata; build it with "
            "specmeta.get_spec_metadata(deployment, ...), in tests with specmeta.testing"
        )
    drafter = deployment.drafter
    assert isinstance(drafter, DSparkDrafterConfig)
    expected = {
        "num_seq_slots": deployment.engine.num_seq_slots,
        "max_draft_len": deployment.decoding.max_draft_len,
        "hidden_size": deployment.target.hidden_size,
        "dtype": deployment.engine.dtype,
        "num_stages": drafter.num_layers,
        "layers_to_capture": drafter.layers_to_capture,
        "window_size": deployment.window_size,
        "block_size": drafter.block_size,
    }
    for name, value in expected.items():
        if (found := getattr(metadata, name)) != value:
            raise ValueError(
                f"{name}: the metadata says {found!r}, this worker's deployment {value!r}; build "
                "metadata from the worker's own deployment"
            )


def check_tensor(
    name: str,
    tensor: object,
    shape: tuple[int, ...],
    dtype: torch.dtype | None,
    device: torch.device,
) -> None:
    """Check shape, dtype (None: any floating type) and device of an argument.

    Raises:
        TypeError: not a tensor.
        ValueError: a tensor of another kind; the message has both.

    """
    wanted = f"{list(shape)} {dtype or 'of a floating type'} on {device}"
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: {type(tensor).__name__} is not a tensor, expected {wanted}")
    fits = tensor.is_floating_point() if dtype is None else tensor.dtype == dtype
    if tensor.shape != shape or not fits or tensor.device != device:
        raise ValueError(
            f"{name}: {list(tensor.shape)} {tensor.dtype} on {tensor.device}, expected {wanted}"
        )


def check_tokens(name: str, tokens: Tensor, vocab_size: int) -> None:
    """Check that every token is one of the vocabulary; reads them on the host.

    Raises:
        ValueError: names the first that is not.

    """
    for index, token in enumerate(tokens.tolist()):
        if not 0 <= token < vocab_size:
            raise ValueError(f"{name}[{index}]: {token} is not a token from 0 to {vocab_size - 1}")
