"""The `specmeta` command: exit codes, messages, and no traceback."""

import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

import specmeta
from specmeta._cli import app
from specmeta._schemas import generate

ROOT = Path(__file__).parents[2]
runner = CliRunner()


def run(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result.exit_code, result.output


def test_schema_writes_then_verifies(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "schemas"
    code, text = run("schema", str(folder))
    assert code == 0
    assert "DSparkSpecMetadata.json: written" in text
    assert {path.stem for path in folder.iterdir()} == set(generate())
    assert run("schema", "--check", str(folder)) == (0, f"{folder}: up to date\n")
    assert run("schema", str(folder)) == (0, f"{folder}: up to date\n")


def test_check_names_what_is_out_of_date_missing_or_unknown(tmp_path: Path) -> None:
    run("schema", str(tmp_path))
    (tmp_path / "TargetConfig.json").write_bytes(b"\xff{}")
    (tmp_path / "EngineConfig.json").unlink()
    (tmp_path / "Other.json").write_text("{}")
    code, text = run("schema", "--check", str(tmp_path))
    assert code == 1
    assert "TargetConfig.json: out of date" in text
    assert "EngineConfig.json: missing" in text
    assert "Other.json: unknown" in text
    assert f"run 'specmeta schema {tmp_path}'" in text
    run("schema", str(tmp_path))
    assert (tmp_path / "Other.json").read_text() == "{}"
    other = tmp_path / "Other.json"
    assert run("schema", "--check", str(tmp_path)) == (
        1,
        f"specmeta schema: {other}: unknown; remove it\n",
    )
    (tmp_path / "Other.json").unlink()
    assert run("schema", "--check", str(tmp_path))[0] == 0


def test_check_reads_no_more_of_a_schema_than_it_should_hold(tmp_path: Path) -> None:
    run("schema", str(tmp_path))
    (tmp_path / "TargetConfig.json").unlink()
    (tmp_path / "TargetConfig.json").mkdir()
    with (tmp_path / "EngineConfig.json").open("ab") as file:
        file.truncate(2**40)  # sparse, and more than fits into memory
    code, text = run("schema", "--check", str(tmp_path))
    assert code == 1
    assert "TargetConfig.json: not a regular file; remove it" in text
    assert "EngineConfig.json: out of date" in text


def test_check_shows_a_folder_without_what_a_terminal_acts_on() -> None:
    code, text = run("schema", "--check", "x\x1b[31m\u202ey")
    folder = "x\\x1b[31m\\u202ey"
    told = f"{folder} is not a folder: run 'specmeta schema {folder}' first"
    assert (code, text) == (2, f"specmeta schema: {told}\n")


def test_unreadable_input_is_a_message_and_exit_two(tmp_path: Path) -> None:
    code, text = run("schema", "--check", str(tmp_path / "absent"))
    assert code == 2
    assert "is not a folder" in text
    (tmp_path / "file").write_text("")
    assert run("schema", str(tmp_path / "file"))[0] == 2
    assert run("schema", str(tmp_path / "file" / "below"))[0] == 2
    assert run("schema", "--unknown")[0] == 2
    assert run("unknown")[0] == 2


def test_help_and_version() -> None:
    assert run("--version") == (0, f"specmeta {specmeta.__version__}\n")
    code, text = run("--help")
    assert code == 0
    assert "schema" in text
    assert "bench" in text


def test_bench_without_the_extra_names_the_extra() -> None:
    code = (
        "import sys\nsys.modules['torch'] = None\nfrom specmeta._cli import app\napp(sys.argv[1:])"
    )

    def without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, "bench", "accept-length", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    done = without_torch()
    assert done.returncode == 2
    assert done.stderr == (
        "specmeta bench accept-length: specmeta_workers needs torch: "
        'pip install "specmeta[workers]"\n'
    )
    described = without_torch("--help")
    assert described.returncode == 0
    assert "--draft-len" in described.stdout


def test_the_command_needs_no_torch_to_start() -> None:
    code = (
        "import sys\nfrom specmeta._cli import app\n"
        "print([n for n in ('torch', 'transformers', 'specmeta_workers') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_module_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "specmeta", "schema", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "schemas: up to date\n"), done.stderr
