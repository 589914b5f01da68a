"""Draft models from published checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ._checkpoint import read_config, read_tensors, shapes, weight_files
from ._config_reader import read_drafter_config
from ._dspark_model import DSparkDraftModel
from ._errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specmeta import DSparkDrafterConfig, DType

_EMBEDDING = "embed_tokens.weight"
_HEAD = "lm_head.weight"
_PLAIN = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
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
) -> DSparkDraftModel:
    """Load a drafter in the published DeepSpec layout, ready for inference.

    Args:
        path: directory with `config.json` and `model.safetensors` (or shards with an index).
        target: where the embedding and the head come from if the checkpoint has none: a
            `transformers` causal language model, or its checkpoint directory.
        dtype: floating type of the weights; None keeps the checkpoint's.

    Returns:
        The model in eval mode, on the CPU, without gradients.

    Raises:
        CheckpointError: the configuration cannot be used (see `read_drafter_config`), or a tensor
            is missing, unclaimed or of the wrong shape. One message names file, tensor, both
            shapes and the remedy.
        ValueError: `dtype` is none of the types that a model can run in.

    """
    wanted = _wanted(dtype)
    directory = Path(path)
    config = read_drafter_config(directory)
    files = weight_files(directory)
    found = shapes(files)
    _check_sizes(directory, config, found)
    with torch.device("meta"):
        model = DSparkDraftModel(config)
    for name in _OPTIONAL_BIASES:
        if name not in files:
            _drop_bias(model, name)
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    borrowed = _borrowed(directory, expected, files, target)
    _check_tensors(_where(directory, files), expected, found, borrowed)
    tensors = read_tensors(files, expected.keys() - borrowed.keys()) | borrowed
    for name, tensor in tensors.items():
        if tensor.dtype not in _PLAIN:
            raise CheckpointError(
                f"{files.get(name, directory)}: {name} is {tensor.dtype}, expected one of "
                f"{', '.join(map(str, _PLAIN))}; quantized weights are not read"
            )
    if wanted is None:
        wanted = tensors["fc.weight"].dtype
    model.load_state_dict(
        {name: value.detach().to("cpu", wanted) for name, value in tensors.items()}, assign=True
    )
    return model.eval().requires_grad_(False)


def _wanted(dtype: object) -> torch.dtype | None:
    wanted = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and wanted not in _PLAIN:
        raise ValueError(f"dtype: {dtype!r} is none of {', '.join(map(str, _PLAIN))}; pass one")
    return wanted  # type: ignore[return-value]  # None, or one of _PLAIN


def _check_sizes(
    directory: Path, config: DSparkDrafterConfig, found: Mapping[str, tuple[int, ...]]
) -> None:
    """Refuse sizes far beyond the weights, before a model of that size is laid out."""
    largest = max((max(shape, default=0) for shape in found.values()), default=0)
    widest = f"no tensor is wider than {largest}"
    limits = {
        "num_hidden_layers": (config.num_layers, len(found), f"there are {len(found)} tensors"),
        "hidden_size": (config.hidden_size, largest, widest),
        "intermediate_size": (config.intermediate_size, largest, widest),
        "num_attention_heads": (config.num_attention_heads, largest, widest),
        "head_dim": (config.head_dim, largest, widest),
        "markov_rank": (config.markov_rank, largest, widest),
        # The tensors of this size may all be the target's.
        "vocab_size": (config.vocab_size, max(largest, 2**31), "no vocabulary is that large"),
        "block_size": (
            config.block_size,
            config.max_position_embeddings,
            f"max_position_embeddings is {config.max_position_embeddings}",
        ),
    }
    for key, (size, limit, why) in limits.items():
        if size > limit:
            raise CheckpointError(
                f"{directory / 'config.json'}: {key} is {size}, but {why}; use the config.json "
                "that belongs to these weights"
            )


def _drop_bias(model: DSparkDraftModel, name: str) -> None:
    owner: nn.Module | None = model
    *parts, leaf = name.split(".")
    for part in parts:
        owner = getattr(owner, part, None)
    if owner is not None:
        owner.register_parameter(leaf, None)


def _borrowed(
    directory: Path,
    expected: Mapping[str, tuple[int, ...]],
    files: Mapping[str, Path],
    target: nn.Module | str | Path | None,
) -> dict[str, Tensor]:
    """Embedding and head that the checkpoint leaves out: tied to each other, or the target's."""
    absent = [name for name in (_EMBEDDING, _HEAD) if name not in files]
    _, raw = read_config(directory)
    if absent == [_HEAD] and raw.get("tie_word_embeddings") is True:
        return {_HEAD: read_tensors(files, [_EMBEDDING])[_EMBEDDING]}
    if not absent or target is None:
        return {}
    source = _from_module(target) if isinstance(target, nn.Module) else _from_directory(target)
    for name in absent:
        if (found := tuple(source[name].shape)) != expected[name]:
            raise CheckpointError(
                f"{directory}: the target's {name} is {list(found)}, expected "
                f"{list(expected[name])}; pass the target that the drafter was trained for"
            )
    return {name: source[name] for name in absent}


def _from_module(target: nn.Module) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, getter in ((_EMBEDDING, "get_input_embeddings"), (_HEAD, "get_output_embeddings")):
        method = getattr(target, getter, None)
        layer: Any = method() if callable(method) else None
        if layer is None:
            raise CheckpointError(
                f"target: {type(target).__name__} gives no {getter}(), needed for {name}; pass a "
                "transformers causal language model or its directory"
            )
        found[name] = layer.weight
    return found


def _from_directory(target: str | Path) -> dict[str, Tensor]:
    directory = Path(target)
    files = weight_files(directory)
    _, raw = read_config(directory)
    homes: dict[str, str] = {}
    for name in (_EMBEDDING, _HEAD):
        homes[name] = next((n for n in (f"model.{name}", name) if n in files), "")
    if not homes[_HEAD] and raw.get("tie_word_embeddings") is True:
        homes[_HEAD] = homes[_EMBEDDING]
    for name, home in homes.items():
        if not home:
            raise CheckpointError(
                f"{directory}: {name} is missing; pass the directory of a causal language model"
            )
    tensors = read_tensors(files, set(homes.values()))
    return {name: tensors[home] for name, home in homes.items()}


def _where(directory: Path, files: Mapping[str, Path]) -> Path:
    homes = set(files.values())
    return homes.pop() if len(homes) == 1 else directory


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
            cure = " (pass target= to share the target's)" if name in (_EMBEDDING, _HEAD) else ""
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
