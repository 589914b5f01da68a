"""Public fault reports as cases: reading a case file, writing what it describes, checking that.

The format is in docs/faults.md. `python tests/specmeta/fault_cases.py` rewrites the table there.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from specmeta import Deployment, InputError
from specmeta._cli import app
from specmeta._dialects import expected_tensors, read_drafter
from specmeta._factory import static_fields
from specmeta._files import read_document
from specmeta.testing import make_deployment

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("SPECMETA_FAULTS_DIR", ROOT / "tests" / "faults"))
CHECKPOINTS = ROOT / "tests" / "data" / "checkpoints"
PAGE = ROOT / "docs" / "faults.md"
BEGIN, END = "<!-- cases: begin -->", "<!-- cases: end -->"

_REQUIRED = {"reports", "symptom", "cause", "catch", "rule", "faulty", "corrected"}
_OPTIONAL = {"severity", "base", "checkpoint", "given", "also_valid"}
_PARTS = {"deployment", "files", "weights", "stated", "steps"}


@dataclass(frozen=True)
class Case:
    """One case file."""

    name: str
    reports: tuple[str, ...]
    symptom: str
    cause: str
    catch: str
    rule: str
    severity: str
    base: str | None
    checkpoint: str | None
    given: dict[str, Any]
    faulty: dict[str, Any]
    corrected: dict[str, Any]
    also_valid: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Outcome:
    """What `specmeta check --json` says of one form of a case."""

    exit_code: int
    text: str
    found: frozenset[tuple[str, str]]
    """Rule and severity of each finding."""

    def rules(self, severity: str) -> set[str]:
        return {rule for rule, level in self.found if level == severity}


def read_case(path: Path) -> Case:
    """The case in a file. Raises `InputError` where it is not in the documented format."""
    data = read_document(path).data
    if not isinstance(data, dict):
        raise InputError(f"{path}: a case is an object; see docs/faults.md")
    wrong = sorted((_REQUIRED - data.keys()) | (data.keys() - _REQUIRED - _OPTIONAL))
    if wrong or ("base" in data) == ("checkpoint" in data):
        raise InputError(f"{path}: {wrong or 'base and checkpoint'}: see docs/faults.md")
    for twin in (data.get("given", {}), data["faulty"], data["corrected"]):
        if not isinstance(twin, dict) or twin.keys() - _PARTS:
            raise InputError(f"{path}: a twin has only {sorted(_PARTS)}: see docs/faults.md")
    return Case(
        name=path.stem,
        reports=tuple(data["reports"]),
        symptom=data["symptom"],
        cause=data["cause"],
        catch=data["catch"],
        rule=data["rule"],
        severity=data.get("severity", "error"),
        base=data.get("base"),
        checkpoint=data.get("checkpoint"),
        given=data.get("given", {}),
        faulty=data["faulty"],
        corrected=data["corrected"],
        also_valid=tuple(data.get("also_valid", ())),
    )


def cases(folder: Path = FOLDER) -> list[Case]:
    """Every case of a folder, by name."""
    return [read_case(path) for path in sorted(folder.glob("*.yaml"))]


def merged(base: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396), but null stays a value: configurations use it."""
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return patch
    return {**base, **{key: merged(base.get(key), value) for key, value in patch.items()}}


def check(case: Case, twin: dict[str, Any], folder: Path) -> Outcome:
    """Write one form of a case to a folder and check it as a user would."""
    folder.mkdir(parents=True)
    form = merged(case.given, twin)
    deployment = _deployment(case, form, folder)
    arguments = [str(folder)]
    if deployment is not None:
        path = folder / "deployment.json"
        path.write_text(json.dumps(deployment))
        arguments = [str(path)]
        if "steps" in form:
            steps = folder / "steps.jsonl"
            steps.write_text("".join(f"{json.dumps(row)}\n" for row in _steps(form, deployment)))
            arguments = [str(steps), "--deployment", str(path)]
    for fact, value in form.get("stated", {}).items():
        arguments += ["--state", f"{fact}={value}"]
    result = CliRunner().invoke(app, ["check", *arguments, "--json"], catch_exceptions=False)
    found: set[tuple[str, str]] = set()
    if result.exit_code != 2:
        report = json.loads(result.stdout)
        for item in report["inputs"]:
            found |= {(f["rule"], f["severity"]) for f in item["findings"]}
    return Outcome(result.exit_code, result.output, frozenset(found))


def _deployment(case: Case, form: dict[str, Any], folder: Path) -> dict[str, Any] | None:
    """The deployment that the form describes; None where it is a pair of checkpoints alone."""
    if case.checkpoint is not None:
        _write_checkpoint(case.checkpoint, form, folder)
        if "deployment" not in form:
            return None
        drafter = "drafter" if (folder / "drafter").is_dir() else "bundled"
        return dict(merged({"target": "target", "drafter": drafter}, form["deployment"]))
    base = make_deployment(case.base).model_dump(mode="json")  # type: ignore[arg-type]
    return dict(merged(base, form.get("deployment", {})))


def _write_checkpoint(name: str, form: dict[str, Any], folder: Path) -> None:
    """A published configuration with the form's changes, and its tensors where it changes any."""
    source = CHECKPOINTS / name
    for config in source.glob("*/config.json"):
        relative = config.relative_to(source)
        content = json.loads(config.read_text())
        content = merged(content, form.get("files", {}).get(str(relative), {}))
        (folder / relative).parent.mkdir()
        (folder / relative).write_text(json.dumps(content, indent=1))
    if "weights" in form:
        shapes = dict(expected_shapes(source))
        for tensor, shape in form["weights"].items():
            if shape is None:
                shapes.pop(tensor, None)
            else:
                shapes[tensor] = tuple(shape)
        write_header(folder / "drafter" / "model.safetensors", shapes)


def expected_shapes(source: Path) -> dict[str, tuple[int, ...]]:
    """Every tensor that the published drafter of a folder has; an extent that its file does not
    state is 1.
    """
    reading = read_drafter(read_document(source / "drafter" / "config.json"))
    return {
        name: tuple(1 if extent is None else extent for extent in shape)
        for name, shape in expected_tensors(reading).items()
    }


def write_header(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """A safetensors file of these shapes, its data a hole: nothing reads it."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes.items():
        size = 2
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def _steps(form: dict[str, Any], deployment: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows as full metadata: the static part is the deployment's unless a row states it."""
    built = Deployment.model_validate_json(json.dumps(deployment))
    static = {"decoding_type": built.decoding_type, **static_fields(built)}
    return [{**static, **row} for row in form["steps"]]


def table(found: list[Case]) -> str:
    """The table of docs/faults.md."""
    lines = ["| reports | symptom | rule | caught |", "|---|---|---|---|"]
    for case in found:
        caught = "warning" if case.severity == "warning" else "refused"
        when = "before a step" if case.catch == "step" else "at load"
        reports = ", ".join(case.reports)
        lines.append(f"| {reports} | {case.symptom} | `{case.rule}` | {caught} {when} |")
    return "\n".join(lines)


def page_with(text: str, content: str) -> str:
    """The page with another table between its marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{content}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(), table(cases())))
