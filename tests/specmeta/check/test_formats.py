"""Every form of a report: what each finding becomes, and what no form may leave out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specmeta._check._github import commands
from specmeta._check._report import InputReport, Report
from specmeta._findings import Finding
from specmeta._rules import RULES
from specmeta._text import printable

from .running import DEPLOYMENT, check, write

OVERRIDES = "overrides:\n  - {rule: draft_beyond_block, reason: 'measured: 4.4'}\n"
WARNED = OVERRIDES + "  - {rule: window_not_supported, reason: not needed}\n"


@pytest.fixture
def mixed(tmp_path: Path) -> tuple[Path, Path]:
    """A file with an overridden error and a warning, and one with two errors."""
    text = DEPLOYMENT.replace("max_draft_len: 5", "max_draft_len: 7")
    first = write(tmp_path / "first.yaml", text=text + WARNED)
    second = write(
        tmp_path / "second.yaml", ("max_num_tokens: 256", "max_num_tokens: 47"), text=text
    )
    return first, second


def test_text_shows_place_severity_rule_reports_and_reason(mixed: tuple[Path, Path]) -> None:
    first, second = mixed
    result = check(first, second)
    assert (result.code, result.err) == (1, "")
    first_three = ", ".join(RULES["draft_beyond_block"].reports[:3])
    more = len(RULES["draft_beyond_block"].reports) - 3
    reports = f"    reports: {first_three} and {more} more: --explain draft_beyond_block"
    remedy = RULES["draft_beyond_block"].remedy
    fact = "7 is above the 5 drafts of a block of 5 (anchor_first)"
    assert result.lines[:6] == [
        f"{first}: deployment of a DSpark drafter",
        f"{first}:34: overridden decoding.max_draft_len: {fact}; {remedy} [draft_beyond_block]",
        reports,
        "    reason: measured: 4.4",
        (
            f"{first}:43: warning overrides[1]: 'window_not_supported' is not broken; "
            "remove the override [override_unused]"
        ),
        "  slot buffers: 0.5 MiB (557345 bytes)",
    ]
    tail = result.lines[result.lines.index(f"{second}: deployment of a DSpark drafter") :]
    assert tail[1:3] == [
        f"{second}:34: error decoding.max_draft_len: {fact}; {remedy} [draft_beyond_block]",
        reports,
    ]
    assert tail[3].startswith(f"{second}:38: error engine.max_num_tokens: 47 is below")
    assert tail[-1] == "2 errors, 1 warning in 2 inputs"


def test_json_is_one_object_with_every_fact(mixed: tuple[Path, Path]) -> None:
    first, second = mixed
    result = check(first, second, "--json")
    report = result.report
    assert result.out == check(first, second, "--format", "json").out
    assert [report["version"], report["errors"], report["warnings"]] == [1, 2, 1]
    one, two = report["inputs"]
    assert [one["path"], one["kind"], one["dialect"]] == [str(first), "deployment", None]
    assert [two["memory"], two["slots"]] == [None, None]
    error = two["findings"][1]
    rule = RULES["max_num_tokens_too_small"]
    assert error == {
        "rule": rule.name,
        "severity": "error",
        "field": "engine.max_num_tokens",
        "index": None,
        "value": 47,
        "fact": "47 is below max_num_requests * (max_draft_len + 1) (64)",
        "remedy": rule.remedy,
        "reports": list(rule.reports),
        "file": str(second),
        "line": 38,
        "reason": None,
        "message": f"engine.max_num_tokens: {error['fact']}; {rule.remedy}",
    }


def test_memory_and_slots_are_those_of_the_deployment(tmp_path: Path) -> None:
    text = DEPLOYMENT.replace(
        "max_draft_len: 5", "max_draft_len: 5\n  use_rejection_sampling: true"
    )
    path = write(tmp_path / "deployment.yaml", text=text)
    (item,) = check(path, "--json").report["inputs"]
    # layers, window, keys and values, heads, channels, bytes; bookkeeping
    slot = 2 * 128 * 2 * 2 * 16 * 2 + 17
    capture, probs = 256 * 3 * 64 * 2, 17 * 5 * 512 * 4
    assert item["memory"] == {
        "slot_state": 17 * slot,
        "captured_states": capture,
        "draft_probs": probs,
        "total": 17 * slot + capture + probs,
        "not_stated": [],
    }
    assert item["slots"] == {
        "num_seq_slots": 16,
        "plain": 8,
        "overlap_headroom": 16,
        "disaggregated": 16,
        "disaggregated_overlap_headroom": 16,
    }
    assert check(path).lines[1:] == [
        f"  slot buffers: 0.5 MiB ({17 * slot} bytes)",
        f"  capture buffers: 0.1 MiB ({capture} bytes)",
        f"  draft probabilities: 0.2 MiB ({probs} bytes)",
        (
            "  sequence slots: 16; EngineConfig.sized gives 8 plain, 16 with overlap headroom, "
            "16 disaggregated, 16 with both"
        ),
        "0 errors, 0 warnings in 1 input",
    ]


def test_what_is_not_stated_is_said_of_the_memory(tmp_path: Path) -> None:
    path = write(
        tmp_path / "deployment.yaml",
        ("num_key_value_heads: 2", "num_key_value_heads: null"),
        ("  pipeline_parallel_size: 1", ""),
        text=DEPLOYMENT + "  pipeline_parallel_size: 1",
    )
    lines = check(path).lines
    assert lines[1] == (
        "  slot buffers: not known without the drafter's num_key_value_heads; write it, or state "
        "it of a checkpoint"
    )
    assert lines[3] == "  draft probabilities: none, without rejection sampling"


def test_sarif_has_rules_results_places_and_suppressions(mixed: tuple[Path, Path]) -> None:
    first, second = mixed
    result = check(first, second, "--format", "sarif")
    log = json.loads(result.out)
    assert (log["$schema"], log["version"]) == (
        "https://json.schemastore.org/sarif-2.1.0.json",
        "2.1.0",
    )
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "specmeta"
    ids = [rule["id"] for rule in driver["rules"]]
    assert ids == list(RULES)
    assert len({*ids}) == len(ids)
    results = run["results"]
    assert [ids[r["ruleIndex"]] for r in results] == [r["ruleId"] for r in results]
    assert [(r["ruleId"], r["level"], "suppressions" in r) for r in results] == [
        ("draft_beyond_block", "error", True),
        ("override_unused", "warning", False),
        ("draft_beyond_block", "error", False),
        ("max_num_tokens_too_small", "error", False),
    ]
    assert results[0]["suppressions"] == [{"kind": "inSource", "justification": "measured: 4.4"}]
    (place,) = results[3]["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": second.as_uri()},
        "region": {"startLine": 38},
    }
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_sarif_rules_carry_help_and_links(tmp_path: Path) -> None:
    path = write(tmp_path / "deployment.yaml", ("num_layers: 2", "num_layers: 0"))
    run = json.loads(check(path, "--format", "sarif").out)["runs"][0]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    rule = RULES["kv_row_too_small"]
    described = rules[rule.name]
    assert described["helpUri"] == "https://github.com/sgl-project/sglang/issues/33579"
    assert rule.remedy in described["help"]["text"]
    link = "[sgl-project/sglang#33581](https://github.com/sgl-project/sglang/issues/33581)"
    assert link in described["help"]["markdown"]
    assert described["defaultConfiguration"] == {"level": "error"}
    assert rules["override_unused"]["defaultConfiguration"] == {"level": "warning"}
    bound: dict[str, Any] = rules["greater_than"]  # a bound of one field is no rule of the registry
    assert bound["shortDescription"]["text"]
    assert run["results"][0]["ruleIndex"] == len(RULES)


def test_sarif_notes_what_could_not_be_read_and_quotes_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "two words#.yaml", ("block_size: 5", "block_size: 0"))
    result = check("two words#.yaml", "absent.yaml", "--format", "sarif")
    run = json.loads(result.out)["runs"][0]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "two%20words%23.yaml"}
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    (note,) = invocation["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("absent.yaml: cannot be read")
    assert result.code == 2


def test_github_commands_are_escaped() -> None:
    found = Finding(
        rule="draft_beyond_block",
        severity="error",
        field="decoding.max_draft_len",
        index=None,
        value=9,
        fact="9 % of\nit",
        remedy="a: b, c",
        file="a,b:c%.yaml",
        line=3,
    )
    item = InputReport(path="x", findings=[found], unreadable=["y: gone\nfor good"])
    assert list(commands(Report((item,)))) == [
        "::error title=unreadable::y: gone%0Afor good",
        (
            "::error file=a%2Cb%3Ac%25.yaml,line=3,title=draft_beyond_block"
            "::decoding.max_draft_len: 9 %25 of\\nit; a: b, c"
        ),
    ]


def test_github_shows_warnings_and_overridden_errors_too(mixed: tuple[Path, Path]) -> None:
    first, _ = mixed
    lines = check(first, "--format", "github").lines
    assert lines[0].startswith(f"::notice file={first},line=34,title=draft_beyond_block::decod")
    assert lines[0].endswith(" (overridden: measured: 4.4)")
    assert lines[1].startswith(
        f"::warning file={first},line=43,title=override_unused::overrides[1]"
    )
    assert lines[2:] == ["0 errors, 1 warning in 1 input"]


def test_text_from_a_file_cannot_drive_the_terminal(tmp_path: Path) -> None:
    assert printable("a\x1b[31m\u202eb\n") == "a\\x1b[31m\\u202eb\\n"
    path = write(
        tmp_path / "deployment.yaml",
        ("engine:", '"\\e[2J": 1\nengine:'),
    )
    result = check(path)
    assert "\x1b" not in result.out
    assert "\\x1b[2J: is no key of a deployment file" in result.out
