"""Draft models from checkpoints in the layouts of `read_drafter_config`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from specmeta import (
    CheckpointError,
    DFlashDrafterConfig,
    DSparkDrafterConfig,
    MTPDrafterConfig,
    read_drafter_config,
)

from ._borrowed_weights import EMBEDDING, HEAD, borrowed_weights
from ._checkpoint import read_config, read_tensors, stored_tensors
from ._dflash_model import DFlashDraftModel
from ._dspark_model import DSparkDraftModel
from ._implemented import check_implemented
from ._mtp_model import MTPDraftModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specmeta import DrafterConfig, DType

DraftModel = DSparkDraftModel | DFlashDraftModel | MTPDraftModel
"""Any draft model; which one, its configuration says."""

_PLAIN = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
# The tensor whose type is the checkpoint's.
_PROJECTION: dict[type[nn.Module], str] = {
    DSparkDraftModel: "fc.weight",
    DFlashDraftModel: "fc.weight",
    MTPDraftModel: "eh_proj.weight",
}
# Linear layers that are published with and without a bias; without one they simply have none.
_OPTIONAL_BIASES = (
    "markov_head.gate_proj.bias",
    "markov_head.joint_proj.bias",
    "confidence_head.proj.bias",
)


def load_draft_model(
    path: str | Path,
    target: nn.Module | str | Path | None = None,
    *,
    dtype: DType | torch.dtype | None = None,
    stated: Mapping[str, object] | None = None,
) -> DraftModel:
    """Load a drafter, ready for inference.

    Args:
        path: directory with `config.json` and `model.safetensors` (or shards with an index).
        target: where the embedding and the head come from if the checkpoint has none: a
            `transformers` causal language model, or its checkpoint directory.
        dtype: floating type of the weights; None keeps the checkpoint's.
        stated: facts that no file of the checkpoint states (see `specmeta.read_drafter_config`).

    Returns:
        The model of the configuration's kind in eval mode, on the CPU, without gradients.

    Raises:
        CheckpointError: the configuration cannot be used (see `read_drafter_config`), or a tensor
            is missing, unclaimed, of the wrong shape, or not finite. One message names file,
            tensor, both shapes and the remedy.
        ValueError: `dtype` is none of the types that a model can run in.

    """
    wanted = _wanted(dtype)
    directory = Path(path)
    config = read_drafter_config(directory, stated=stated)
    stored = stored_tensors(directory)
    file = read_config(directory)
    check_implemented(file)
    found = {name: tensor.shape for name, tensor in stored.items()}
    _check_sizes(directory, config, found)
    model = _lay_out(directory, config)
    for name in _OPTIONAL_BIASES:
        if name not in stored:
            _drop_bias(model, name)
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    borrowed = borrowed_weights(directory, config, file, expected, stored, target)
    homes = {tensor.file for tensor in stored.values()}
    where = homes.pop() if len(homes) == 1 else directory
    _check_tensors(where, expected, found, borrowed)
    tensors = read_tensors(stored, expected.keys() - borrowed.keys()) | borrowed
    if wanted is None:
        wanted = tensors[_PROJECTION[type(model)]].dtype
    weights: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        own = f"{stored[name].file}: {name}" if name in stored else ""
        weights[name] = _cast(own or f"{directory}: the target's {name}", tensor, wanted)
    model.load_state_dict(weights, assign=True)
    return model.eval().requires_grad_(False)


def _wanted(dtype: object) -> torch.dtype | None:
    wanted = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and wanted not in _PLAIN:
        raise ValueError(f"dtype: {dtype!r} is none of {', '.join(map(str, _PLAIN))}; pass one")
    return wanted  # type: ignore[return-value]  # None, or one of _PLAIN


def _check_sizes(
    directory: Path, config: DrafterConfig, found: Mapping[str, tuple[int, ...]]
) -> None:
    """Refuse sizes far beyond the weights, before a model of that size is laid out."""
    largest = max((max(shape, default=0) for shape in found.values()), default=0)
    widest = f"no tensor is wider than {largest}"
    is_mtp = isinstance(config, MTPDrafterConfig)
    layers = "num_nextn_predict_layers" if is_mtp else "num_hidden_layers"
    limits = {
        layers: (config.num_layers, len(found), f"there are {len(found)} tensors"),
        "hidden_size": (config.hidden_size, largest, widest),
        "intermediate_size": (config.intermediate_size or 0, largest, widest),
        "num_attention_heads": (config.num_attention_heads or 0, largest, widest),
        "head_dim": (config.head_dim or 0, largest, widest),
    }
    longest = config.max_position_embeddings
    if not isinstance(config, MTPDrafterConfig) and longest is not None:
        why = f"max_position_embeddings is {longest}"
        limits["block_size"] = (config.block_size, longest, why)
    if isinstance(config, DSparkDrafterConfig):
        limits["markov_rank"] = (config.markov_rank, largest, widest)
    for key, (size, limit, why) in limits.items():
        if size > limit:
            raise CheckpointError(
                f"{directory / 'config.json'}: {key} is {size}, but {why}; use the config.json "
                "that belongs to these weights"
            )


def _lay_out(directory: Path, config: DrafterConfig) -> DraftModel:
    """The model without memory for its weights."""
    try:
        with torch.device("meta"):
            if isinstance(config, DSparkDrafterConfig):
                return DSparkDraftModel(config)
            if isinstance(config, DFlashDrafterConfig):
                return DFlashDraftModel(config)
            return MTPDraftModel(config)
    except ValueError as error:  # what the configuration allows and the model does not implement
        raise CheckpointError(f"{directory / 'config.json'}: {error}") from None


def _cast(where: str, tensor: Tensor, wanted: torch.dtype) -> Tensor:
    """The tensor on the CPU in this type; refused if quantized or not finite, before or after."""
    if tensor.dtype not in _PLAIN:
        raise CheckpointError(
            f"{where} is {tensor.dtype}, expected one of {', '.join(map(str, _PLAIN))}; quantized "
            "weights are not read"
        )
    weight = tensor.detach().to("cpu", wanted)
    finite = torch.isfinite(weight)
    if finite.all():
        return weight
    index = finite.logical_not().nonzero()[0].tolist()
    value = tensor[tuple(index)].item()
    if math.isfinite(value):
        raise CheckpointError(
            f"{where}{index} is {value:g}, beyond {wanted}; load it as torch.bfloat16 or "
            "torch.float32"
        )
    raise CheckpointError(
        f"{where}{index} is {value}, but a weight must be finite; fetch the file again or use "
        "another checkpoint"
    )


def _drop_bias(model: nn.Module, name: str) -> None:
    owner: nn.Module | None = model
    *parts, leaf = name.split(".")
    for part in parts:
        owner = getattr(owner, part, None)
    if owner is not None:
        owner.register_parameter(leaf, None)


def _check_tensors(
    where: Path,
    expected: Mapping[str, tuple[int, ...]],
    found: Mapping[str, tuple[int, ...]],
    borrowed: Mapping[str, Tensor],
) -> None:
    problems: list[str] = []
    for name, shape in expected.items():
        if name in borrowed:
            continue
        if name not in found:
            cure = " (pass target= to share the target's)" if name in (EMBEDDING, HEAD) else ""
            problems.append(f"{name} is missing, expected {list(shape)}{cure}")
        elif found[name] != shape:
            problems.append(f"{name} is {list(found[name])}, expected {list(shape)}")
    problems += [
        f"{name} {list(shape)} has no place in the model"
        for name, shape in found.items()
        if name not in expected
    ]
    if problems:
        more = f", and {len(problems) - 5} more problems" if len(problems) > 5 else ""
        raise CheckpointError(
            f"{where}: {'; '.join(problems[:5])}{more}; use the config.json that belongs to "
            "these weights"
        )
