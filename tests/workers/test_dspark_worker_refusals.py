"""What a worker refuses, before it touches any state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
import torch

from specmeta import DecodingType, DSparkDrafterConfig, RequestId, SamplingParams
from specmeta.testing import (
    make_deployment,
    make_dflash_metadata,
    make_dspark_metadata,
    make_mtp_metadata,
)
from specmeta_workers import DSparkDraftModel, DSparkWorker
from tests.workers.worker_cases import KINDS, make_model, make_rig, same_state, state_of

if TYPE_CHECKING:
    from collections.abc import Callable


def _mock_of(real: Any) -> Any:
    """A mock with the fields and, to `isinstance`, the class of the real thing."""
    mock = Mock(**dict(real))
    mock.__class__ = type(real)  # what Mock(spec=...) does
    assert isinstance(mock, type(real))
    return mock


_STAND_INS: dict[str, Callable[[Any], object]] = {
    "SimpleNamespace": lambda real: SimpleNamespace(**dict(real)),
    "dict": lambda real: real.model_dump(),
    "Mock": _mock_of,
    "DSparkSpecMetadata": lambda real: make_dspark_metadata(request_ids=real.request_ids),
    "DFlashSpecMetadata": lambda real: make_dflash_metadata(request_ids=real.request_ids),
    "MTPSpecMetadata": lambda real: make_mtp_metadata(request_ids=real.request_ids),
    "NoneType": lambda _: None,
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in KINDS for name in _STAND_INS if name != f"{kind}SpecMetadata"],
)
@pytest.mark.parametrize("method", ["forward", "seed"])
def test_anything_but_its_own_metadata_class_is_a_type_error(
    kind: DecodingType, name: str, method: str
) -> None:
    rig = make_rig(kind=kind)
    rig.context(1, rig.captured(5))
    stand_in = _STAND_INS[name](rig.metadata(request_ids=(1,)))
    before = state_of(rig.worker)
    arguments: dict[str, Any] = (
        {"logits": torch.zeros(rig.width, 256)}
        if method == "forward"
        else {"next_tokens": rig.tokens(1)}
    )
    with pytest.raises(TypeError, match=f"{name} is not a {kind}SpecMetadata; build it with"):
        getattr(rig.worker, method)(
            stand_in,
            input_ids=rig.tokens(rig.width),
            captured=rig.captured(rig.width),
            **arguments,
        )
    assert same_state(before, rig.worker)


_GOOD: dict[str, Callable[[], torch.Tensor]] = {
    "input_ids": lambda: torch.zeros(13, dtype=torch.long),
    "logits": lambda: torch.zeros(9, 256),
    "captured": lambda: torch.zeros(13, 128),
}
_BAD: list[tuple[str, torch.Tensor, str]] = [
    ("input_ids", torch.zeros(12, dtype=torch.long), r"\[12\] .* expected \[13\] torch.int64"),
    (
        "input_ids",
        torch.zeros(13, dtype=torch.int32),
        r"torch.int32 .* expected \[13\] torch.int64",
    ),
    ("input_ids", torch.zeros(13), r"torch.float32 .* expected \[13\] torch.int64"),
    ("input_ids", torch.zeros(1, 13, dtype=torch.long), r"\[1, 13\] .* expected \[13\]"),
    ("logits", torch.zeros(13, 256), r"\[13, 256\] .* expected \[9, 256\] of a floating type"),
    ("logits", torch.zeros(9, 255), r"\[9, 255\] .* expected \[9, 256\]"),
    ("logits", torch.zeros(9, 256, dtype=torch.long), r"torch.int64 .* of a floating type"),
    ("captured", torch.zeros(12, 128), r"\[12, 128\] .* expected \[13, 128\] torch.float32"),
    ("captured", torch.zeros(13, 64), r"\[13, 64\] .* expected \[13, 128\]"),
    ("captured", torch.zeros(13, 128, dtype=torch.float64), r"torch.float64 .* torch.float32"),
    ("captured", torch.zeros(13, 128, device="meta"), r"on meta, expected .* on cpu"),
]


@pytest.mark.parametrize(("name", "tensor", "message"), _BAD)
def test_a_tensor_of_another_shape_or_type_is_refused_with_the_expected_one(
    name: str, tensor: torch.Tensor, message: str
) -> None:
    rig = make_rig()
    rig.context(1, rig.captured(5))
    before, version = state_of(rig.worker), rig.worker.pool.version
    metadata = rig.metadata(
        request_ids=(2, 1), num_contexts=1, seq_lens=(5, 8), context_positions=(0,)
    )
    arguments = {key: make() for key, make in _GOOD.items()} | {name: tensor}
    with pytest.raises(ValueError, match=f"^{name}: .*{message}"):
        rig.worker.forward(metadata, **arguments)
    assert same_state(before, rig.worker)
    assert rig.worker.pool.version == version


def test_a_list_is_no_tensor() -> None:
    rig = make_rig()
    metadata = rig.metadata(request_ids=(2,), num_contexts=1)
    with pytest.raises(TypeError, match=r"input_ids: list is not a tensor, expected \[4\]"):
        rig.worker.forward(
            metadata,
            input_ids=[1, 2, 3, 4],
            logits=torch.zeros(1, 256),
            captured=rig.captured(4),
        )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_seq_slots", 17),
        ("max_draft_len", 6),
        ("dtype", "float64"),
        ("num_stages", 3),
        ("layers_to_capture", (1, 2)),
        ("window_size", 64),
        ("block_size", 8),
        ("hidden_size", 32),
    ],
)
def test_metadata_of_another_deployment_is_refused(field: str, value: object) -> None:
    rig = make_rig()
    metadata = rig.metadata(
        request_ids=(1,), num_contexts=1, seq_lens=(4,), context_positions=(0,), **{field: value}
    )
    before = state_of(rig.worker)
    with pytest.raises(ValueError, match=f"^{field}: the metadata says .* build metadata from the"):
        rig.worker.forward(
            metadata,
            input_ids=rig.tokens(4),
            logits=torch.zeros(1, 256),
            captured=rig.captured(4),
        )
    assert same_state(before, rig.worker)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token", [-1, 256])
def test_an_input_id_beyond_the_vocabulary_is_refused(kind: DecodingType, token: int) -> None:
    rig = make_rig(kind=kind)
    metadata = rig.metadata(request_ids=(1,), num_contexts=1)
    before = state_of(rig.worker)
    with pytest.raises(ValueError, match=rf"^input_ids\[2\]: {token} is not a token from 0 to 255"):
        rig.worker.forward(
            metadata,
            input_ids=torch.tensor([1, 2, token, 4]),
            logits=torch.zeros(1, 256),
            captured=rig.captured(4),
        )
    assert same_state(before, rig.worker)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("samples", [True, False])
def test_rows_have_sampling_exactly_where_the_deployment_samples(
    kind: DecodingType, samples: bool
) -> None:
    rig = make_rig(kind=kind, use_rejection_sampling=samples)
    given = None if samples else (SamplingParams(temperature=1.0, seed=3),)
    metadata = rig.metadata(request_ids=(1,), num_contexts=1, sampling=given)
    before = state_of(rig.worker)
    found = "None" if samples else "given"
    with pytest.raises(
        ValueError, match=f"^sampling: {found}, but .* has use_rejection_sampling {samples}"
    ):
        rig.worker.forward(
            metadata,
            input_ids=rig.tokens(4),
            logits=torch.zeros(1, 256),
            captured=rig.captured(4),
        )
    assert same_state(before, rig.worker)


@pytest.mark.parametrize(
    "fields",
    [
        {"request_ids": (1,)},
        {"request_ids": (2,), "num_contexts": 1, "num_padding": 1},
        {"request_ids": (2, 1), "num_contexts": 1},
    ],
)
def test_a_seed_step_takes_contexts_only(fields: dict[str, Any]) -> None:
    rig = make_rig()
    rig.context(1, rig.captured(5))
    metadata = rig.metadata(**fields)
    before = state_of(rig.worker)
    with pytest.raises(ValueError, match="a seed step has context rows only"):
        rig.worker.seed(
            metadata,
            input_ids=rig.tokens(metadata.num_tokens),
            next_tokens=rig.tokens(len(metadata.request_ids)),
            captured=rig.captured(metadata.num_tokens),
        )
    assert same_state(before, rig.worker)


def test_a_seed_step_checks_its_tensors() -> None:
    rig = make_rig()
    metadata = rig.metadata(request_ids=(RequestId(2),), num_contexts=1)
    good = {
        "input_ids": rig.tokens(4),
        "next_tokens": rig.tokens(1),
        "captured": rig.captured(4),
    }
    before = state_of(rig.worker)
    for name, tensor, message in (
        ("input_ids", rig.tokens(3), r"\[3\] .* expected \[4\] torch.int64"),
        ("next_tokens", rig.tokens(2), r"\[2\] .* expected \[1\] torch.int64"),
        ("captured", rig.captured(5), r"\[5, 128\] .* expected \[4, 128\]"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: {message}"):
            rig.worker.seed(metadata, **good | {name: tensor})
    for token in (-1, 256, 2**62):
        for name in ("input_ids", "next_tokens"):
            tokens = good[name].clone()
            tokens[-1] = token
            last = len(tokens) - 1
            with pytest.raises(ValueError, match=rf"^{name}\[{last}\]: {token} is not a token"):
                rig.worker.seed(metadata, **good | {name: tokens})
    assert same_state(before, rig.worker)
    assert len(rig.worker.pool) == 0


def test_a_deployment_that_the_worker_cannot_serve_is_refused() -> None:
    deployment = make_deployment()
    assert isinstance(deployment.drafter, DSparkDrafterConfig)
    model = make_model(deployment.drafter, "float32")
    with pytest.raises(TypeError, match=r"dict is not a specmeta\.Deployment"):
        DSparkWorker(deployment.model_dump(), model)  # type: ignore[arg-type]  # an untyped caller
    for stand_in in (None, SimpleNamespace(config=deployment.drafter), torch.nn.Linear(1, 1)):
        with pytest.raises(TypeError, match=r"draft_model: \w+ is not a DSparkDraftModel; load"):
            DSparkWorker(deployment, stand_in)
    with pytest.raises(ValueError, match="decoding_type is DFlash; a DSparkWorker serves DSpark"):
        DSparkWorker(make_deployment("DFlash"), model)
    with pytest.raises(ValueError, match=r"draft_model: .* is not deployment.drafter; compose"):
        DSparkWorker(make_deployment(rope_theta=5000.0), model)
    with pytest.raises(ValueError, match=r"torch.float32, engine.dtype is bfloat16; load it with"):
        DSparkWorker(make_deployment(dtype="bfloat16"), model)


def test_a_causal_window_is_refused() -> None:
    config = make_deployment(drafter={"window_causality": "causal"}).drafter
    assert isinstance(config, DSparkDrafterConfig)
    with pytest.raises(ValueError, match="window_causality: causal is not implemented by DSpark"):
        DSparkDraftModel(config)
