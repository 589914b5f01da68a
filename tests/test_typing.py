"""The type contract: right programs are clean and wrong ones are errors, under mypy and pyright.

The files of tests/typing are only checked, never run. `ok_*.py` must be clean. In `bad_*.py` a line
that a checker must refuse ends in `# E: mypy codes | pyright rules`, with `-` where one of the two
reports nothing on that line; every other line must be clean.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "tests" / "typing").glob("*.py"))
MARKER = re.compile(r"# E: (?P<mypy>[^|]+) \| (?P<pyright>.+)$")

Findings = Counter[tuple[str, int, str]]


def expected(checker: str) -> Findings:
    """(file, line, code) of every marker for one checker."""
    found: Findings = Counter()
    for file in FILES:
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            if marker := MARKER.search(line):
                codes = [code for code in marker[checker].split() if code != "-"]
                found.update((file.name, number, code) for code in codes)
    return found


def mypy_findings() -> Findings:
    command = [sys.executable, "-m", "mypy", "--output=json", *map(str, FILES)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode in {0, 1}, run.stdout + run.stderr
    found: Findings = Counter()
    for line in run.stdout.splitlines():
        report = json.loads(line)
        file = ROOT / report["file"]
        if file in FILES and report["severity"] == "error":
            found[file.name, report["line"], report["code"]] += 1
    return found


def pyright_findings() -> Findings:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run(
        [*command, *map(str, FILES)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode in {0, 1}, run.stdout + run.stderr
    found: Findings = Counter()
    for report in json.loads(run.stdout)["generalDiagnostics"]:
        file, line = Path(report["file"]), report["range"]["start"]["line"] + 1
        found[file.name, line, report.get("rule", report["severity"])] += 1
    return found


@pytest.mark.parametrize("prefix", ["ok_", "bad_"])
def test_there_is_something_to_check(prefix: str) -> None:
    assert [file for file in FILES if file.name.startswith(prefix)]
    assert not [name for name, _, _ in expected("mypy") if name.startswith("ok_")]


def assert_exactly(found: Findings, marked: Findings) -> None:
    assert not marked - found, f"marked, but accepted: {sorted(marked - found)}"
    assert not found - marked, f"refused, but not marked: {sorted(found - marked)}"


def test_mypy_reports_exactly_the_marked_lines() -> None:
    assert_exactly(mypy_findings(), expected("mypy"))


def test_pyright_reports_exactly_the_marked_lines() -> None:
    assert_exactly(pyright_findings(), expected("pyright"))
