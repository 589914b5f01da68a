"""The examples of docs/check.md: each command prints what the page shows, in a folder with the
files of the page and a published pair as `models`.
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from specmeta._cli import app

from .running import DATA

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "check.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = {
    text.partition("\n")[0].removeprefix("# "): text
    for language, text in BLOCKS
    if language == "yaml"
}
COMMANDS = [
    tuple(part.split("\n", 1))
    for language, text in BLOCKS
    if language == "shell"
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
]
SERVE = (
    '--speculative-config \'{"method": "dspark", "num_speculative_tokens": 7}\' '
    "--max-num-seqs 16 --max-num-batched-tokens 8192 --dtype bfloat16\n"
)


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_a_command_prints_what_the_page_shows(
    command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DATA / "dspark_qwen3_8b_block7", tmp_path / "models")
    (tmp_path / "serve.sh").write_text(SERVE)
    for name in ("deployment.yaml", "fixed.yaml", "stated.yaml"):
        (tmp_path / name).write_text(FILES[name])
    program, *arguments = shlex.split(command)
    assert program == "specmeta"
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    wanted = shown.replace("[...]", "...")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(wanted, done.stdout, flags), done.stdout
    found = re.search(r"^(\d+) errors", done.stdout, re.MULTILINE)
    assert done.exit_code == (1 if found is not None and found[1] != "0" else 0)


def test_the_page_has_commands_and_valid_files() -> None:
    assert len(COMMANDS) >= 7
    for text in FILES.values():
        assert isinstance(yaml.safe_load(text), dict)


def test_the_hook_of_the_page_is_that_of_the_repository() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (shown,) = yaml.safe_load(FILES[".pre-commit-config.yaml"])["repos"][0]["hooks"]
    for key in ("id", "name", "entry", "language", "files"):
        assert hooks[0][key] == shown[key]
    pattern, drafter = re.compile(hooks[0]["files"]), re.compile(hooks[1]["files"])
    for name in ("deployment.yaml", "a/b.deployment.yml", "x/prod-deployment.json"):
        assert pattern.search(name)
    for name in ("deployment.md", "deployments.yaml", "mydeployment.yaml"):
        assert not pattern.search(name)
    assert drafter.search("models/drafter/config.json")
    assert not drafter.search("config.json")
