"""Checkpoints that load, and what is said about those that do not."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specmeta import DSparkDrafterConfig, TargetConfig
from specmeta_workers import (
    CheckpointError,
    load_draft_model,
    read_drafter_config,
    read_target_config,
)
from specmeta_workers._checkpoint import Stored, read_tensors
from tests.workers.parity_cases import TargetHead
from tests.workers.tiny_targets import tiny_qwen3

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = Path(__file__).parents[1] / "data" / "parity" / "dspark_vanilla"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A copy of a good checkpoint, to be spoiled."""
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((GOOD / name).read_bytes())
    return tmp_path


def change_config(folder: Path, **changes: Any) -> None:
    """Change keys of config.json; `...` removes one."""
    raw = json.loads((folder / "config.json").read_text()) | changes
    raw = {key: value for key, value in raw.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(raw))


def change_tensors(folder: Path, **changes: torch.Tensor | None) -> None:
    """Change tensors, dots written as two underscores; None removes one."""
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in changes.items():
        if tensor is None:
            del tensors[name.replace("__", ".")]
        else:
            tensors[name.replace("__", ".")] = tensor
    save_file(tensors, folder / "model.safetensors")


def with_value(tensor: torch.Tensor, index: tuple[int, ...], value: str) -> torch.Tensor:
    """The tensor with one value replaced."""
    tensor[index] = float(value)
    return tensor


def test_a_published_config_becomes_the_canonical_form() -> None:
    assert read_drafter_config(GOOD) == DSparkDrafterConfig(
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
        block_size=7,
        mask_token_id=96,
        target_hidden_size=32,
        target_layer_ids=(1, 3),
        layer_id_convention="output_of_layer",
        anchor_convention="anchor_first",
        window_causality="non_causal",
        sliding_window=None,
        markov_rank=8,
        markov_head_type="vanilla",
        enable_confidence_head=True,
        confidence_head_with_markov=True,
    )
    assert read_drafter_config(GOOD / "config.json") == read_drafter_config(str(GOOD))


def test_a_drafter_named_dflash_with_the_dspark_class_has_its_anchor_convention_stated() -> None:
    folder = GOOD.parent / "dflash_no_markov"
    with pytest.raises(CheckpointError, match="anchor_convention: is not stated by this file"):
        load_draft_model(folder)
    config = read_drafter_config(folder, stated={"anchor_convention": "anchor_first"})
    assert isinstance(config, DSparkDrafterConfig)
    assert config.anchor_convention == "anchor_first"
    assert (config.markov_rank, config.markov_head_type) == (0, None)
    assert not config.enable_confidence_head


@pytest.mark.parametrize(
    ("changes", "window"),
    [
        ({"sliding_window": 64}, None),
        ({"sliding_window": 64, "layer_types": ["sliding_attention"] * 2}, 64),
        ({"sliding_window": 64, "use_sliding_window": True, "layer_types": ...}, 64),
        ({"sliding_window": 64, "use_sliding_window": False, "layer_types": ...}, None),
        ({"layer_types": ...}, None),
    ],
)
def test_the_window_is_that_of_the_layers(
    checkpoint: Path, changes: dict[str, Any], window: int | None
) -> None:
    change_config(checkpoint, **changes)
    assert read_drafter_config(checkpoint).sliding_window == window


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_theta": 5e5, "rope_parameters": ...},
        {"rope_parameters": {"rope_theta": 500000}},
        {"rope_theta": 500000, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        {"rope_theta": 500000, "rope_parameters": ..., "rope_scaling": None},
    ],
)
def test_the_rotary_base_is_read_from_either_place(
    checkpoint: Path, changes: dict[str, Any]
) -> None:
    change_config(checkpoint, **changes)
    assert read_drafter_config(checkpoint).rope_theta == 500000.0


_BAD_CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"block_size": ...}, "block_size: is not stated by this file, .*; state it"),
    ({"mask_token_id": None}, "mask_token_id: is not stated by this file, .*; state it"),
    ({"markov_rank": ...}, "markov_rank: is not stated"),
    ({"markov_head_type": ...}, "markov_head_type: is not stated"),
    ({"confidence_head_with_markov": ...}, "confidence_head_with_markov: is not stated"),
    (
        {"rope_parameters": {}},
        "rope_theta: not stated by the checkpoint, and a draft model needs them; add",
    ),
    ({"markov_head_type": "lstm"}, "markov_head_type: 'lstm'"),
    ({"num_hidden_layers": 0, "layer_types": ...}, "num_hidden_layers: 0"),
    ({"hidden_size": "32"}, "hidden_size: '32'"),
    ({"mask_token_id": 97}, "mask_token_id: 97 is not below vocab_size"),
    ({"target_layer_ids": [3, 1]}, r"target_layer_ids\[1\]: 1 comes after 3"),
    (
        {"architectures": ["LlamaForCausalLM"]},
        r"architectures: \['LlamaForCausalLM'\] is no drafter that is read; pass a DeepSpec",
    ),
    (
        {"architectures": ...},
        "architectures: None is no drafter that is read",
    ),
    (
        {"architectures": ["Gemma4DSparkModel"]},
        r"architectures is \['Gemma4DSparkModel'\], whose tensors no draft model has; use",
    ),
    ({"architectures": ["Qwen3DSparkModel"] * 2}, r"architectures: \['Qwen3.*\] is no drafter"),
    ({"architectures": [["Qwen3DSparkModel"]]}, r"architectures: \[\['Qwen3.*\]\] is no drafter"),
    ({"speculators_model_type": "dspark"}, "hidden_size: is not stated"),
    ({"dspark_block_size": 5}, "dspark_block_size: 5 although block_size says 7; keep"),
    ({"dflash_config": {}}, "'Qwen3DSparkModel' with a dflash_config is no drafter that is read"),
    ({"attention_bias": True}, "attention_bias is True, but only False is implemented"),
    ({"hidden_act": "gelu"}, "hidden_act is 'gelu', but only 'silu' is implemented"),
    ({"rope_is_neox_style": False}, "rope_is_neox_style is False, but only True is implemented"),
    ({"is_causal": True}, "window_causality: causal is not implemented by DSparkDraftModel"),
    ({"draft_vocab_size": 50}, r"draft_vocab_size: 50 is not vocab_size \(97\), and no map"),
    ({"rope_theta": 5.0}, "rope_parameters.rope_theta: 10000.0 although rope_theta says 5.0; keep"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope_type 'yarn', but only"),
    ({"rope_scaling": {"type": "linear"}}, "rope_scaling has rope_type 'linear', but only"),
    (
        {"layer_types": ["full_attention", "sliding_attention"]},
        "layer_types: has .*, and the layers share one window or have none",
    ),
    ({"layer_types": ["full_attention"]}, "layer_types: is not one type for each of the 2 layers"),
    ({"layer_types": ["sliding_attention"] * 2}, "sliding_window: is not stated by this file"),
    (
        {"layer_types": ..., "use_sliding_window": True},
        "sliding_window: is not stated by this file",
    ),
    ({"rope_parameters": {"rope_theta": float("nan")}}, "'NaN' is not a finite number"),
    ({"num_hidden_layers": 60_000, "layer_types": ...}, "num_hidden_layers is 60000, but there"),
    ({"hidden_size": 2**24}, f"hidden_size is {2**24}, but no tensor is wider than 97; use the"),
    ({"vocab_size": 2**62}, f"vocab_size: {2**62} is not less than or equal to {2**31}"),
    ({"head_dim": 2**24}, f"head_dim is {2**24}, but no tensor is wider than 97"),
    (
        {"block_size": 2**40, "max_position_embeddings": ...},
        f"block_size: {2**40} is outside 1 ... 1025; use the checkpoint's block_size",
    ),
    ({"block_size": 300}, "block_size is 300, but max_position_embeddings is 256"),
]


@pytest.mark.parametrize(("changes", "message"), _BAD_CONFIGS)
def test_a_config_that_cannot_be_used_names_file_key_and_remedy(
    checkpoint: Path, changes: dict[str, Any], message: str
) -> None:
    change_config(checkpoint, **changes)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_draft_model(checkpoint)
    for text in str(caught.value).splitlines():  # one a problem
        assert text.startswith(f"{checkpoint / 'config.json'}:")
        assert ";" in text


_BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (
        lambda folder: (folder / "config.json").unlink(),
        "config.json: cannot be read .No such file or directory.",
    ),
    "bad JSON": (
        lambda folder: (folder / "config.json").write_text('{"hidden_size": '),
        "config.json:1: is not valid JSON",
    ),
    "not UTF-8": (
        lambda folder: (folder / "config.json").write_bytes(b"\xff\xfe{}"),
        "config.json:1: is not UTF-8 text",
    ),
    "a key given twice": (
        lambda folder: (folder / "config.json").write_text('{"vocab_size": 97, "vocab_size": 9}'),
        "config.json:1: .*vocab_size.*twice",
    ),
    "nested too deeply": (
        lambda folder: (folder / "config.json").write_text("[" * 100_000),
        "config.json:.* 64 levels",
    ),
    "a JSON list": (
        lambda folder: (folder / "config.json").write_text("[1]"),
        "config.json: holds a list; expected an object of keys",
    ),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        "model.safetensors: does not exist, nor does model.safetensors.index.json; fetch",
    ),
    "cut-off weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{"),
        "model.safetensors: .*; fetch the file again, it may be cut off",
    ),
    "missing tensor": (
        lambda folder: change_tensors(folder, norm__weight=None),
        r"model.safetensors: norm.weight is missing, expected \[32\]; use the config.json",
    ),
    "missing head": (
        lambda folder: change_tensors(folder, lm_head__weight=None),
        r"lm_head.weight is missing, expected \[97, 32\] .pass target= to share the target's.",
    ),
    "unclaimed tensor": (
        lambda folder: change_tensors(folder, layers__2__norm=torch.ones(3)),
        r"model.safetensors: layers.2.norm \[3\] has no place in the model; use the config.json",
    ),
    "wrong shape": (
        lambda folder: change_tensors(folder, fc__weight=torch.ones(32, 96)),
        r"model.safetensors: fc.weight is \[32, 96\], expected \[32, 64\]; use the config.json",
    ),
    "not a number": (
        lambda folder: change_tensors(folder, norm__weight=with_value(torch.ones(32), (7,), "nan")),
        r"model.safetensors: norm.weight\[7\] is nan, but a weight must be finite; fetch",
    ),
    "infinite": (
        lambda folder: change_tensors(
            folder, fc__weight=with_value(torch.ones(32, 64), (3, 5), "-inf")
        ),
        r"model.safetensors: fc.weight\[3, 5\] is -inf, but a weight must be finite; fetch",
    ),
    "quantized": (
        lambda folder: change_tensors(folder, fc__weight=torch.ones(32, 64, dtype=torch.int8)),
        "model.safetensors: fc.weight is torch.int8, expected one of .*; quantized weights are not",
    ),
}


@pytest.mark.parametrize("name", _BROKEN)
def test_files_that_cannot_be_read_are_named_in_one_message(checkpoint: Path, name: str) -> None:
    spoil, message = _BROKEN[name]
    spoil(checkpoint)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_draft_model(checkpoint)
    assert str(checkpoint) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tensor_type_that_torch_lacks_is_refused_by_name(checkpoint: Path) -> None:
    change_tensors(checkpoint, norm__weight=torch.ones(32, dtype=torch.uint8))
    file = checkpoint / "model.safetensors"
    message = file.read_bytes()
    size = int.from_bytes(message[:8], "little")
    header = json.loads(message[8 : 8 + size])
    start, _ = header["norm.weight"]["data_offsets"]
    header["norm.weight"] |= {"dtype": "F6_E2M3", "data_offsets": [start, start + 24]}
    for name, entry in header.items():
        if name != "__metadata__" and entry["data_offsets"][0] > start:
            entry["data_offsets"] = [offset - 8 for offset in entry["data_offsets"]]
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    body = message[8 + size :]
    file.write_bytes(
        len(head).to_bytes(8, "little") + head + body[:start] + bytes(24) + body[start + 32 :]
    )
    with pytest.raises(CheckpointError, match=r"norm.weight cannot be read .*; quantized weights"):
        load_draft_model(checkpoint)


@pytest.mark.parametrize(
    ("shard", "shown"),
    [
        ("../model.safetensors", "'../model.safetensors'"),
        ("/etc/model.safetensors", "'/etc/model.safetensors'"),
        ("sub/model.safetensors", "'sub/model.safetensors'"),
        ("..", "'..'"),
        (3, "a int"),
    ],
)
def test_an_index_cannot_name_a_file_elsewhere(checkpoint: Path, shard: object, shown: str) -> None:
    inner = checkpoint / "inner"
    inner.mkdir()
    (inner / "config.json").write_bytes((GOOD / "config.json").read_bytes())
    index = inner / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"fc.weight": shard}}))
    message = f"weight_map has {shown} for 'fc.weight', expected the name of a file beside"
    with pytest.raises(CheckpointError, match=message) as caught:
        load_draft_model(inner)
    assert str(caught.value).startswith(f"{index}:1: ")


@pytest.mark.parametrize("dtype", ["float8", "int8", torch.int8, torch.float8_e5m2, 3])
def test_a_type_that_no_model_runs_in_is_refused(dtype: Any) -> None:
    with pytest.raises(ValueError, match=r"dtype: .* is none of torch.float32, .*; pass one"):
        load_draft_model(GOOD, dtype=dtype)


def test_a_weight_beyond_the_type_that_was_asked_for_is_refused_by_name(checkpoint: Path) -> None:
    change_tensors(checkpoint, norm__weight=with_value(torch.ones(32), (9,), "7e4"))
    with pytest.raises(
        CheckpointError, match=r"norm.weight\[9\] is 70000, beyond torch.float16; load it as"
    ):
        load_draft_model(checkpoint, dtype="float16")
    assert load_draft_model(checkpoint, dtype="bfloat16").norm.weight[9] == 70144


def test_a_targets_weight_that_is_not_finite_is_refused_by_name(checkpoint: Path) -> None:
    stored = load_file(checkpoint / "model.safetensors")
    change_tensors(checkpoint, embed_tokens__weight=None, lm_head__weight=None)
    head = with_value(stored["lm_head.weight"], (2, 1), "inf")
    with pytest.raises(CheckpointError, match=r"the target's lm_head.weight\[2, 1\] is inf, but a"):
        load_draft_model(checkpoint, TargetHead(stored["embed_tokens.weight"], head))


def test_many_wrong_tensors_give_one_short_message(checkpoint: Path) -> None:
    change_config(checkpoint, hidden_size=64)
    with pytest.raises(CheckpointError) as caught:
        load_draft_model(checkpoint)
    assert "embed_tokens.weight is [97, 32], expected [97, 64]" in str(caught.value)
    assert "and 19 more problems" in str(caught.value)


class _Bomb:
    """Fails the test when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("a pickle was opened",)


def test_a_pickled_checkpoint_is_refused_without_being_opened(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb()))
    with pytest.raises(CheckpointError, match=r"pytorch_model.bin is a pickle, .*; fetch the"):
        load_draft_model(checkpoint)


@pytest.mark.parametrize("dtype", ["float32", "float64", torch.bfloat16])
def test_weights_come_in_the_type_that_was_asked_for(dtype: Any) -> None:
    model = load_draft_model(GOOD, dtype=dtype)
    expected = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    stored = load_file(GOOD / "model.safetensors")
    assert {name: value.dtype for name, value in model.state_dict().items()} == dict.fromkeys(
        stored, expected
    )
    assert torch.equal(model.state_dict()["fc.weight"], stored["fc.weight"].to(expected))
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert load_draft_model(GOOD).dtype == torch.float32


def test_a_sharded_checkpoint_loads_like_a_whole_one(checkpoint: Path) -> None:
    tensors = load_file(checkpoint / "model.safetensors")
    (checkpoint / "model.safetensors").unlink()
    names = sorted(tensors)
    weight_map = {name: f"part-{index % 2}.safetensors" for index, name in enumerate(names)}
    for part in set(weight_map.values()):
        save_file({n: tensors[n] for n in names if weight_map[n] == part}, checkpoint / part)
    index = checkpoint / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    loaded, whole = load_draft_model(checkpoint).state_dict(), load_draft_model(GOOD).state_dict()
    assert all(torch.equal(loaded[name], whole[name]) for name in whole)
    index.write_text(
        json.dumps(
            {
                "weight_map": weight_map
                | {"fc.weight": "part-1.safetensors", "norm.weight": "part-1.safetensors"}
            }
        )
    )
    with pytest.raises(
        CheckpointError, match=r"part-1.safetensors: 'norm.weight' is not in it, though model"
    ):
        load_draft_model(checkpoint)


def test_embedding_and_head_come_from_a_target_where_the_drafter_has_none(
    checkpoint: Path,
) -> None:
    stored = load_file(checkpoint / "model.safetensors")
    names = ("embed_tokens.weight", "lm_head.weight")
    change_tensors(checkpoint, embed_tokens__weight=None, lm_head__weight=None)
    model = load_draft_model(checkpoint, TargetHead(*(stored[name] for name in names)))
    for name in names:
        assert torch.equal(model.state_dict()[name], stored[name])
    with pytest.raises(CheckpointError, match=r"embed_tokens.weight is missing.*pass target="):
        load_draft_model(checkpoint)
    with pytest.raises(CheckpointError, match=r"the target's embed_tokens.weight is \[9, 32\], "):
        load_draft_model(checkpoint, TargetHead(torch.ones(9, 32), torch.ones(9, 32)))
    with pytest.raises(CheckpointError, match=r"target: Linear gives no get_input_embeddings\(\)"):
        load_draft_model(checkpoint, torch.nn.Linear(1, 1))


def test_a_drafter_of_another_width_than_its_targets_states_borrows_neither(
    checkpoint: Path,
) -> None:
    change_config(checkpoint, target_hidden_size=48)
    change_tensors(checkpoint, fc__weight=torch.ones(32, 96))
    stored = load_file(checkpoint / "model.safetensors")
    model = load_draft_model(checkpoint)
    assert (model.config.hidden_size, model.embed_tokens.embedding_dim) == (32, 32)
    target = TargetHead(stored["embed_tokens.weight"], stored["lm_head.weight"])
    change_tensors(checkpoint, embed_tokens__weight=None)
    message = (
        r"embed_tokens.weight missing, and the target's cannot be shared: hidden_size is 32, "
        "target_hidden_size 48; use a checkpoint that has them"
    )
    for given in (target, None):
        with pytest.raises(CheckpointError, match=message):
            load_draft_model(checkpoint, given)


@pytest.mark.parametrize("tied", [True, False])
def test_embedding_and_head_come_from_a_target_directory(
    checkpoint: Path, tmp_path_factory: pytest.TempPathFactory, tied: bool
) -> None:
    target = tmp_path_factory.mktemp("target")
    weights = {"model.embed_tokens.weight": torch.randn(97, 32), "model.other": torch.ones(1)}
    if not tied:
        weights["lm_head.weight"] = torch.randn(97, 32)
    save_file(weights, target / "model.safetensors")
    (target / "config.json").write_text(json.dumps({"tie_word_embeddings": tied}))
    change_tensors(checkpoint, embed_tokens__weight=None, lm_head__weight=None)
    model = load_draft_model(checkpoint, target)
    embedding = weights["model.embed_tokens.weight"]
    assert torch.equal(model.embed_tokens.weight, embedding)
    assert torch.equal(model.lm_head.weight, weights.get("lm_head.weight", embedding))
    save_file({"model.other": torch.ones(1)}, target / "model.safetensors")
    with pytest.raises(
        CheckpointError, match=r"embed_tokens.weight is missing; pass the directory"
    ):
        load_draft_model(checkpoint, target)


def test_files_of_a_target_directory_that_cannot_be_read_are_named(
    checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("target")
    change_tensors(checkpoint, embed_tokens__weight=None)
    with pytest.raises(CheckpointError, match=f"{target}/model.safetensors: does not exist, nor"):
        load_draft_model(checkpoint, target)
    save_file({"model.embed_tokens.weight": torch.ones(97, 32)}, target / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"{target}/config.json: cannot be read .No such"):
        load_draft_model(checkpoint, target)
    (target / "config.json").write_text("[1]")
    with pytest.raises(CheckpointError, match=f"{target}/config.json: holds a list; expected an"):
        load_draft_model(checkpoint, target)


def test_a_file_outside_of_the_checkpoint_is_not_followed(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / "model.safetensors").symlink_to(GOOD / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model.safetensors: leads out of .*; put the file"):
        load_draft_model(checkpoint)


def test_a_file_that_went_away_since_its_header_was_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "gone.safetensors"
    with pytest.raises(CheckpointError, match=r"gone.safetensors: cannot be read \(.*; fetch it"):
        read_tensors({"fc.weight": Stored(file, (1,))}, ["fc.weight"])


def test_a_target_config_is_read_as_transformers_writes_it(tmp_path: Path) -> None:
    target = tiny_qwen3()
    target.config.save_pretrained(tmp_path)
    assert read_target_config(tmp_path) == TargetConfig(
        hidden_size=target.config.hidden_size,
        num_layers=target.config.num_hidden_layers,
        vocab_size=target.config.vocab_size,
        max_position_embeddings=target.config.max_position_embeddings,
    )


def test_a_target_config_may_nest_the_text_model_and_have_residual_streams(tmp_path: Path) -> None:
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "vocab_size": 10,
        "max_position_embeddings": 64,
        "hc_mult": 4,
    }
    (tmp_path / "config.json").write_text(json.dumps({"text_config": sizes}))
    assert read_target_config(tmp_path).hc_mult == 4
    del sizes["vocab_size"]
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    with pytest.raises(
        CheckpointError,
        match=r"config.json:1: vocab_size: is not stated .*; add the key to the file",
    ):
        read_target_config(tmp_path)
