"""Closed, full and broken standard streams: an exit code and at most one message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .check.running import QWEN, SERVE

COMMANDS = [
    ("--help",),
    ("--version",),
    ("rules",),
    ("rules", "--json"),
    ("schema", "written"),
    ("check", str(QWEN)),
    ("check", str(QWEN), "--format", "sarif"),
    ("check", "--explain", "kv_row_too_small"),
    ("convert", "serve.sh", "--to", "sglang"),
    ("bench", "--help"),
]
ROOT = Path(__file__).parents[2]
FULL = Path("/dev/full")
full_device = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


@pytest.fixture(autouse=True)
def _file(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(SERVE.replace("--dtype", "--max-model-len 4096 --dtype"))


def run(arguments: tuple[str, ...], redirects: str, folder: Path) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command behind a shell's redirects."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirects}', "sh", sys.executable, "-m", "specmeta", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_closed_output_is_one_message(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert run(arguments, ">&-", tmp_path) == (
        2,
        "",
        "specmeta: standard output is closed; give it somewhere to go, /dev/null for example\n",
    )
    assert run(arguments, "<&- >&- 2>&-", tmp_path) == (2, "", "")


@full_device
@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_full_output_is_one_message(arguments: tuple[str, ...], tmp_path: Path) -> None:
    code, _, told = run(arguments, ">/dev/full", tmp_path)
    assert code == 2
    assert told.splitlines()[-1] == (
        "specmeta: standard output cannot be written (No space left on device); what was printed "
        "is not whole"
    )
    assert "Traceback" not in told
    assert "Exception" not in told


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_pipe_without_a_reader_ends_the_command_as_a_signal_would(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "specmeta", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert done.returncode == 141
    assert b"standard output" not in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("redirect", ["2>&-", pytest.param("2>/dev/full", marks=full_device)])
def test_messages_that_nobody_reads_change_no_exit_code(redirect: str, tmp_path: Path) -> None:
    summary = "0 errors, 0 warnings"
    code, printed, _ = run(("check", str(QWEN), "absent.yaml"), redirect, tmp_path)
    assert code == 2
    assert printed.splitlines()[-1].startswith(summary)
    assert run(("rules", "--json"), redirect, tmp_path)[0] == 0
    assert run(("unknown",), redirect, tmp_path)[:2] == (2, "")
    assert run(("convert", "absent.sh", "--to", "vllm"), redirect, tmp_path)[:2] == (2, "")


def test_a_closed_input_opens_no_other_file_in_its_place(tmp_path: Path) -> None:
    code, printed, _ = run(("check", str(QWEN)), "<&-", tmp_path)
    assert (code, printed.splitlines()[-1]) == (0, "0 errors, 0 warnings in 1 input")


def test_a_character_that_the_encoding_lacks_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "\u00e9.json").write_text("[1]")
    done = subprocess.run(
        [sys.executable, "-m", "specmeta", "check", "\u00e9.json", "--format", "github"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"\\xe9.json" in done.stdout
