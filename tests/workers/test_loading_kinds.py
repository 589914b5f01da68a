"""Checkpoints of the DFlash and MTP layouts, and what is said about those that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specmeta import DFlashDrafterConfig, MTPDrafterConfig
from specmeta_workers import (
    CheckpointError,
    DFlashDraftModel,
    MTPDraftModel,
    load_draft_model,
    read_drafter_config,
)
from tests.workers.model_cases import DENSE, randomized
from tests.workers.parity_cases import TargetHead

ZLAB = Path(__file__).parents[1] / "data" / "parity" / "zlab_dflash"
SHARED = ("embed_tokens.weight", "lm_head.weight")


@pytest.fixture
def dflash(tmp_path: Path) -> Path:
    """A copy of a z-lab checkpoint."""
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((ZLAB / name).read_bytes())
    return tmp_path


@pytest.fixture
def mtp(tmp_path: Path) -> Path:
    """An MTP checkpoint that leaves embedding and head to the target."""
    config = MTPDrafterConfig(**DENSE, num_layers=1, target_hidden_state="before_final_norm")
    weights = randomized(MTPDraftModel(config)).state_dict()
    own = {name: weight.float() for name, weight in weights.items() if name not in SHARED}
    save_file(own, tmp_path / "model.safetensors")
    raw = {name: value for name, value in DENSE.items() if name != "sliding_window"}
    raw |= {
        "architectures": ["Qwen3MTPModel"],
        "num_nextn_predict_layers": 1,
        "target_hidden_state": "before_final_norm",
    }
    (tmp_path / "config.json").write_text(json.dumps(raw))
    return tmp_path


def change(folder: Path, **changes: Any) -> None:
    """Change keys of config.json, those of an object by a mapping; `...` removes one."""
    raw = json.loads((folder / "config.json").read_text())
    for key, value in changes.items():
        nested = isinstance(value, dict) and isinstance(raw.get(key), dict)
        raw[key] = raw[key] | value if nested else value
        if nested:
            raw[key] = {name: item for name, item in raw[key].items() if item is not ...}
    raw = {key: value for key, value in raw.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(raw))


def dflash_target() -> TargetHead:
    golden = load_file(ZLAB / "golden.safetensors")
    return TargetHead(*(golden[f"target.{name}"] for name in SHARED))


def mtp_target() -> TargetHead:
    generator = torch.Generator().manual_seed(1)
    return TargetHead(*(torch.randn(41, 16, generator=generator) for _ in SHARED))


def test_a_published_zlab_config_becomes_the_canonical_form() -> None:
    assert read_drafter_config(ZLAB) == DFlashDrafterConfig(
        hidden_size=32,
        num_layers=2,
        vocab_size=97,
        draft_vocab_size=97,
        max_position_embeddings=256,
        attention_kind="grouped_query",
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=64,
        rms_norm_eps=1e-6,
        rope_theta=10000.0,
        sliding_window=None,
        block_size=8,
        mask_token_id=96,
        target_hidden_size=32,
        target_layer_ids=(1, 3),
        layer_id_convention="output_of_layer",
        anchor_convention="mask_at_position",
        window_causality="non_causal",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"block_size": ..., "dflash_config": {"block_size": 8}},
        {"dflash_config": {"block_size": 8}},
        {"block_size": None, "dflash_config": {"block_size": 8}},
        {"dflash_config": {"causal": False}, "is_causal": False},
        {"dflash_config": {"sample_from_anchor": False}},
        {"sample_from_anchor": False},
        {"mask_token_id": 96, "dflash_config": {"mask_token_id": ...}},
        {"sliding_window_non_causal": False},  # no layer has a window
    ],
)
def test_a_key_of_dflash_is_read_from_either_place(dflash: Path, changes: dict[str, Any]) -> None:
    change(dflash, **changes)
    assert read_drafter_config(dflash) == read_drafter_config(ZLAB)


@pytest.mark.parametrize(
    "changes", [{"sample_from_anchor": True}, {"dflash_config": {"sample_from_anchor": True}}]
)
def test_a_zlab_checkpoint_may_sample_from_the_anchor(
    dflash: Path, changes: dict[str, Any]
) -> None:
    change(dflash, **changes)
    config = read_drafter_config(dflash)
    assert isinstance(config, DFlashDrafterConfig)
    assert config.anchor_convention == "anchor_first"
    assert config.max_block_drafts == 8
    model = load_draft_model(dflash, dflash_target())
    assert isinstance(model, DFlashDraftModel)
    assert model.first_slot == 0


def test_the_window_of_a_zlab_checkpoint_is_that_of_its_layers(dflash: Path) -> None:
    change(dflash, layer_types=["sliding_attention"] * 2, sliding_window=64)
    assert read_drafter_config(dflash).sliding_window == 64
    change(dflash, sliding_window_non_causal=True)
    assert read_drafter_config(dflash).sliding_window == 64


_BAD_DFLASH: list[tuple[dict[str, Any], str]] = [
    ({"block_size": ...}, "block_size: is not stated by this file, .*; state it"),
    ({"dflash_config": {"mask_token_id": ...}}, "mask_token_id: is not stated"),
    ({"dflash_config": {"mask_token_id": None}}, "mask_token_id: is not stated"),
    ({"dflash_config": {"target_layer_ids": ...}}, "target_layer_ids: is not stated"),
    ({"dflash_config": ...}, "mask_token_id: is not stated"),
    ({"dflash_config": None}, "mask_token_id: is not stated"),
    ({"dflash_config": [1]}, "mask_token_id: is not stated"),
    (
        {"dflash_config": {"block_size": 16}},
        "dflash_config.block_size: 16 although block_size says 8; keep the value",
    ),
    (
        {"sample_from_anchor": True, "dflash_config": {"sample_from_anchor": False}},
        "dflash_config.sample_from_anchor: 'mask_at_position' although sample_from_anchor says ",
    ),
    ({"sample_from_anchor": "yes"}, "sample_from_anchor: 'yes' is neither true nor false"),
    (
        {"dflash_config": {"causal": True}},
        "window_causality: causal is not implemented by DFlashDraftModel",
    ),
    ({"is_causal": True}, "window_causality: causal is not implemented by DFlashDraftModel"),
    (
        {
            "layer_types": ["sliding_attention"] * 2,
            "sliding_window": 64,
            "sliding_window_non_causal": False,
        },
        "window_causality: causal is not implemented by DFlashDraftModel",
    ),
    ({"dflash_config": {"mask_token_id": 97}}, "mask_token_id: 97 is not below vocab_size"),
    ({"dflash_config": {"target_layer_ids": [3, 1]}}, r"target_layer_ids\[1\]: 1 comes after 3"),
    ({"dflash_config": {"target_layer_ids": 3}}, "target_layer_ids: 3 "),
    ({"draft_vocab_size": 50}, r"draft_vocab_size: 50 is not vocab_size \(97\), and no map"),
    (
        {"rms_norm_eps": ...},
        "rms_norm_eps: not stated by the checkpoint, and a draft model needs them",
    ),
    ({"num_hidden_layers": 60_000, "layer_types": ...}, "num_hidden_layers is 60000, but there"),
    ({"block_size": 300}, "block_size is 300, but max_position_embeddings is 256"),
    ({"intermediate_size": 2**24}, "intermediate_size is 16777216, but no tensor is wider"),
]


@pytest.mark.parametrize(("changes", "message"), _BAD_DFLASH)
def test_a_zlab_config_that_cannot_be_used_names_file_key_and_remedy(
    dflash: Path, changes: dict[str, Any], message: str
) -> None:
    change(dflash, **changes)
    refused(dflash, message)


def test_an_mtp_config_becomes_the_canonical_form(mtp: Path) -> None:
    assert read_drafter_config(mtp) == MTPDrafterConfig(
        **DENSE, num_layers=1, target_hidden_state="before_final_norm"
    )
    change(mtp, layer_types=["sliding_attention"], sliding_window=32, is_causal=True)
    assert read_drafter_config(mtp).sliding_window == 32


_BAD_MTP: list[tuple[dict[str, Any], str]] = [
    ({"num_nextn_predict_layers": ...}, r"num_layers: is not stated|is no drafter"),
    ({"num_nextn_predict_layers": 0}, "num_nextn_predict_layers: 0"),
    ({"num_nextn_predict_layers": 2}, "num_layers: 2, but MTPDraftModel drafts with one layer"),
    ({"num_nextn_predict_layers": 99}, "num_nextn_predict_layers is 99, but there are 1[0-9] tens"),
    (
        {"target_hidden_state": ...},
        "target_hidden_state: is not stated by this file, and the layer reads",
    ),
    ({"target_hidden_state": "raw"}, "target_hidden_state: 'raw'"),
    ({"target_hidden_state": "after_final_norm"}, "target_hidden_state: after_final_norm is not"),
    ({"is_causal": False}, "is_causal: a layer that drafts token by token is causal"),
    (
        {"layer_types": ["full_attention"] * 2},
        "layer_types: is not one type for each of the 1 layers",
    ),
    ({"attention_bias": True}, "attention_bias is True, but only False is implemented"),
    ({"head_dim": 2**24}, "head_dim is 16777216, but no tensor is wider than 32; use"),
]


@pytest.mark.parametrize(("changes", "message"), _BAD_MTP)
def test_an_mtp_config_that_cannot_be_used_names_file_key_and_remedy(
    mtp: Path, changes: dict[str, Any], message: str
) -> None:
    change(mtp, **changes)
    refused(mtp, message)


def refused(folder: Path, message: str) -> None:
    """The configuration is refused in one line that names file and remedy."""
    with pytest.raises(CheckpointError, match=message) as caught:
        load_draft_model(folder)
    for text in str(caught.value).splitlines():  # one a problem
        assert text.startswith(f"{folder / 'config.json'}:")
        assert ";" in text


KINDS = pytest.mark.parametrize("kind", ["dflash", "mtp"])


def of_kind(request: pytest.FixtureRequest, kind: str) -> tuple[Path, TargetHead, str]:
    """The checkpoint, its target, and one of its matrices."""
    folder: Path = request.getfixturevalue(kind)
    if kind == "dflash":
        return folder, dflash_target(), "fc.weight"
    return folder, mtp_target(), "eh_proj.weight"


@KINDS
def test_the_model_is_of_the_configurations_kind_and_has_the_stored_weights(
    request: pytest.FixtureRequest, kind: str
) -> None:
    folder, target, _ = of_kind(request, kind)
    model = load_draft_model(folder, target, dtype="float64")
    assert type(model) is {"dflash": DFlashDraftModel, "mtp": MTPDraftModel}[kind]
    assert model.config == read_drafter_config(folder)
    assert (model.dtype, model.training) == (torch.float64, False)
    assert not any(weight.requires_grad for weight in model.parameters())
    stored = load_file(folder / "model.safetensors")
    stored["embed_tokens.weight"] = target.embedding.weight.detach()
    stored["lm_head.weight"] = target.head.weight.detach()
    state = model.state_dict()
    assert state.keys() == stored.keys()
    for name, weight in stored.items():
        assert torch.equal(state[name], weight.double()), name


@KINDS
def test_the_type_is_the_checkpoints_unless_another_is_asked_for(
    request: pytest.FixtureRequest, kind: str
) -> None:
    folder, target, _ = of_kind(request, kind)
    stored = load_file(folder / "model.safetensors")
    # As some publish: matrices in a half type, norms in float32.
    mixed = {n: weight.half() if weight.dim() > 1 else weight for n, weight in stored.items()}
    save_file(mixed, folder / "model.safetensors")
    model = load_draft_model(folder, target)
    assert {weight.dtype for weight in model.parameters()} == {torch.float16}
    assert load_draft_model(folder, target, dtype="bfloat16").dtype == torch.bfloat16


@KINDS
def test_embedding_and_head_of_the_checkpoint_come_before_the_targets(
    request: pytest.FixtureRequest, kind: str
) -> None:
    folder, target, _ = of_kind(request, kind)
    stored = load_file(folder / "model.safetensors")
    own = 2 * target.embedding.weight.detach()
    save_file(stored | {"embed_tokens.weight": own}, folder / "model.safetensors")
    model = load_draft_model(folder, target)
    assert torch.equal(model.embed_tokens.weight, own)
    assert torch.equal(model.lm_head.weight, target.head.weight)


@KINDS
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("no target", r"embed_tokens.weight is missing, expected \[\d+, \d+\] .pass target= to"),
        (
            "other target",
            r"the target's embed_tokens.weight is \[9, 3\], expected .*; pass the tar",
        ),
        ("missing", r"{matrix} is missing, expected \[\d+, \d+\]; use the config.json"),
        ("wrong shape", r"{matrix} is \[2, 2\], expected \[\d+, \d+\]; use the config.json"),
        ("unclaimed", r"markov_head.gate_proj.bias \[3\] has no place in the model; use the"),
        (
            "not a number",
            r"model.safetensors: {matrix}\[1, 2\] is nan, but a weight must be finite",
        ),
        ("quantized", r"model.safetensors: {matrix} is torch.int8, expected one of .*; quantized"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(
    request: pytest.FixtureRequest, kind: str, spoil: str, message: str
) -> None:
    folder, target, matrix = of_kind(request, kind)
    tensors = load_file(folder / "model.safetensors")
    if spoil == "missing":
        del tensors[matrix]
    elif spoil == "wrong shape":
        tensors[matrix] = torch.ones(2, 2)
    elif spoil == "unclaimed":
        tensors["markov_head.gate_proj.bias"] = torch.ones(3)
    elif spoil == "not a number":
        tensors[matrix][1, 2] = torch.nan
    elif spoil == "quantized":
        tensors[matrix] = tensors[matrix].to(torch.int8)
    save_file(tensors, folder / "model.safetensors")
    given = {"no target": None, "other target": TargetHead(torch.ones(9, 3), torch.ones(9, 3))}
    with pytest.raises(CheckpointError, match=message.format(matrix=matrix)) as caught:
        load_draft_model(folder, given.get(spoil, target))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
