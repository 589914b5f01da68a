"""Overrides in deployment files: each at its index and line, and none that is lost silently."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from specmeta._deployment_file import DeploymentReading, read_deployment_file
from specmeta._files import read_document

from .running import DEPLOYMENT, QWEN

BLOCK = {"rule": "draft_beyond_block", "reason": "measured"}
ROWS = {"rule": "window_not_supported", "reason": "tried"}


def reading(
    path: Path, changes: tuple[tuple[str, str], ...] = (), /, **more: Any
) -> DeploymentReading:
    text = DEPLOYMENT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = path / "deployment.yaml"
    path.write_text(text + (yaml.safe_dump(more, sort_keys=False) if more else ""))
    return read_deployment_file(read_document(path), base=path.parent)


def found(read: DeploymentReading) -> list[tuple[str, str, int | None, int | None]]:
    return [(item.rule, item.field, item.index, item.line) for item in read.findings]


LINES = DEPLOYMENT.count("\n")
LONGER = (("max_draft_len: 5", "max_draft_len: 6"),)


@pytest.mark.parametrize("value", [False, 0, "", {}, "draft_beyond_block", BLOCK])
def test_overrides_that_are_no_list_are_refused(tmp_path: Path, value: object) -> None:
    read = reading(tmp_path, overrides=value)
    assert read.deployment is None
    assert found(read) == [("tuple_type", "overrides", None, LINES + 1)]
    (item,) = read.findings
    assert item.message.endswith(" is not a list; write [{rule: ..., reason: ...}]")


@pytest.mark.parametrize("value", [None, []])
def test_no_overrides_are_none(tmp_path: Path, value: object) -> None:
    read = reading(tmp_path, overrides=value)
    assert read.findings == ()
    assert read.deployment is not None
    assert read.deployment.overrides == ()


def test_a_wrong_override_shifts_no_other_one(tmp_path: Path) -> None:
    wrong: list[object] = [{"rule": "no_rule", "reason": " "}, "text", {"rule": 5, "reason": "x"}]
    read = reading(
        tmp_path, LONGER, overrides=[*wrong, BLOCK, dict(BLOCK), ROWS, {"rule": "no_rule"}]
    )
    first = LINES + 2
    assert found(read) == [
        ("string_pattern_mismatch", "overrides.reason", 0, first + 1),
        ("model_type", "overrides", 1, first + 2),
        ("string_type", "overrides.rule", 2, first + 3),
        ("missing", "overrides.reason", 6, first + 11),
        ("draft_beyond_block", "decoding.max_draft_len", None, 34),
        ("override_repeated", "overrides", 4, first + 7),
        ("override_unused", "overrides", 5, first + 9),
    ]
    assert read.findings[4].severity == "overridden"
    assert read.findings[4].reason == "measured"


def test_an_unused_override_is_shown_beside_errors(tmp_path: Path) -> None:
    changes = (("max_num_tokens: 256", "max_num_tokens: 1"), ("vocab_size: 512", "vocab_size: 0"))
    for change in changes:
        read = reading(tmp_path, (change,), overrides=[BLOCK])
        names = [item.rule for item in read.findings]
        # Without a drafter nothing tells whether its block would be broken.
        assert ("override_unused" in names) == (change is changes[0])
        assert len(names) > 1


def test_too_many_overrides_are_one_finding(tmp_path: Path) -> None:
    read = reading(tmp_path, overrides=[BLOCK] * 65)
    assert found(read) == [("too_long", "overrides", None, LINES + 1)]


def test_unknown_keys_are_named_up_to_a_limit(tmp_path: Path) -> None:
    read = reading(tmp_path, **{f"key{index}": index for index in range(50)})
    assert [item.rule for item in read.findings] == ["extra_forbidden"] * 33
    assert read.findings[-1].message == (
        "deployment: 18 more keys are unknown too; remove what a deployment file does not have"
    )


def test_a_bundled_drafter_that_is_not_there_is_told_with_what_was_looked_for(
    tmp_path: Path,
) -> None:
    shutil.copytree(QWEN / "target", tmp_path / "target")
    text = "target: target\ndrafter: bundled\ndecoding: {decoding_type: MTP, max_draft_len: 1}\n"
    (tmp_path / "deployment.yaml").write_text(text)
    read = read_deployment_file(read_document(tmp_path / "deployment.yaml"), base=tmp_path)
    told = [item.fact for item in read.findings if item.rule == "checkpoint_not_recognized"]
    (fact,) = told
    assert fact == (
        "['Qwen3ForCausalLM'] is no drafter that is read for MTP: dspark_* keys or a count of MTP "
        "layers were looked for in the target's file"
    )


def test_a_path_outside_is_shown_whole(tmp_path: Path) -> None:
    place = f"../{'far/' * 40}away"
    read = reading(tmp_path, (("drafter:\n", f"drafter: {place}\nrest:\n"),))
    (item,) = [item for item in read.findings if item.rule == "path_outside"]
    assert item.fact == f"'{place}' is outside the directory of the deployment file"


@pytest.mark.parametrize("drafter", ["{checkpoint: x, stated: null}", "{checkpoint: x}"])
def test_no_stated_facts_are_none(tmp_path: Path, drafter: str) -> None:
    read = reading(tmp_path, (("drafter:\n", f"drafter: {drafter}\nrest:\n"),))
    assert {item.rule for item in read.findings} == {"extra_forbidden", "part_unreadable"}


@pytest.mark.parametrize("key", ["overrides", "compiled_for", "arguments"])
def test_a_key_with_null_is_as_if_it_were_absent(tmp_path: Path, key: str) -> None:
    read = reading(tmp_path, **{key: None})
    assert (read.findings, read.deployment is not None) == ((), True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("max_draft_len: 5", "max_draft_len: '5'"), "write the number, without quotes"),
        (
            ("max_draft_len: 5", "max_draft_len: [5]"),
            "a list of 1 is not an integer; write a valid",
        ),
        (("max_draft_len: 5", "max_draft_len: true"), "true is not an integer; true and false are"),
        (
            ("max_draft_len: 5", "max_draft_len: null"),
            "null is not an integer; write a valid value",
        ),
        (("[1, 4, 6]", "5"), "5 is not a list; write a valid value (Target layers whose"),
        (("  hidden_size: 64\n", ""), "hidden_size: is required and was not given; add it (Width"),
    ],
)
def test_what_is_wrong_is_told_in_the_terms_of_the_file(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    text = "\n".join(item.message for item in reading(tmp_path, (change,)).findings)
    assert message in text
    for term in ("tuple", "keyword", "int(", "None", "True"):
        assert term not in text
