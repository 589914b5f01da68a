"""`specmeta check` as a command: exit codes, streams, several inputs, and no traceback."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specmeta._cli import app
from specmeta._rules import RULES

from .running import check, write


def test_no_path_is_a_usage_error() -> None:
    result = check()
    assert (result.code, result.out) == (2, "")
    assert result.err == "specmeta check: no PATH is given; --help shows what can be checked\n"


def test_an_unreadable_input_is_one_line_on_stderr_and_the_others_are_checked(
    tmp_path: Path,
) -> None:
    bad = write(tmp_path / "bad.yaml", ("max_draft_len: 5", "max_draft_len: 6"))
    broken = tmp_path / "broken.json"
    broken.write_text('{"target": ')
    result = check(tmp_path / "absent.yaml", bad, broken, tmp_path)
    assert result.code == 2
    errors = result.err.splitlines()
    assert len(errors) == 3
    assert errors[0].startswith(f"specmeta check: {tmp_path}/absent.yaml: cannot be read (No such")
    assert errors[1].startswith(f"specmeta check: {broken}:1: is not valid JSON")
    assert errors[2] == (
        f"specmeta check: {tmp_path}: holds neither a config.json nor a target/; pass a checkpoint "
        "directory, one with target/ and drafter/, or a file"
    )
    assert f"{bad}:34: error decoding.max_draft_len" in result.out
    assert result.lines[-1] == "1 error, 0 warnings, 3 unreadable in 4 inputs"


def test_the_order_of_inputs_changes_no_finding(tmp_path: Path) -> None:
    one = write(tmp_path / "one.yaml", ("max_draft_len: 5", "max_draft_len: 6"))
    two = write(tmp_path / "two.yaml", ("block_size: 5", "block_size: 0"))
    forward, backward = check(one, two, "--json").report, check(two, one, "--json").report
    assert forward["inputs"] == backward["inputs"][::-1]
    assert check(one, two).code == check(two, one).code == 1


def test_a_document_of_no_known_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"name": "x"}')
    result = check(path)
    assert (result.code, result.lines) == (2, ["0 errors, 0 warnings, 1 unreadable in 1 input"])
    assert result.err == (
        f"specmeta check: {path}: is not recognised (an object with 'name'); pass a deployment "
        "file (target, drafter, decoding, engine), a checkpoint's config.json, engine arguments "
        "that hold speculation, or recorded metadata\n"
    )


@pytest.mark.parametrize(
    ("fact", "problem"),
    [
        ("anchor_convention", "--state 'anchor_convention' is not FACT=VALUE; write for example"),
        ("=1", "--state '=1' is not FACT=VALUE"),
        ("block_size=[1", "--state 'block_size=[1' holds no value or list of YAML; quote it"),
        ("block_size={a: 1}", "--state 'block_size={a: 1}' is an object"),
    ],
)
def test_a_fact_in_another_form_is_a_usage_error(tmp_path: Path, fact: str, problem: str) -> None:
    result = check(write(tmp_path / "deployment.yaml"), "--state", fact)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"specmeta check: {problem}")


def test_a_fact_that_is_stated_twice_must_be_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "deployment.yaml")
    twice = ("--state", "block_size=5", "--state", "block_size=7")
    assert check(path, *twice).err == (
        "specmeta check: --state block_size: two values are stated; keep the one that is right\n"
    )


def test_explain_says_what_a_rule_protects() -> None:
    rule = RULES["draft_beyond_block"]
    result = check("--explain", "draft_beyond_block")
    assert result.code == 0
    assert result.lines == [
        "draft_beyond_block",
        "  family: R7, draft length, block and verify width by an explicit anchor convention",
        "  severity: error",
        "  overridable: yes",
        f"  protects: {rule.protects}",
        f"  remedy: {rule.remedy}",
        f"  reports: {', '.join(rule.reports)}",
    ]


def test_explain_answers_an_unknown_rule_with_the_nearest() -> None:
    result = check("--explain", "draft_beyond_blocks")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "specmeta check: 'draft_beyond_blocks' is no rule; did you mean draft_beyond_block?\n"
    )
    assert check("--explain", "zzz").err == (
        "specmeta check: 'zzz' is no rule; 'specmeta rules' lists them\n"
    )


def test_rules_lists_the_registry() -> None:
    done = CliRunner().invoke(app, ["rules"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["rule", "family", "severity", "overridable", "reports"]
    assert [line.split()[0] for line in lines[1:]] == list(RULES)
    content = json.loads(CliRunner().invoke(app, ["rules", "--json"]).stdout)
    assert [rule["name"] for rule in content] == list(RULES)
    assert content[0].keys() == {
        "name",
        "family",
        "protects",
        "remedy",
        "reports",
        "severity",
        "overridable",
    }


def test_a_closed_pipe_ends_the_command_quietly(tmp_path: Path) -> None:
    path = write(tmp_path / "deployment.yaml")
    command = [sys.executable, "-m", "specmeta", "check", *[str(path)] * 200]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() == 141


def test_an_interrupt_ends_the_command_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("specmeta._check._run.check", interrupt)
    result = check(write(tmp_path / "deployment.yaml"))
    assert (result.code, result.out, result.err) == (130, "", "")


@pytest.mark.parametrize("command", ["check", "rules"])
def test_on_a_terminal_nothing_ends_in_a_traceback(tmp_path: Path, command: str) -> None:
    path = write(tmp_path / "deployment.yaml", ("max_draft_len: 5", "max_draft_len: 6"))
    arguments = [command] if command == "rules" else [command, str(path)]
    main, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "specmeta", *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    ) as running:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal without a writer
            while part := os.read(main, 65536):
                shown += part
        os.close(main)
    assert running.returncode == (0 if command == "rules" else 1)
    assert b"draft_beyond_block" in shown
    assert b"\x1b[" in shown
    assert b"Traceback" not in shown


def test_a_narrow_encoding_does_not_end_the_report(tmp_path: Path) -> None:
    path = write(tmp_path / "deployment.yaml", ("engine:", '"\U0001f600": 1\nengine:'))
    done = subprocess.run(
        [sys.executable, "-m", "specmeta", "check", str(path)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"\\U0001f600: is no key of a deployment file" in done.stdout


def test_a_terminal_is_shown_the_same_lines_in_colour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from specmeta._check._options import CheckOptions
    from specmeta._check._run import check as run
    from specmeta._check._terminal import show
    from specmeta._check._text import lines

    path = write(tmp_path / "deployment.yaml", ("max_draft_len: 5", "max_draft_len: 6"))
    report = run([str(path)], CheckOptions(), lambda: sys.stdin.buffer)
    monkeypatch.setenv("COLUMNS", "40")
    show(report)
    assert capsys.readouterr().out.splitlines() == [line.text for line in lines(report)]
