"""What the runner must know about a transformers model before it runs it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

EMBEDDING_LAYER = -1
"""Layer id of the embedding output; id `i >= 0` is the raw output of decoder layer `i`."""


def cache_argument(model: PreTrainedModel) -> str:
    """Name under which the model's forward takes its cache; a ValueError where it lacks one."""
    parameters = inspect.signature(model.forward).parameters
    # transformers renamed `past_key_values` to `cache` in 5.24 and warns on the old name.
    names = [name for name in ("cache", "past_key_values") if name in parameters]
    missing = [
        name
        for name in ("attention_mask", "position_ids", "logits_to_keep", "use_cache")
        if name not in parameters
    ]
    if missing or not names:
        raise ValueError(
            f"model: the forward of {type(model).__name__} takes no {(missing or ['cache'])[0]}; "
            "use a decoder-only causal language model of transformers"
        )
    return names[0]


def check_positions(config: Any, max_seq_len: int) -> None:
    """Raise a ValueError where the model cannot attend to `max_seq_len` tokens in full."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is not None and max_seq_len > limit:
        raise ValueError(
            f"max_seq_len: {max_seq_len} exceeds the model's max_position_embeddings {limit}; "
            "lower it"
        )
    kinds = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    # Without layer_types (Mistral, for one) a window, where there is one, holds for every layer.
    windowed = window is not None if kinds is None else any(k != "full_attention" for k in kinds)
    if windowed and (window is None or window < max_seq_len):
        raise ValueError(
            f"max_seq_len: {max_seq_len} with layers other than full attention (sliding window "
            f"{window}); the KV store shows the whole context, so lower max_seq_len to the window"
        )


def layers_to_hook(model: Any, ids: tuple[int, ...]) -> list[tuple[int, nn.Module]]:
    """The module whose output is each captured layer; a ValueError for an id without one."""
    layers = getattr(model.get_decoder(), "layers", None)
    if layers is None:
        raise ValueError(
            f"model: {type(model).__name__} has no decoder layers to hook; use a decoder-only model"
        )
    for index, layer_id in enumerate(ids):
        if not EMBEDDING_LAYER <= layer_id < len(layers) or (index and layer_id <= ids[index - 1]):
            raise ValueError(
                f"target_layer_ids[{index}]: {layer_id}; give ids from -1 (embedding) to "
                f"{len(layers) - 1}, strictly increasing"
            )
    embedding: nn.Module = model.get_input_embeddings()
    return [(i, embedding if i == EMBEDDING_LAYER else layers[i]) for i in ids]
