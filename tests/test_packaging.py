"""The distribution: what the wheel holds, and that it works where there is no checkout.

The wheel is built from the unpacked sdist, and installed in a virtual environment whose other
packages are those of the running one. They are reached through a `.pth` line, and the `.pth` files
of the folder that it names are not processed, so the editable install of this checkout stays out
of reach.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUNDLED = ROOT / "workers" / "specmeta_workers" / "bundled"


def run(*command: str | Path, cwd: Path) -> str:
    """Run without a trace of the checkout in the environment; stdout and stderr."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "MYPYPATH", "COVERAGE_PROCESS_START"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def build(kind: str, source: Path, into: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", into, cwd=source)
    (built,) = into.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that holds the wheel."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment.parent)
    python = environment / "bin" / "python"
    (site_packages,) = environment.glob("lib/python*/site-packages")
    dependencies = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site_packages / "dependencies.pth").write_text("\n".join(sorted(dependencies)) + "\n")
    run(
        *(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"),
        *("install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", wheel),
        cwd=environment.parent,
    )
    return python.parent


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_exactly_the_two_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {
        "specmeta",
        "specmeta_workers",
    }
    assert len(top) == 3
    assert {"specmeta/py.typed", "specmeta_workers/py.typed"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_the_wheel_holds_every_bundled_file(wheel: Path) -> None:
    files = [path for path in BUNDLED.rglob("*") if path.is_file()]
    shipped = {
        path.relative_to(BUNDLED.parents[1]).as_posix()
        for path in files
        if "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        assert shipped <= set(archive.namelist())
    assert shipped


def test_the_sdist_holds_what_rebuilds_and_tests_it(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {
        "pyproject.toml",
        "constraints.txt",
        "mypy.ini",
        "Makefile",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "specmeta/py.typed",
        "workers/specmeta_workers/py.typed",
        "tests/test_packaging.py",
    } <= names
    for folder in ("schemas", "training", "benchmarks", "docs"):
        for path in (ROOT / folder).glob("*.*"):
            assert path.relative_to(ROOT).as_posix() in names
    assert not [name for name in names if name.startswith("training/cache")]


def test_the_core_needs_no_torch_and_the_extra_does(wheel: Path) -> None:
    requirements = metadata_of(wheel).get_all("Requires-Dist", [])
    core = {line.split(">")[0] for line in requirements if "extra ==" not in line}
    assert core == {"pydantic", "pyyaml", "rich", "typer", "typing-extensions"}
    workers = {line.split(">")[0] for line in requirements if "extra == 'workers'" in line}
    assert workers == {"attrs", "safetensors", "tokenizers", "torch", "transformers"}


def test_both_packages_work_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    program = """
import sys, specmeta, specmeta_workers
from specmeta.testing import make_deployment, make_dspark_metadata
print(specmeta.__file__, specmeta_workers.__file__)
metadata = make_dspark_metadata(make_deployment(num_seq_slots=4, max_num_requests=1))
assert metadata.scratch_slot == 4
assert metadata.create_cuda_graph_metadata(1).num_seq_slots == 4
assert specmeta.DSparkSpecMetadata.model_validate_json(metadata.model_dump_json()) == metadata
"""
    specmeta_at, workers_at = run(installed / "python", "-c", program, cwd=tmp_path).split()
    for path in (specmeta_at, workers_at):
        assert Path(path).is_relative_to(installed.parent)
        assert not Path(path).is_relative_to(ROOT)


def test_the_installed_command_writes_the_checked_in_schemas(
    installed: Path, tmp_path: Path
) -> None:
    run(installed / "specmeta", "schema", tmp_path / "schemas", cwd=tmp_path)
    written = {path.name: path.read_text() for path in (tmp_path / "schemas").iterdir()}
    kept = {path.name: path.read_text() for path in (ROOT / "schemas").iterdir()}
    assert written == kept
    assert written


def test_the_installed_command_offers_the_benchmark(installed: Path, tmp_path: Path) -> None:
    assert "--fault" in run(
        *(installed / "specmeta", "bench", "accept-length", "--help"), cwd=tmp_path
    )


def test_the_bundled_pair_loads_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    program = """
from specmeta_workers import load_bundled
pair = load_bundled(decoding_type="DSpark")
print(type(pair.deployment).__name__, len(pair.prompts) > 0)
"""
    assert run(installed / "python", "-c", program, cwd=tmp_path).split() == ["Deployment", "True"]


def test_a_user_without_the_plugin_gets_the_same_type_errors(
    installed: Path, tmp_path: Path
) -> None:
    consumer = tmp_path / "consumer.py"
    consumer.write_text("""
from specmeta import Deployment, DSparkSpecMetadata, SeqSlot, get_spec_metadata

def build(deployment: Deployment, slot: SeqSlot) -> None:
    get_spec_metadata(deployment, num_contexts=0, seq_lens=(8,), context_positions=())
    metadata = get_spec_metadata(
        deployment, request_ids=(slot,), num_contexts=0, seq_lens=(8,), context_positions=()
    )
    assert isinstance(metadata, DSparkSpecMetadata)
    metadata.num_seq_slots = 1
""")
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull),
            *("--python-executable", str(installed / "python"), "--no-error-summary"),
            *("--cache-dir", str(tmp_path / "cache"), str(consumer)),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]
    assert [int(line.split(":")[1]) for line in errors] == [5, 7, 10], checked.stdout


def test_every_public_symbol_of_specmeta_has_a_known_type(installed: Path, tmp_path: Path) -> None:
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson"),
            *("--verifytypes", "specmeta", "--ignoreexternal"),
        ],
        cwd=tmp_path,
        # With --verifytypes pyright takes the first python of PATH, whatever --pythonpath says.
        env={**os.environ, "PATH": f"{installed}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(checked.stdout)["typeCompleteness"]
    unknown = [s["name"] for s in report["symbols"] if s["isExported"] and not s["isTypeKnown"]]
    assert report["pyTypedPath"]
    assert unknown == []
    assert report["completenessScore"] == 1
