"""Tensors of a checkpoint against its configuration."""

from __future__ import annotations

import pytest

from specmeta import DrafterConfig, TargetConfig
from specmeta._dialects import Reading, check_weights, expected_tensors, read_drafter, read_target
from specmeta._files import read_document, tensor_shapes
from specmeta._findings import Finding

from .reading import BUNDLED, NAME, QWEN, SPECULATORS, V4, ZLAB, changed, published, typed

Shapes = dict[str, tuple[int, ...]]
_FILE = "model.safetensors"


def reading_of(folder: str) -> Reading[DrafterConfig]:
    return read_drafter(published(folder))


def found(
    reading: Reading[DrafterConfig], *absent: str, **other: tuple[int, ...]
) -> tuple[Finding, ...]:
    """Findings where the tensors are the expected ones but these, dots as two underscores."""
    shapes: Shapes = {
        name: tuple(1 if extent is None else extent for extent in shape)
        for name, shape in expected_tensors(reading).items()
        if name not in absent
    }
    shapes |= {name.replace("__", "."): shape for name, shape in other.items()}
    tensors = {name: typed(name, shape) for name, shape in shapes.items()}
    return check_weights(reading, tensors, target=None)


@pytest.mark.parametrize("name", ["dspark", "dflash", "mtp"])
def test_a_bundled_checkpoint_has_the_tensors_of_its_configuration(name: str) -> None:
    target = read_target(read_document(BUNDLED / "target" / NAME)).config
    assert isinstance(target, TargetConfig)
    reading = read_drafter(
        read_document(BUNDLED / name / NAME), target=read_document(BUNDLED / "target" / NAME)
    )
    assert reading.findings == ()
    tensors = tensor_shapes(BUNDLED / name)
    assert check_weights(reading, tensors, target=target) == ()
    assert expected_tensors(reading) == {name: tensor.shape for name, tensor in tensors.items()}


@pytest.mark.parametrize("folder", [QWEN, ZLAB, SPECULATORS, V4])
def test_the_expected_tensors_are_accepted(folder: str) -> None:
    assert found(reading_of(folder)) == ()


def test_the_heads_and_the_projection_have_the_published_shapes() -> None:
    qwen = expected_tensors(reading_of(QWEN))
    assert qwen["fc.weight"] == (4096, 20480)
    assert qwen["markov_head.markov_w1.weight"] == (151936, 256)
    assert qwen["markov_head.markov_w2.weight"] == (151936, 256)
    assert qwen["confidence_head.proj.weight"] == (1, 4352)
    small = expected_tensors(reading_of("dspark_qwen3_4b_block7/drafter"))
    assert small["fc.weight"] == (2560, 12800)
    assert small["confidence_head.proj.weight"] == (1, 2816)
    mapped = expected_tensors(reading_of(SPECULATORS))
    assert mapped["markov_head.markov_w1.weight"] == (151936, 256)
    assert mapped["markov_head.markov_w2.weight"] == (32000, 256)
    assert (mapped["lm_head.weight"], mapped["d2t"]) == ((32000, 4096), (32000,))


@pytest.mark.parametrize(
    ("folder", "width", "rank"),
    [(V4, 4096, 256), ("deepseek_v4_1_flash_dspark/target", 5120, 256)],
)
def test_v4_has_its_projection_first_and_its_heads_last(folder: str, width: int, rank: int) -> None:
    assert expected_tensors(reading_of(folder)) == {
        "mtp.0.main_proj.weight": (width, 3 * width),
        "mtp.0.main_norm.weight": (width,),
        "mtp.2.markov_head.w1.weight": (129280, rank),
        "mtp.2.markov_head.w2.weight": (129280, rank),
        "mtp.2.confidence_head.proj.weight": (1, width + rank),
        "mtp.2.confidence_head.proj.bias": (1,),
    }


def test_the_confidence_head_reads_the_states_alone_without_the_markov_embedding() -> None:
    reading = read_drafter(changed(QWEN, {"confidence_head_with_markov": False}))
    assert expected_tensors(reading)["confidence_head.proj.weight"] == (1, 4096)


@pytest.mark.parametrize(
    ("kind", "name", "shape"),
    [("gated", "gate_proj", (256, 4352)), ("rnn", "joint_proj", (768, 4608))],
)
def test_a_markov_head_has_the_projection_of_its_form(
    kind: str, name: str, shape: tuple[int, int]
) -> None:
    reading = read_drafter(changed(QWEN, {"markov_head_type": kind}))
    assert expected_tensors(reading)[f"markov_head.{name}.weight"] == shape


_DIFFERENT = [
    (QWEN, "fc.weight", (4096, 16384), "projection_width_differs"),
    (SPECULATORS, "fc.weight", (4096, 24576), "projection_width_differs"),
    (V4, "mtp.0.main_proj.weight", (4096, 16384), "projection_width_differs"),
    (QWEN, "fc.weight", (4097, 20480), "tensor_shape_differs"),
    (QWEN, "markov_head.markov_w1.weight", (151669, 256), "markov_rows_differ"),
    (SPECULATORS, "markov_head.markov_w2.weight", (151936, 256), "markov_rows_differ"),
    (V4, "mtp.2.markov_head.w2.weight", (99092, 256), "markov_rows_differ"),
    (QWEN, "markov_head.markov_w2.weight", (151936, 8), "tensor_shape_differs"),
    (QWEN, "confidence_head.proj.weight", (1, 4096), "tensor_shape_differs"),
    (ZLAB, "layers.4.self_attn.k_proj.weight", (4096, 4096), "tensor_shape_differs"),
    (SPECULATORS, "d2t", (99092,), "d2t_length_differs"),
    (SPECULATORS, "lm_head.weight", (151936, 4096), "draft_head_differs"),
]


@pytest.mark.parametrize(("folder", "name", "shape", "rule"), _DIFFERENT)
def test_a_tensor_of_another_shape_breaks_its_rule(
    folder: str, name: str, shape: tuple[int, ...], rule: str
) -> None:
    (problem,) = found(reading_of(folder), **{name: shape})
    assert (problem.rule, problem.field, problem.value) == (rule, name, str(list(shape)))
    assert (problem.file, problem.line) == (_FILE, None)


def test_a_projection_of_another_width_tells_planes_and_ids() -> None:
    (problem,) = found(reading_of(QWEN), fc__weight=(4096, 16384))
    assert problem.fact == "has the shape [4096, 16384], 4 planes of 4096, and 5 layer ids"


def test_absent_tensors_are_told_together() -> None:
    (problem,) = found(reading_of(QWEN), "norm.weight", "hidden_norm.weight")
    assert (problem.rule, problem.field) == ("tensor_missing", "hidden_norm.weight")
    assert problem.fact == "2 tensors are not there: hidden_norm.weight, norm.weight"


def test_biases_of_the_heads_are_optional() -> None:
    assert found(reading_of(QWEN), "confidence_head.proj.bias") == ()


@pytest.mark.parametrize("folder", [QWEN, ZLAB])
def test_the_embedding_and_the_head_may_be_the_targets_or_the_drafters_own(folder: str) -> None:
    own = {"embed_tokens.weight": (151936, 4096), "lm_head.weight": (151936, 4096)}
    assert found(reading_of(folder), **own) == ()


def test_tensors_that_nothing_reads_are_told_together() -> None:
    other = {f"enc.aux_norm.{index}.weight": (4096,) for index in range(7)}
    (problem,) = found(reading_of(QWEN), **other)
    assert (problem.rule, problem.field) == ("tensor_unclaimed", "enc.aux_norm.0.weight")
    names = ", ".join(list(other)[:5])
    assert problem.fact == f"7 tensors that nothing reads: {names} …"


def test_the_target_around_a_bundled_drafter_is_not_judged() -> None:
    assert found(reading_of(V4), embed__weight=(129280, 4096)) == ()


def test_a_smaller_draft_vocabulary_needs_a_head_of_its_own() -> None:
    (problem,) = found(reading_of(SPECULATORS), "lm_head.weight")
    assert (problem.rule, problem.field) == ("draft_head_differs", "lm_head.weight")
    assert problem.fact == "the drafter has 32000 draft tokens and no head of its own"
