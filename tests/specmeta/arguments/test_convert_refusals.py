"""What ``specmeta convert`` does not convert."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.specmeta.arguments.test_convert import COMMAND, DEPLOYMENT, SGLANG, convert


@pytest.mark.parametrize(
    ("text", "options", "code", "message"),
    [
        (COMMAND.replace("--dtype bfloat16", ""), (), 1, "error: {file}:1: dtype: is not given"),
        ("dtype: float16\n", (), 2, "{file}: is no deployment file, and no arguments that are cl"),
        ("max-num-seqs: 1\n", ("--from", "sglang"), 1, "error: {file}:1: speculative-algorithm: "),
        ("max-num-seqs: [\n", (), 2, "{file}:1: is not valid YAML ("),
        ("- 1\n", ("--from", "vllm"), 2, "{file}: a list of 1 holds no arguments of vLLM"),
        (COMMAND, ("--as", "flags"), 2, "--as flags: tensorrt-llm has no flags for speculation"),
        (COMMAND, ("--target", "/nowhere"), 2, "/nowhere: cannot be read"),
        (COMMAND, ("--state", "block_size"), 2, "--state 'block_size' is not FACT=VALUE"),
        (DEPLOYMENT, ("--target", "x"), 2, "{file}: a deployment file names its target and draft"),
        (DEPLOYMENT, (), 1, "error: {file}:"),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_is_refused(
    tmp_path: Path, text: str, options: tuple[str, ...], code: int, message: str
) -> None:
    file = tmp_path / "input"
    file.write_text(text)
    done = convert("--to", "tensorrt-llm", *options, file)
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith("specmeta convert: " + message.format(file=file))


def test_arguments_without_a_target_make_no_deployment_file() -> None:
    done = convert("--to", "specmeta", "-", text=SGLANG.removeprefix("model-path: Qwen/Qwen3-8B\n"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "specmeta convert: the arguments name no target; give its directory with --target\n"
    )


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    done = convert("--to", "vllm", tmp_path / "none.yaml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"specmeta convert: {tmp_path / 'none.yaml'}: cannot be read (No such file or directory); "
        "check the path and its permissions\n"
    )


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    command = tmp_path / "run.sh"
    command.write_text(COMMAND)
    script = Path(sysconfig.get_path("scripts")) / "specmeta"
    with subprocess.Popen(
        [script, "convert", "--to", "vllm", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.stderr is not None
        stderr = running.stderr.read()
    assert "Traceback" not in stderr
    assert running.returncode == 141


@pytest.mark.parametrize(
    ("streams", "code", "message"),
    [
        (">/dev/full", 2, "specmeta: standard output cannot be written"),
        (">&-", 2, "specmeta: standard output is closed"),
        ("2>/dev/full", 0, ""),
        ("2>&-", 0, ""),
        ("<&-", 2, "specmeta convert: <stdin>: is closed; pipe the arguments, or pass a file\n"),
    ],
)
def test_closed_and_full_streams_are_no_traceback(
    tmp_path: Path, streams: str, code: int, message: str
) -> None:
    file = "-" if streams == "<&-" else tmp_path / "run.sh"
    (tmp_path / "run.sh").write_text(COMMAND)
    script = Path(sysconfig.get_path("scripts")) / "specmeta"
    command = f"'{script}' convert --to vllm '{file}' {streams}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert message in done.stderr
    assert done.stdout.startswith("model: ") == (code == 0)
