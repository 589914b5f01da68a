"""Names that quantised checkpoints give to the packed form of a weight, and to what lies beside it.

compressed-tensors, ModelOpt, GPTQ, AWQ, MLX, bitsandbytes and DeepSeek's block scales are known.
"""

from collections.abc import Mapping

from .._files import Tensor

_WEIGHT = ".weight"
# In place of the weight.
_PACKED = (".weight_packed", ".qweight")
# Beside it: scales, zero points, orders and statistics.
_BESIDE = (
    ".weight_scale",
    ".weight_scale_2",
    ".weight_scale_inv",
    ".weight_global_scale",
    ".weight_zero_point",
    ".weight_shape",
    ".weight_g_idx",
    ".input_scale",
    ".input_global_scale",
    ".input_zero_point",
    ".output_scale",
    ".k_scale",
    ".v_scale",
    ".q_scale",
    ".scale",
    ".scales",
    ".biases",
    ".qzeros",
    ".g_idx",
    ".pre_quant_scale",
)
_STATE = ".weight."  # bitsandbytes: NAME.weight.absmax, NAME.weight.quant_map, ...
# Types that hold several numbers in one element.
_SEVERAL = frozenset({"U8", "I32", "U32"})


def stands_for(name: str) -> tuple[str, ...]:
    """Names under which the weight is packed."""
    return tuple(name.removesuffix(_WEIGHT) + packed for packed in _PACKED)


def owner_of(name: str) -> str | None:
    """The weight that a tensor of a quantised checkpoint belongs to."""
    stem, state, _ = name.partition(_STATE)
    if state:
        return stem + _WEIGHT
    found = next((end for end in (*_PACKED, *_BESIDE) if name.endswith(end)), None)
    return None if found is None else name.removesuffix(found) + _WEIGHT


def is_packed(name: str, tensor: Tensor, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a weight has another shape because several of its numbers share an element."""
    if tensor.dtype not in _SEVERAL:
        return False
    stem = name.removesuffix(_WEIGHT)
    beside = any(stem + end in tensors for end in _BESIDE)
    return beside or any(other.startswith(stem + _STATE) for other in tensors)
