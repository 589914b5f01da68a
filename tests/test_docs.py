"""The examples of README.md and docs/: what a page shows is what happens.

* The `python` blocks of a page run in order, in one namespace. A `text` block right behind one is
  what it prints.
* A `console` block holds commands behind `$ `, each followed by its output, if the page shows any.
  `specmeta` commands run; the long `bench` ones only have their options checked. `make` targets
  and the scripts behind `python` must exist.

In outputs, `...` stands for anything and runs of spaces are equal.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specmeta._rules import FAMILIES, RULES
from specmeta._rules.__main__ import BEGIN, END, main, tables, with_tables

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# The pages call a published pair `models`.
PAIR = ROOT / "tests" / "data" / "checkpoints" / "dspark_qwen3_8b_block7"
MATCH = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
LOOSE = {"git", "pip", "cd", "python3"}  # set-up lines that a test cannot repeat


@dataclass(frozen=True)
class Block:
    """One fenced block, and whether it stands directly behind the one before."""

    language: str
    text: str
    line: int
    follows: bool


def blocks(page: Path) -> list[Block]:
    content = page.read_text()
    found: list[Block] = []
    end = -1
    for fence in FENCE.finditer(content):
        line = content.count("\n", 0, fence.start()) + 2
        follows = end >= 0 and not content[end : fence.start()].strip()
        found.append(Block(fence["language"], fence["text"], line, follows))
        end = fence.end()
    return found


def assert_prints(page: Path, line: int, shown: str, printed: str) -> None:
    same = doctest.OutputChecker().check_output(shown.rstrip(), printed.rstrip(), MATCH)
    assert same, f"{page.name}:{line} shows\n{shown}\nbut this is printed:\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run_and_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PAIR, tmp_path / "models")
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for block in blocks(page):
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as stdout:
                exec(code, namespace)
            printed = stdout.getvalue()
        elif block.language == "text" and block.follows:
            assert_prints(page, block.line, block.text, printed)


def commands() -> list[tuple[Path, int, str, str]]:
    """(page, line, command, output) of every console example."""
    found = []
    for page in PAGES:
        for block in blocks(page):
            if block.language != "console":
                continue
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                line = block.line + block.text[: block.text.index(part)].count("\n")
                found.append((page, line, command.strip(), output.strip()))
    return found


@pytest.mark.parametrize(
    ("page", "line", "command", "output"),
    commands(),
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_console_examples_do_what_the_page_shows(
    page: Path, line: int, command: str, output: str, tmp_path: Path
) -> None:
    program, *arguments = shlex.split(command, comments=True)
    if program == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert {word for word in arguments if "=" not in word} <= targets
    elif program == "python":
        assert (ROOT / arguments[0]).exists()
    elif program == "specmeta" and arguments[0] == "bench":
        from specmeta._cli.bench import app  # imports torch: only for the pages that need it

        # Unknown options are refused before --help answers.
        checked = CliRunner().invoke(app, [*arguments[1:], "--help"])
        assert checked.exit_code == 0, checked.output
    elif program == "specmeta":
        done = subprocess.run(
            [Path(sysconfig.get_path("scripts")) / "specmeta", *arguments],
            cwd=ROOT if "--check" in arguments else tmp_path,
            env={**os.environ, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if output:
            assert_prints(page, line, output, done.stdout)
    else:
        assert program in LOOSE, f"{page.name}:{line}: how is {program!r} checked?"


def test_the_pages_have_examples() -> None:
    assert any(block.language == "python" for page in PAGES for block in blocks(page))
    assert commands()


def test_the_page_on_errors_lists_every_family_and_rule() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    assert page == with_tables(page), "run: python -m specmeta._rules"


def test_the_tables_of_rules_are_rewritten_in_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "errors.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert main([str(page)]) == 0
    assert page.read_text() == f"before\n{BEGIN}\n\n{tables()}\n\n{END}\nafter\n"
    for family in FAMILIES:
        assert f"| {family} | {FAMILIES[family]} |" in tables()
    for rule in RULES.values():
        assert f"| `{rule.name}` | {rule.family} | {rule.severity}" in tables()
    page.write_text(f"{END}\n{BEGIN}\n")
    assert main([str(page)]) == 2
    assert capsys.readouterr().err == (
        f"{page}: no line {BEGIN!r} with a line {END!r} behind it; add both\n"
    )
    assert main([str(tmp_path / "absent.md")]) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'absent.md'}: No such file or directory\n"
