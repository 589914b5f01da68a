"""Deployment files that name checkpoints and an engine's arguments."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .running import DATA, PAIR, QWEN, SERVE, STATED, V4, check, write


def test_a_deployment_names_checkpoints_beside_it(tmp_path: Path) -> None:
    shutil.copytree(QWEN, tmp_path / "models")
    path = write(tmp_path / "deployment.yaml", text=PAIR)
    result = check(path)
    assert result.code == 0
    assert result.lines[0] == f"{path}: deployment of a DSpark drafter in the DeepSpec layout"
    config = tmp_path / "models" / "drafter" / "config.json"
    config.write_text(config.read_text().replace('"block_size": 7', '"block_size": 6'))
    write(path, ("max_draft_len: 7", "max_draft_len: 8"), text=PAIR)
    assert check(path, "--json").found == [("draft_beyond_block", "decoding.max_draft_len", 3)]
    config.write_text(config.read_text().replace('"block_size": 6', '"block_size": 0'))
    assert [(f[0], f[2]) for f in check(path, "--json").found] == [("block_size_out_of_range", 25)]


def test_a_deployment_states_facts_and_finds_bundled_drafters(tmp_path: Path) -> None:
    shutil.copytree(DATA / "deepspec_dflash_qwen3_8b_block7", tmp_path / "models")
    path = write(tmp_path / "deployment.yaml", text=PAIR)
    assert [f[0] for f in check(path, "--json").found] == ["fact_not_stated"]
    assert check(path, *STATED).code == 0
    stating = (
        "drafter: models/drafter",
        "drafter: {checkpoint: models/drafter, stated: {anchor_convention: anchor_first}}",
    )
    write(path, stating, text=PAIR)
    assert check(path).code == 0
    twice = check(path, "--state", "anchor_convention=mask_at_position", "--json")
    assert [(f[0], f[2]) for f in twice.found] == [("facts_disagree", 2)]
    shutil.copytree(V4, tmp_path / "v4")
    for bundled in ("bundled", "{checkpoint: bundled}", "{stated: {}}"):
        write(
            path,
            ("target: models/target", "target: v4/target"),
            ("drafter: models/drafter", f"drafter: {bundled}"),
            ("max_draft_len: 7", "max_draft_len: 5"),
            text=PAIR,
        )
        (item,) = check(path, "--json").report["inputs"]
        assert item["notes"] == ["deployment of a DSpark drafter in the DeepSeek-V4 layout"]
        assert item["memory"]["slot_state"] == 17 * (3 * 128 * 512 * 2 + 17)


def test_a_deployment_reads_no_file_outside_its_directory(tmp_path: Path) -> None:
    shutil.copytree(QWEN, tmp_path / "models")
    inner = tmp_path / "inner"
    inner.mkdir()
    path = write(
        inner / "deployment.yaml",
        ("target: models", "target: ../models"),
        ("drafter: models/drafter", f"drafter: {tmp_path}/models/drafter"),
        text=PAIR,
    )
    result = check(path, "--json")
    assert result.found == [("path_outside", "target", 1), ("path_outside", "drafter", 2)]
    assert result.code == 1
    assert check(path, "--root", tmp_path / "models").code == 0
    (inner / "link").symlink_to(tmp_path / "models")
    write(path, ("target: models", "target: link"), ("er: models", "er: link"), text=PAIR)
    assert [f[0] for f in check(path, "--json").found] == ["path_outside", "path_outside"]


def test_a_checkpoint_that_cannot_be_read_is_found_where_it_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "deployment.yaml", text=PAIR)
    result = check(path)
    assert (result.code, result.err) == (2, "")
    assert result.lines[1] == (
        f"{path}:1: error target: {tmp_path}/models/target: cannot be read "
        "(No such file or directory); mend that file, or name another: one of this machine, "
        "relative to the deployment file [part_unreadable]"
    )
    write(path, ("target: models/target", 'target: "a\\0b"'), text=PAIR)
    assert check(path, "--json").found[0] == ("path_outside", "target", 1)


@pytest.mark.parametrize(
    ("drafter", "expected"),
    [
        ("{checkpoint: models/drafter, state: {a: 1}}", ("extra_forbidden", "drafter.state", 2)),
        ("{checkpoint: 3}", ("string_type", "drafter.checkpoint", 2)),
        ("{stated: 3}", ("dict_type", "drafter.stated", 2)),
        ("3", ("dict_type", "drafter", 2)),
    ],
)
def test_a_drafter_in_another_form_is_an_error(
    tmp_path: Path, drafter: str, expected: tuple[str, str, int]
) -> None:
    shutil.copytree(QWEN, tmp_path / "models")
    change = ("drafter: models/drafter", f"drafter: {drafter}")
    path = write(tmp_path / "deployment.yaml", change, text=PAIR)
    assert check(path, "--json").found == [expected]


def test_a_target_that_is_written_out_bundles_no_drafter(tmp_path: Path) -> None:
    sizes = "{hidden_size: 8, num_layers: 4, vocab_size: 9, max_position_embeddings: null}"
    path = write(
        tmp_path / "deployment.yaml",
        ("target: models/target", f"target: {sizes}"),
        ("drafter: models/drafter", "drafter: bundled"),
        text=PAIR,
    )
    assert check(path, "--json").found == [("value_error", "drafter", 2)]


def test_a_method_is_known_where_the_choices_have_another_error(tmp_path: Path) -> None:
    shutil.copytree(V4, tmp_path / "models")
    path = write(
        tmp_path / "deployment.yaml",
        ("drafter: models/drafter", "drafter: bundled"),
        ("DSpark, max_draft_len: 7", "MTP, max_draft_len: 0"),
        text=PAIR,
    )
    found = {rule for rule, _, _ in check(path, "--json").found}
    # The MTP layers of the target are meant, and which state they read is not in its file.
    assert found == {"greater_than", "fact_not_stated"}


@pytest.mark.parametrize("form", ["object", "yaml", "flags"])
def test_a_deployment_takes_the_arguments_of_an_engine(tmp_path: Path, form: str) -> None:
    shutil.copytree(QWEN, tmp_path / "models")
    head = "target: models/target\ndrafter: models/drafter\n"
    fields = (
        "    speculative-config: {method: dspark, num_speculative_tokens: 8}\n"
        "    max-num-seqs: 16\n    max-num-batched-tokens: 8192\n    dtype: bfloat16\n"
    )
    path = tmp_path / "deployment.yaml"
    place = (str(path), 5)
    if form == "object":
        path.write_text(f"{head}arguments:\n  vllm:\n{fields}")
    elif form == "yaml":
        (tmp_path / "serve.yaml").write_text(fields)
        path.write_text(f"{head}arguments: {{vllm: serve.yaml}}\n")
        place = (str(tmp_path / "serve.yaml"), 1)
    else:
        (tmp_path / "serve.sh").write_text(SERVE.replace(": 7}", ": 8}"))
        path.write_text(f"{head}arguments: {{vllm: serve.sh}}\n")
        place = (str(tmp_path / "serve.sh"), 2)
    (item,) = check(path, "--json").report["inputs"]
    (found,) = item["findings"]
    assert (found["rule"], found["value"]) == ("draft_beyond_block", 8)
    assert (found["file"], found["line"]) == place
    assert found["field"].endswith("speculative-config.num_speculative_tokens")
