"""Tensors of quantised checkpoints are those of the weights that they stand for."""

from __future__ import annotations

import pytest

from specmeta._dialects import check_weights, expected_tensors, read_drafter
from specmeta._files import Tensor

from .reading import QWEN, SPECULATORS, changed, published, typed

_NAME = "layers.0.self_attn.q_proj"
_WEIGHT = f"{_NAME}.weight"
_FILE = "model.safetensors"


def _rules(folder: str, other: dict[str, Tensor | None], **changes: object) -> list[str]:
    reading = read_drafter(changed(folder, changes))
    tensors: dict[str, Tensor | None] = {
        name: typed(name, tuple(extent or 1 for extent in shape))
        for name, shape in expected_tensors(reading).items()
    }
    tensors |= other
    held = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return [found.rule for found in check_weights(reading, held)]


def _tensor(dtype: str, *shape: int) -> Tensor:
    return Tensor(shape, dtype, _FILE)


@pytest.mark.parametrize(
    "tensors",
    [
        pytest.param(
            {
                _WEIGHT: _tensor("F8_E4M3", 4096, 4096),
                f"{_NAME}.weight_scale": _tensor("F32", 1),
                f"{_NAME}.input_scale": _tensor("F32", 1),
            },
            id="float8 and its scales",
        ),
        pytest.param(
            {
                _WEIGHT: _tensor("U8", 4096, 2048),
                f"{_NAME}.weight_scale": _tensor("F8_E4M3", 4096, 256),
                f"{_NAME}.weight_scale_2": _tensor("F32"),
            },
            id="ModelOpt float4",
        ),
        pytest.param(
            {
                _WEIGHT: None,
                f"{_NAME}.weight_packed": _tensor("U8", 4096, 2048),
                f"{_NAME}.weight_scale": _tensor("F8_E4M3", 4096, 256),
                f"{_NAME}.weight_global_scale": _tensor("F32", 1),
                f"{_NAME}.input_global_scale": _tensor("F32", 1),
            },
            id="compressed-tensors float4",
        ),
        pytest.param(
            {
                _WEIGHT: None,
                f"{_NAME}.qweight": _tensor("I32", 512, 4096),
                f"{_NAME}.qzeros": _tensor("I32", 32, 512),
                f"{_NAME}.scales": _tensor("F16", 32, 4096),
                f"{_NAME}.g_idx": _tensor("I32", 4096),
            },
            id="GPTQ",
        ),
        pytest.param(
            {
                _WEIGHT: _tensor("U32", 4096, 512),
                f"{_NAME}.scales": _tensor("BF16", 4096, 64),
                f"{_NAME}.biases": _tensor("BF16", 4096, 64),
            },
            id="MLX",
        ),
        pytest.param(
            {
                _WEIGHT: _tensor("U8", 8388608, 1),
                f"{_WEIGHT}.absmax": _tensor("U8", 262144),
                f"{_WEIGHT}.quant_map": _tensor("F32", 16),
            },
            id="bitsandbytes",
        ),
    ],
)
def test_a_quantised_weight_is_the_weight(tensors: dict[str, Tensor | None]) -> None:
    assert _rules(QWEN, tensors) == []


@pytest.mark.parametrize(
    ("tensors", "rule"),
    [
        ({_WEIGHT: _tensor("F8_E4M3", 4096, 2048)}, "tensor_shape_differs"),
        ({_WEIGHT: _tensor("U8", 4096, 2048)}, "tensor_shape_differs"),
        ({_WEIGHT: None, f"{_NAME}.weight_scale": _tensor("F32", 1)}, "tensor_missing"),
        ({"enc.aux.weight_scale": _tensor("F32", 1)}, "tensor_unclaimed"),
    ],
)
def test_what_belongs_to_no_weight_is_told(tensors: dict[str, Tensor | None], rule: str) -> None:
    assert _rules(QWEN, tensors) == [rule]


def test_a_packed_head_of_fewer_tokens_is_a_head() -> None:
    packed = {"lm_head.weight": None, "lm_head.qweight": _tensor("I32", 512, 32000)}
    assert _rules(SPECULATORS, packed) == []


@pytest.mark.parametrize(
    ("name", "tensor", "rule"),
    [
        ("d2t", _tensor("BF16", 32000), "d2t_type_differs"),
        ("d2t", _tensor("I32", 32000), None),
        ("t2d", _tensor("BOOL", 151936), None),
        ("t2d", _tensor("BOOL", 32000), "d2t_length_differs"),
    ],
)
def test_the_maps_between_vocabularies_are_compared(
    name: str, tensor: Tensor, rule: str | None
) -> None:
    assert _rules(SPECULATORS, {name: tensor}) == ([] if rule is None else [rule])


@pytest.mark.parametrize("name", ["K3DSparkModel", "LingDSparkModel", "DSparkDraftModel"])
def test_layers_that_no_published_source_describes_are_not_judged(name: str) -> None:
    facts = {"architectures": [name], "sample_from_anchor": True, "is_causal": False}
    document = changed(QWEN, facts)
    assert document.data != published(QWEN).data
    shapes = expected_tensors(read_drafter(document))
    other: dict[str, Tensor | None] = {n: None for n in shapes if n.startswith("layers.")}
    other["layers.0.self_attn.kv_a_proj.weight"] = _tensor("BF16", 576, 4096)
    assert _rules(QWEN, other, **facts) == []
    assert _rules(QWEN, {"fc.weight": None}, **facts) == ["tensor_missing"]
