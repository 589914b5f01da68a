"""The examples of docs/arguments.md: each command prints what the page shows, in a folder with the
files of the page and a published pair as `models`.
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specmeta._cli import app

ROOT = Path(__file__).parents[3]
PAIR = ROOT / "tests" / "data" / "checkpoints" / "dspark_qwen3_8b_block7"
PAGE = (ROOT / "docs" / "arguments.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = [text for language, text in BLOCKS if language in ("yaml", "bash")]
NAMES = [text.partition("\n")[0].removeprefix("# ") for text in FILES]
COMMANDS = [
    tuple(part.split("\n", 1))
    for language, text in BLOCKS
    if language == "shell"
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
]


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_a_command_prints_what_the_page_shows(
    command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PAIR, tmp_path / "models")
    for name, text in zip(NAMES, FILES, strict=True):  # with the line of its name, as it is copied
        (tmp_path / name).write_text(text)
    program, *arguments = shlex.split(command)
    assert program == "specmeta"
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    wanted = shown.replace("[...]", "...")
    printed = done.stdout + done.stderr
    assert doctest.OutputChecker().check_output(wanted, printed, doctest.ELLIPSIS), printed
    assert done.exit_code == (1 if "error:" in printed else 0)


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) == 4
    assert NAMES == ["serve.sh", "sglang.yaml"]
