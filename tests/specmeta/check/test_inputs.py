"""Checkpoints and pairs: what each is taken for, and what is found in it."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from .running import DATA, QWEN, STATED, V4, check, kind_of

BUNDLED = Path(__file__).parents[3] / "workers" / "specmeta_workers" / "bundled"


@pytest.mark.parametrize(
    ("folder", "dialect", "note"),
    [
        ("dspark_qwen3_4b_block7", "deepspec", "DSpark drafter in the DeepSpec layout"),
        ("dspark_qwen3_8b_block7", "deepspec", "DSpark drafter in the DeepSpec layout"),
        ("zlab_qwen3_8b_dflash_b16", "zlab", "DFlash drafter in the z-lab layout"),
        ("speculators_dflash_qwen3_8b", "speculators", "DFlash drafter in the speculators layout"),
        ("speculators_dspark_qwen3_8b", "speculators", "DSpark drafter in the speculators layout"),
        (
            "deepseek_v4_flash_dspark",
            "deepseek_v4",
            "DeepSeek-V4 checkpoint with a bundled DSpark drafter",
        ),
        (
            "deepseek_v4_1_flash_dspark",
            "deepseek_v4",
            "DeepSeek-V4 checkpoint with a bundled DSpark drafter",
        ),
    ],
)
def test_a_published_pair_is_valid(folder: str, dialect: str, note: str) -> None:
    result = check(DATA / folder, "--json")
    assert (result.code, result.report["errors"]) == (0, 0)
    assert kind_of(result) == ("pair", dialect)
    assert result.report["inputs"][0]["notes"] == [
        note,
        "no engine is given: only the rules between target and drafter were checked",
    ]


def test_a_fact_that_no_file_states_is_asked_for() -> None:
    folder = DATA / "deepspec_dflash_qwen3_8b_block7"
    result = check(folder)
    assert result.code == 1
    place = f"{folder}/drafter/config.json:1"
    assert result.lines[1].startswith(f"{place}: error anchor_convention: is not stated")
    assert "--state anchor_convention=anchor_first" in result.lines[1]
    assert check(folder, *STATED).code == 0


def test_a_stated_fact_may_not_contradict_the_file() -> None:
    result = check(QWEN, "--state", "block_size=5")
    assert result.code == 1
    assert result.lines[1].startswith("error block_size: 5 although block_size says 7; ")
    sarif = json.loads(check(QWEN, "--state", "block_size=5", "--format", "sarif").out)
    (place,) = sarif["runs"][0]["results"][0]["locations"]
    assert place["physicalLocation"] == {"artifactLocation": {"uri": QWEN.as_uri()}}
    github = check(QWEN, "--state", "block_size=5", "--format", "github")
    assert github.lines[0].startswith("::error title=facts_disagree::block_size: 5 although")


def test_a_drafter_is_checked_alone_or_with_its_target(tmp_path: Path) -> None:
    alone = check(QWEN / "drafter", "--json")
    assert (alone.code, kind_of(alone)) == (0, ("drafter", "deepspec"))
    assert alone.report["inputs"][0]["notes"][1].startswith("checked alone: give its target")
    assert kind_of(check(QWEN / "drafter", "--target", QWEN / "target", "--json"))[0] == "pair"
    other = DATA / "dspark_qwen3_4b_block7" / "target"
    wrong = check(QWEN / "drafter", "--target", other, "--json")
    assert wrong.found == [("hidden_size_differs", "hidden_size", 6)]
    assert wrong.code == 1
    assert wrong.found == check(other, "--drafter", QWEN / "drafter", "--json").found


def test_a_config_file_is_its_directory() -> None:
    assert kind_of(check(QWEN / "drafter" / "config.json", "--json")) == ("drafter", "deepspec")


def test_a_target_alone_is_read() -> None:
    result = check(QWEN / "target", "--json")
    assert (result.code, kind_of(result)) == (0, ("target", None))
    assert result.report["inputs"][0]["notes"] == [
        "target checkpoint without a drafter: give it with --drafter DIR"
    ]


def test_a_target_with_a_bundled_drafter_is_a_pair() -> None:
    result = check(V4 / "target", "--json")
    assert kind_of(result) == ("pair", "deepseek_v4")
    # Both parts are described by one file: what it does not state is said once.
    assert result.found == [("positions_not_stated", "max_position_embeddings", 1)]


def test_a_missing_part_of_a_pair_is_unreadable_and_the_other_is_checked(tmp_path: Path) -> None:
    pair = tmp_path / "pair"
    shutil.copytree(QWEN, pair)
    (pair / "drafter" / "config.json").write_text(
        (QWEN / "drafter" / "config.json").read_text().replace('"block_size": 7', '"block_size": 0')
    )
    (pair / "target" / "config.json").unlink()
    result = check(pair)
    assert result.code == 2
    assert result.err.startswith(f"specmeta check: {pair}/target/config.json: cannot be read")
    assert f"{pair}/drafter/config.json:25: error block_size" in result.out


def test_tensors_are_compared_with_the_configuration_beside_them(tmp_path: Path) -> None:
    for name in ("dspark", "dflash", "mtp"):
        result = check(BUNDLED / name, "--target", BUNDLED / "target")
        assert (result.code, result.lines[-1]) == (0, "0 errors, 0 warnings in 1 input")
    copy = tmp_path / "dspark"
    shutil.copytree(BUNDLED / "dspark", copy)
    config = json.loads((copy / "config.json").read_text())
    config["target_layer_ids"] = config["target_layer_ids"][:-1]
    (copy / "config.json").write_text(json.dumps(config, indent=1))
    assert "projection_width_differs" in {rule for rule, _, _ in check(copy, "--json").found}
    assert check(copy, "--no-weights").code == 0


def test_a_gguf_file_is_read(tmp_path: Path) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs))
    result = check(path, "--json")
    assert result.code == 1
    assert result.found == [("checkpoint_not_recognized", "general.architecture", None)]
