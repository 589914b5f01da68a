"""Checkpoint directories: one file, shards with an index, or nothing that is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specmeta._files import Tensor, Weights, _safetensors, tensor_shapes, weights_in

from .samples import checkpoint, refusal, safetensors, tensor

INDEX = "fetch the index file again"
SAVE = "fetch the weights, or save them as model.safetensors or as shards with an index"


def test_shards_are_read_by_their_index(tmp_path: Path) -> None:
    weight_map = {"a": "one.safetensors", "b": "two.safetensors"}
    checkpoint(tmp_path, {"one.safetensors": "a", "two.safetensors": "b"}, weight_map)
    assert tensor_shapes(tmp_path) == {
        "a": Tensor((2, 2), "BF16", str(tmp_path / "one.safetensors")),
        "b": Tensor((2, 2), "BF16", str(tmp_path / "two.safetensors")),
    }


def test_a_tensor_that_its_shard_lacks_is_named(tmp_path: Path) -> None:
    weight_map = {"a": "one.safetensors", "b": "one.safetensors"}
    checkpoint(tmp_path, {"one.safetensors": "a"}, weight_map)
    assert refusal(tensor_shapes, tmp_path) == (
        f"{tmp_path}/one.safetensors: 'b' is not in it, "
        "though model.safetensors.index.json says so; fetch the shard again"
    )


def test_a_shard_that_is_missing_is_named_with_its_tensor(tmp_path: Path) -> None:
    weight_map = {"a": "one.safetensors", "b": "two.safetensors"}
    checkpoint(tmp_path, {"one.safetensors": "a"}, weight_map)
    assert refusal(weights_in, tmp_path) == (
        f"{tmp_path}/model.safetensors.index.json:4: 'b' is in 'two.safetensors', which is not "
        "there; fetch the missing files"
    )


def test_an_index_alone_tells_that_its_shards_are_not_there(tmp_path: Path) -> None:
    weight_map = {"a": "one.safetensors", "b": "two.safetensors"}
    checkpoint(tmp_path, {}, weight_map)
    told = "model.safetensors.index.json names 2 files, none of which is there"
    assert weights_in(tmp_path) == Weights(None, told)
    assert refusal(tensor_shapes, tmp_path) == (
        f"{tmp_path}/model.safetensors: is not there: {told}; {SAVE}"
    )


@pytest.mark.parametrize(
    ("shard", "given"),
    [
        ("../one.safetensors", "'../one.safetensors'"),
        ("/etc/passwd", "'/etc/passwd'"),
        ("deeper/one.safetensors", "'deeper/one.safetensors'"),
        ("..\\one.safetensors", "'..\\\\one.safetensors'"),
        ("C:one.safetensors", "'C:one.safetensors'"),
        ("..", "'..'"),
        (".", "'.'"),
        ("", "''"),
        ("a\0b", "'a\\x00b'"),
        (7, "a int"),
        (None, "a NoneType"),
    ],
)
def test_a_shard_is_only_ever_a_file_beside_the_index(
    tmp_path: Path, shard: object, given: str
) -> None:
    checkpoint(tmp_path, {"one.safetensors": "a"}, {"a": "one.safetensors", "b": shard})
    assert refusal(tensor_shapes, tmp_path) == (
        f"{tmp_path}/model.safetensors.index.json:4: weight_map has {given} for 'b', "
        f"expected the name of a file beside the index; {INDEX}"
    )


@pytest.mark.parametrize("weight_map", [None, [], {}, "one.safetensors"])
def test_an_index_without_a_weight_map_is_refused(tmp_path: Path, weight_map: object) -> None:
    checkpoint(tmp_path, {}, weight_map)
    assert refusal(tensor_shapes, tmp_path) == (
        f"{tmp_path}/model.safetensors.index.json:2: weight_map is missing or is not an object "
        f"with tensors; {INDEX}"
    )
    (tmp_path / "model.safetensors.index.json").write_text("[1]")
    assert "index.json:1: weight_map is missing" in refusal(tensor_shapes, tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "one.safetensors"])
def test_weights_outside_the_directory_are_not_read(tmp_path: Path, name: str) -> None:
    inside, outside = tmp_path / "checkpoint", tmp_path / "secret"
    inside.mkdir()
    outside.write_bytes(safetensors({"a": tensor(0, 8)}, 8))
    checkpoint(inside, {}, {"a": "one.safetensors"})
    (inside / name).symlink_to(outside)
    assert refusal(tensor_shapes, inside) == (
        f"{inside / name}: leads out of {inside}, to {outside}; "
        "put the file itself into the directory"
    )


def test_counts_over_all_shards_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight_map = {"a": "one.safetensors", "b": "two.safetensors"}
    checkpoint(tmp_path, {"one.safetensors": "a", "two.safetensors": "b"}, weight_map)
    monkeypatch.setattr(_safetensors, "_MAX_FILES", 1)
    assert refusal(tensor_shapes, tmp_path) == (
        f"{tmp_path}/model.safetensors.index.json:2: weight_map names more than 1 files or "
        f"1000000 tensors; {INDEX}"
    )
    monkeypatch.setattr(_safetensors, "_MAX_FILES", 2)
    monkeypatch.setattr(_safetensors, "MAX_TENSORS", 2)
    header = {"b": tensor(0, 8), "c": tensor(8, 16)}
    (tmp_path / "two.safetensors").write_bytes(safetensors(header, 16))
    assert refusal(tensor_shapes, tmp_path) == (
        f"{tmp_path}/two.safetensors: the shards up to this one hold more than 2 tensors; "
        "pass the checkpoint that is meant"
    )


@pytest.mark.parametrize(
    ("names", "unread"),
    [
        (["pytorch_model.bin"], "pytorch_model.bin is a pickle, which can run code when opened"),
        (["pytorch_model-00001-of-00002.bin"], "pytorch_model-00001-of-00002.bin is a pickle"),
        (["training.pt", "z.safetensors"], "training.pt is a pickle"),
        (["consolidated.00.pth"], "consolidated.00.pth is a pickle"),
        (["drafter.safetensors"], "drafter.safetensors is neither model.safetensors nor named by"),
        (["w\x1b.pt"], "w\\x1b.pt is a pickle"),
    ],
)
def test_weights_that_are_not_read_are_named(tmp_path: Path, names: list[str], unread: str) -> None:
    for name in ("config.json", *names):
        (tmp_path / name).write_text("never opened")
    tensors, told = weights_in(tmp_path)
    assert tensors is None
    assert told is not None
    assert told.startswith(unread)
    assert refusal(tensor_shapes, tmp_path) == (
        f"{tmp_path}/model.safetensors: is not there: {told}; {SAVE}"
    )


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter.safetensors", "vocab.bin"])
def test_what_is_no_model_s_weights_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("never opened")
    assert weights_in(tmp_path) == Weights(None)
    checkpoint(tmp_path, {"one.safetensors": "a"}, {"a": "one.safetensors"})
    assert tensor_shapes(tmp_path).keys() == {"a"}


def test_a_directory_without_weights_is_named(tmp_path: Path) -> None:
    assert refusal(tensor_shapes, tmp_path) == (
        f"{tmp_path}/model.safetensors: does not exist, nor does model.safetensors.index.json; "
        f"{SAVE}"
    )
    absent = tmp_path / "absent"
    assert refusal(tensor_shapes, absent).startswith(f"{absent}: cannot be read (No such file")


def test_a_long_index_is_read(tmp_path: Path) -> None:
    names = {f"model.layers.{n}.mlp.experts.{n}.gate_proj.weight": n for n in range(20_000)}
    header = {name: tensor(8 * n, 8 * n + 8) for name, n in names.items()}
    (tmp_path / "one.safetensors").write_bytes(safetensors(header, 8 * len(names)))
    index = json.dumps({"weight_map": dict.fromkeys(names, "one.safetensors")})
    (tmp_path / "model.safetensors.index.json").write_text(index)
    assert len(tensor_shapes(tmp_path)) == 20_000
