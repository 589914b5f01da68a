"""What is asked of `specmeta check` and cannot be done: options, inputs and streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specmeta._check._explain import known_names
from specmeta.testing import make_deployment

from .running import PAIR, QWEN, SERVE, check, write

STEP = b'{"decoding_type": "DSpark", "request_ids": [0]}\n'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "an empty PATH names nothing; give a file or a directory"),
        (("-", "-"), "standard input can be read once; name '-' once"),
        (("-", "--deployment", "-"), "--deployment reads no standard input; pass a file"),
        (("x", "--json", "--format", "sarif"), "--json and --format sarif are two forms"),
        (("x", "--explain", "int_type"), "--explain checks no PATH; leave one of them out"),
        (("--explain", "int_type", "--format", "sarif"), "--explain has no --format sarif"),
        (("--explain", "int_type", "--strict"), "--explain checks nothing; leave the options"),
        (("--explain", "int_type", "--target", "x"), "--explain checks nothing; leave the options"),
        (("--explain", "layer_out_of_rang"), "is no rule; did you mean layer_out_of_range?"),
    ],
)
def test_what_is_asked_and_cannot_be_done_is_one_message(
    arguments: tuple[str, ...], message: str
) -> None:
    result = check(*arguments, stdin=STEP)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [("--mid-run", None), ("--root", "."), ("--deployment", "deployment.yaml")],
)
def test_an_option_that_no_input_can_use_is_refused(
    tmp_path: Path, option: str, value: str | None
) -> None:
    deployment = write(tmp_path / "deployment.yaml")
    given = () if value is None else (str(deployment if value == deployment.name else tmp_path),)
    result = check(QWEN / "drafter", option, *given)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"specmeta check: {option} is for ")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--target", QWEN / "target"),
        ("--drafter", QWEN / "drafter"),
        ("--decoding-type", "DSpark"),
        ("--state", "block_size=7"),
        ("--no-weights", None),
    ],
)
def test_an_option_for_checkpoints_is_refused_beside_a_deployment_that_is_written_out(
    tmp_path: Path, option: str, value: str | Path | None
) -> None:
    values = () if value is None else (value,)
    result = check(write(tmp_path / "deployment.yaml"), option, *values)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"specmeta check: {option} is for ")


@pytest.mark.parametrize("option", ["--target", "--drafter", "--decoding-type", "--format"])
def test_an_option_of_one_value_is_given_once(option: str) -> None:
    value = {"--decoding-type": "DSpark", "--format": "json"}.get(option, "x")
    result = check(QWEN / "drafter", option, value, option, value)
    assert (result.code, result.out) == (2, "")
    assert f"{option} is given twice; give it once" in result.err


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    result = check(write(tmp_path / "deployment.yaml"), "--root", tmp_path / "absent")
    assert (result.code, result.out, "--root" in result.err) == (2, "", True)


def test_a_fact_that_is_stated_twice_has_to_be_the_same_value() -> None:
    twice = ("--state", "block_size=7", "--state", "block_size=7.0")
    result = check(QWEN / "drafter", *twice)
    assert (result.code, "block_size: two values are stated" in result.err) == (2, True)
    same = ("--state", "rope_theta=1000000", "--state", "rope_theta=1e6")
    assert check(QWEN / "drafter", *same).code == 0


def test_an_option_of_use_to_one_input_is_taken(tmp_path: Path) -> None:
    deployment = write(tmp_path / "deployment.yaml")
    result = check(deployment, QWEN / "drafter", "--decoding-type", "DSpark", "--json")
    assert (result.code, result.found) == (0, [])


def test_a_method_that_a_checkpoint_is_not_of_is_refused() -> None:
    result = check(QWEN / "drafter", "--decoding-type", "MTP")
    assert result.code == 2
    assert "is of a DSpark drafter, not of an MTP one; correct --decoding-type" in result.err


@pytest.mark.parametrize("name", ["empty.jsonl", "blank.jsonl", "empty.json", "lists.jsonl"])
def test_a_recording_without_a_step_is_unreadable(tmp_path: Path, name: str) -> None:
    contents = {"empty.jsonl": "", "blank.jsonl": "\n\n", "empty.json": "[]", "lists.jsonl": "[]\n"}
    path = tmp_path / name
    path.write_text(contents[name])
    result = check(path)
    assert result.code == 2
    assert result.err == (
        f"specmeta check: {path}: holds no steps; write one object of metadata fields a step\n"
    )


def test_standard_input_without_a_step_is_unreadable() -> None:
    result = check("-", stdin=b"")
    assert (result.code, "<stdin>: holds no steps" in result.err) == (2, True)


def test_a_list_with_one_step_is_a_recording_and_its_other_items_are_named(tmp_path: Path) -> None:
    path = tmp_path / "steps.json"
    path.write_text(json.dumps([{"request_ids": [0], "seq_lens": [1]}, 3]))
    result = check(path, "--json")
    assert result.report["inputs"][0]["kind"] == "steps"
    assert {item["rule"] for item in result.report["inputs"][0]["findings"]} >= {"model_type"}
    assert result.code == 1


@pytest.mark.parametrize("given", ["pair", "target", "arguments", "absent"])
def test_steps_are_not_passed_off_as_compared_with_what_is_no_deployment(
    tmp_path: Path, given: str
) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(SERVE.replace("--dtype", "--max-model-len 4096 --dtype"))
    named = {
        "pair": QWEN,
        "target": QWEN / "target",
        "arguments": script,
        "absent": tmp_path / "absent.yaml",
    }
    steps = tmp_path / "steps.jsonl"
    steps.write_bytes(STEP)
    result = check(steps, "--deployment", named[given], "--json")
    assert result.code == 2
    assert str(named[given]) in result.err
    assert result.report["unreadable"] == 1


def test_a_deployment_that_is_checked_and_compared_with_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "deployment.json"
    path.write_text(make_deployment("DSpark").model_dump_json())
    other = tmp_path / "." / "x" / ".." / "deployment.json"
    (tmp_path / "x").mkdir()
    steps = tmp_path / "steps.jsonl"
    steps.write_bytes(STEP)
    result = check(other, steps, "--deployment", path, "--json")
    assert [item["kind"] for item in result.report["inputs"]] == ["deployment", "steps"]


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
def test_a_thousand_findings_are_listed_and_the_rest_is_not_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(STEP * 2000 + b"no JSON\n")
    result = check(path, "--format", form)
    assert (result.code, result.err) == (1, "")
    told = f"{path}: stopped after 1000 findings; mend these and check again"
    if form == "json":
        (item,) = result.report["inputs"]
        assert (item["stopped"], len(item["findings"])) == (True, 1000)
    else:
        assert told in result.out


def test_exactly_a_thousand_findings_are_all(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    each = len(findings(path, STEP))
    own = len(findings(path, STEP + b"3\n")) - each  # a line that is no object is one finding
    rest = 1000 - 1000 // each * each
    assert (own, rest > 0) == (1, True)
    content = STEP * (1000 // each) + b"3\n" * rest
    assert len(findings(path, content)) == 1000
    assert len(findings(path, content + b"3\n", stopped=True)) == 1000


def findings(path: Path, content: bytes, *, stopped: bool = False) -> list[object]:
    path.write_bytes(content)
    (item,) = check(path, "--json").report["inputs"]
    assert item["stopped"] is stopped
    return list(item["findings"])


# What models of these types can refuse with, beside the rules: pydantic's names, and our own.
KINDS = (
    "missing", "extra_forbidden", "int_type", "int_from_float", "float_type", "bool_type",
    "string_type", "tuple_type", "dict_type", "model_type", "literal_error", "invalid_key",
    "json_invalid", "union_tag_not_found", "union_tag_invalid", "greater_than",
    "greater_than_equal", "less_than", "less_than_equal", "finite_number", "too_long",
    "string_too_short", "string_too_long", "string_pattern_mismatch", "value_error",
    "frozen_instance", "validation_loosened",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted({*known_names(), *KINDS}))
def test_every_name_of_a_finding_is_explained(name: str) -> None:
    shown, told = check("--explain", name), json.loads(check("--explain", name, "--json").out)
    assert shown.lines[0] == told["name"] == name
    assert told["remedy"] in shown.out


def test_what_is_given_as_a_drafter_has_to_be_one() -> None:
    result = check(QWEN / "target", "--target", QWEN / "target", "--json")
    assert result.found == [("checkpoint_not_recognized", "architectures", 2)]
    assert result.code == 1


def test_the_directory_of_a_pair_is_no_target() -> None:
    result = check(QWEN / "drafter", "--target", QWEN)
    assert (result.code, f"holds a pair; pass {QWEN / 'target'}" in result.err) == (2, True)


def test_the_index_or_a_shard_is_answered_with_its_directory(tmp_path: Path) -> None:
    weights, index = tmp_path / "model.safetensors", tmp_path / "model.safetensors.index.json"
    weights.write_bytes(b"")
    index.write_text(json.dumps({"metadata": {}, "weight_map": {}}))
    for path in (weights, index):
        result = check(path)
        assert (result.code, f"pass its directory, {tmp_path}" in result.err) == (2, True)


def test_a_pair_that_is_named_by_a_deployment_needs_no_option(tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to(QWEN)
    path = write(tmp_path / "deployment.yaml", text=PAIR)
    assert {rule for rule, _, _ in check(path, "--json").found} == {"path_outside"}
    assert check(path, "--root", QWEN).code == 0


def test_every_key_of_the_json_report_is_documented(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "check.md").read_text(encoding="utf-8")
    report = check(write(tmp_path / "deployment.yaml"), "--json").report
    bad = check(write(tmp_path / "bad.yaml", ("block_size: 5", "block_size: 0")), "--json").report
    (item,), (other,) = report["inputs"], bad["inputs"]
    keys = [*report, *item, *item["memory"], *item["slots"], *other["findings"][0]]
    assert [key for key in keys if f"`{key}`" not in page] == []


def test_the_option_that_is_missing_is_asked_for_alone(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(SERVE.replace("--dtype", "--max-model-len 4096 --dtype"))
    told = "not checked against a whole pair: give"
    for given, missing in (("target", "drafter"), ("drafter", "target")):
        result = check(script, f"--{given}", QWEN / given, "--json")
        assert result.report["inputs"][0]["notes"][1:] == [f"{told} --{missing} DIR"]


def test_a_fact_that_is_no_choice_is_told_once() -> None:
    result = check(QWEN, "--state", "anchor_convention=anchor_frist", "--json")
    (found,) = result.report["inputs"][0]["findings"]
    assert found["rule"] == "literal_error"
    assert found["remedy"] == "did you mean 'anchor_first'?"


def test_a_pair_that_is_named_as_one_of_its_parts_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to(QWEN)
    path = write(
        tmp_path / "deployment.yaml", ("drafter: models/drafter", "drafter: models"), text=PAIR
    )
    result = check(path, "--root", QWEN, "--json")
    (found,) = result.report["inputs"][0]["findings"]
    assert found["rule"] == "part_unreadable"
    assert found["fact"].endswith(f"models/target or {tmp_path}/models/drafter")
