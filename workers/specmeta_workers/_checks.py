"""What a worker refuses, before it touches any state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from specmeta import Deployment
from specmeta._factory import metadata_class, static_fields

if TYPE_CHECKING:
    from torch import nn


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


def check_deployment(
    deployment: Deployment, draft_model: Any, decoding_type: str, model_type: type[nn.Module]
) -> None:
    """Take a deployment of a worker's decoding type and the draft model that it describes.

    Raises:
        TypeError: not a `Deployment`, or a draft model of another class.
        ValueError: another method, or another model's configuration or type.

    """
    check_is_deployment(deployment)
    if not isinstance(draft_model, model_type):
        raise TypeError(
            f"draft_model: {type(draft_model).__name__} is not a {model_type.__name__}; load one "
            "with load_draft_model"
        )
    if deployment.decoding_type != decoding_type:
        raise ValueError(
            f"deployment: its decoding_type is {deployment.decoding_type}; a {decoding_type}Worker "
            f"serves {decoding_type} deployments"
        )
    # Any: nn.Module gives every attribute the type of a tensor or a module.
    model: Any = draft_model
    if model.config != deployment.drafter:
        raise ValueError(
            "draft_model: its configuration is not deployment.drafter; compose the deployment from "
            "draft_model.config"
        )
    if model.dtype != getattr(torch, deployment.engine.dtype):
        raise ValueError(
            f"draft_model: its weights are {model.dtype}, engine.dtype is "
            f"{deployment.engine.dtype}; load it with dtype={deployment.engine.dtype!r}"
        )


_SHAPE_FIELDS = {"max_num_requests", "max_num_tokens"}
"""Static fields that a graph bucket or a caller narrows; no state is sized from them."""


def check_metadata(metadata: object, deployment: Deployment) -> None:
    """Take validated metadata of this deployment and nothing else.

    Raises:
        TypeError: any other type, exactly: a mock with a spec would pass `isinstance`.
        ValueError: a static field differs from the deployment's, or the rows have sampling
            parameters where the deployment accepts strictly, or none where it samples.

    """
    wanted = metadata_class(deployment)
    if type(metadata) is not wanted:
        raise TypeError(
            f"metadata: {type(metadata).__name__} is not a {wanted.__name__}; build it with "
            "specmeta.get_spec_metadata(deployment, ...), in tests with specmeta.testing"
        )
    for name, value in static_fields(deployment).items():
        if name not in _SHAPE_FIELDS and (found := getattr(metadata, name)) != value:
            raise ValueError(
                f"{name}: the metadata says {found!r}, this worker's deployment {value!r}; build "
                "metadata from the worker's own deployment"
            )
    # Any: which class it is has been checked above.
    checked: Any = metadata
    if deployment.decoding.use_rejection_sampling != (checked.sampling is not None):
        given = "None" if checked.sampling is None else "given"
        raise ValueError(
            f"sampling: {given}, but this worker's deployment has use_rejection_sampling "
            f"{deployment.decoding.use_rejection_sampling}; give one SamplingParams a row exactly "
            "where it is True"
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
    listed = tokens.tolist()
    if not listed or 0 <= min(listed) <= max(listed) < vocab_size:
        return
    index = next(i for i, token in enumerate(listed) if not 0 <= token < vocab_size)
    raise ValueError(f"{name}[{index}]: {listed[index]} is not a token from 0 to {vocab_size - 1}")
