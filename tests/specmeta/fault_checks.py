"""Writing what a case describes, and checking it as a user would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from specmeta import Deployment
from specmeta._cli import app
from specmeta._dialects import expected_tensors, read_drafter
from specmeta._factory import static_fields
from specmeta._files import read_document
from specmeta.testing import make_deployment

from .fault_cases import CHECKPOINTS, Case, Form, merged

_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "I64": 8}


@dataclass(frozen=True)
class Outcome:
    """What `specmeta check --json` says of one form of a case."""

    exit_code: int
    text: str
    found: frozenset[tuple[str, str]]
    """Rule and severity of each finding."""

    def rules(self, severity: str) -> set[str]:
        return {rule for rule, level in self.found if level == severity}


def check(case: Case, form: Form, folder: Path) -> Outcome:
    """Write one form of a case to a folder and check it."""
    folder.mkdir(parents=True)
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


def _deployment(case: Case, form: Form, folder: Path) -> Form | None:
    """The deployment that the form describes; None where it is a pair of checkpoints alone."""
    if case.checkpoint is not None:
        _write_checkpoint(case.checkpoint, form, folder)
        if "deployment" not in form:
            return None
        drafter = "drafter" if (folder / "drafter").is_dir() else "bundled"
        return dict(merged({"target": "target", "drafter": drafter}, form["deployment"]))
    base = make_deployment(case.base).model_dump(mode="json")  # type: ignore[arg-type]
    return dict(merged(base, form.get("deployment", {})))


def _write_checkpoint(name: str, form: Form, folder: Path) -> None:
    """A published configuration with the form's changes, and its tensors where it changes any."""
    source = CHECKPOINTS / name
    for config in source.glob("*/config.json"):
        relative = config.relative_to(source)
        content = json.loads(config.read_text())
        content = merged(content, form.get("files", {}).get(str(relative), {}))
        (folder / relative).parent.mkdir()
        (folder / relative).write_text(json.dumps(content, indent=1))
    if "weights" in form:
        shapes, types = expected_shapes(folder / "drafter"), {"d2t": "I64"}
        for tensor, stated in form["weights"].items():
            if stated is None:
                shapes.pop(tensor, None)
            elif isinstance(stated[0], str):
                types[tensor], shapes[tensor] = stated[0], tuple(stated[1:])
            else:
                shapes[tensor] = tuple(stated)
        write_header(folder / "drafter" / "model.safetensors", shapes, types)


def expected_shapes(drafter: Path) -> dict[str, tuple[int, ...]]:
    """Every tensor of a drafter of this configuration; an extent that it does not state is 1."""
    reading = read_drafter(read_document(drafter / "config.json"))
    return {
        name: tuple(1 if extent is None else extent for extent in shape)
        for name, shape in expected_tensors(reading).items()
    }


def write_header(path: Path, shapes: dict[str, tuple[int, ...]], types: Mapping[str, str]) -> None:
    """A safetensors file of these shapes, BF16 where `types` has no other; its data is a hole."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes.items():
        kind = types.get(name, "BF16")
        size = _BYTES[kind]
        for extent in shape:
            size *= extent
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def _steps(form: Form, deployment: Form) -> list[Form]:
    """The rows as full metadata: the static part is the deployment's unless a row states it."""
    built = Deployment.model_validate_json(json.dumps(deployment))
    static = {"decoding_type": built.decoding_type, **static_fields(built)}
    return [{**static, **row} for row in form["steps"]]
