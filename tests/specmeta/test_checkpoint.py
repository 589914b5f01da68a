"""Checkpoints on disk: one opener for every reader, inside the directories that it is given."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specmeta import read_deployment, read_drafter_config, read_target_config
from specmeta._checkpoint import open_checkpoint
from specmeta._findings import CheckpointError, Finding, InputError
from specmeta._pairs import Known, add_drafter
from specmeta._parts import Parts

PUBLISHED = Path(__file__).parents[1] / "data" / "checkpoints"
READERS = (
    read_drafter_config,
    read_target_config,
    read_deployment,
    lambda path: open_checkpoint(Path(path)),
)


def pair(folder: Path) -> Path:
    """A copy of a published pair."""
    source = next(path.parent for path in sorted(PUBLISHED.rglob("drafter")))
    shutil.copytree(source, folder)
    return folder


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("n" * 5000, "File name too long"),
        ("n/" * 2500, "File name too long"),
        ("a\0b", "no file can have this name"),
        ("absent", "No such file or directory"),
        ("loop", "Too many levels of symbolic links"),
        ("loop/config.json", "Too many levels of symbolic links"),
        ("file/config.json", "Not a directory"),
    ],
)
def test_a_path_that_cannot_be_opened_is_one_message(
    tmp_path: Path, read: Callable[[Any], object], name: str, reason: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    message = str(caught.value)
    assert f": cannot be read ({reason}); check the path and its permissions" in message
    assert message.isprintable()
    assert len(message) < 4500


def test_a_directory_and_its_config_are_the_same_checkpoint(tmp_path: Path) -> None:
    target = pair(tmp_path / "pair") / "target"
    by_directory, by_file = open_checkpoint(target), open_checkpoint(target / "config.json")
    assert by_directory.directory == by_file.directory == target
    assert by_directory.document.data == by_file.document.data
    with pytest.raises(CheckpointError, match=r"absent: cannot be read \(No such file"):
        read_target_config(tmp_path / "absent")


def test_a_link_out_of_the_given_directories_is_refused(tmp_path: Path) -> None:
    elsewhere = pair(tmp_path / "elsewhere")
    given = tmp_path / "given"
    given.mkdir()
    for part in ("target", "drafter"):
        (given / part).symlink_to(elsewhere / part)
        with pytest.raises(InputError) as caught:
            open_checkpoint(given / part, within=(given,))
        assert str(caught.value) == (
            f"{given / part}: leads out of {given}, to {elsewhere / part}; "
            "put the checkpoint itself there, or allow its directory with --root DIR"
        )
        assert open_checkpoint(given / part, within=(given, elsewhere)).directory == given / part
        assert open_checkpoint(given / part).directory == given / part


def test_a_link_into_the_blobs_of_its_snapshot_is_inside(tmp_path: Path) -> None:
    snapshot, blob = tmp_path / "snapshots" / "0123", tmp_path / "blobs" / "abcd"
    (snapshot / "target").mkdir(parents=True)
    blob.parent.mkdir()
    blob.write_text(json.dumps({"model_type": "x"}))
    (snapshot / "target" / "config.json").symlink_to("../../../blobs/abcd")
    opened = open_checkpoint(snapshot / "target", within=(snapshot,))
    assert opened.document.data == {"model_type": "x"}


def weights_of(folder: Path, name: str) -> list[Finding]:
    """What is found of a drafter's weights that are in one file."""
    drafter = pair(folder) / "drafter"
    for weights in drafter.glob("*.safetensors*"):
        weights.unlink()
    (drafter / name).write_text("never opened")
    parts = Parts()
    facts = Known({"anchor_convention": "anchor_first", "window_causality": "non_causal"})
    add_drafter(
        parts, open_checkpoint(drafter), open_checkpoint(folder / "target"), facts, weights=True
    )
    return [found for found in parts.findings if found.rule == "weights_not_read"]


def test_weights_that_are_not_compared_are_a_warning(tmp_path: Path) -> None:
    (found,) = weights_of(tmp_path / "pair", "pytorch_model.bin")
    assert found.severity == "warning"
    assert found.file == str(tmp_path / "pair" / "drafter" / "config.json")
    assert found.message == (
        "weights: pytorch_model.bin is a pickle, which can run code when opened; "
        "fetch the weights, or save them as model.safetensors or as shards with an index"
    )


def test_an_adapter_beside_a_configuration_is_not_its_weights(tmp_path: Path) -> None:
    assert weights_of(tmp_path / "pair", "adapter.safetensors") == []
