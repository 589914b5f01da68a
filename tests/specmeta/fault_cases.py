"""Public fault reports as cases: reading a case file, and the table of docs/faults.md.

The format is in docs/faults.md. `python tests/specmeta/fault_cases.py` rewrites the table there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specmeta import EngineConfig, InputError
from specmeta._files import Document, read_document
from specmeta._rules import RULES

ROOT = Path(__file__).parents[2]
OURS = ROOT / "tests" / "faults"
FOLDER = Path(os.environ.get("SPECMETA_FAULTS_DIR", OURS))
CHECKPOINTS = ROOT / "tests" / "data" / "checkpoints"
PAGE = ROOT / "docs" / "faults.md"
BEGIN, END = "<!-- cases: begin -->", "<!-- cases: end -->"
REPORT = re.compile(r"[\w.-]+/[\w.-]+#[0-9]+")
"""How a public report is cited."""

_REQUIRED = ("reports", "symptom", "cause", "rule", "corrected")
_OPTIONAL = ("severity", "base", "checkpoint", "given", "faulty", "also_valid", "not_expressed")
_FORM = ("deployment", "files", "weights", "stated", "steps")
_BASES = ("DSpark", "DFlash", "MTP")
_CHOSEN = [name for name, field in EngineConfig.model_fields.items() if not field.is_required()]

Form = dict[str, Any]
"""One form of a case: a whole, or changes to another."""


@dataclass(frozen=True)
class Case:
    """One case file."""

    name: str
    reports: tuple[str, ...]
    symptom: str
    cause: str
    rule: str
    severity: str
    base: str | None
    checkpoint: str | None
    faulty: Form | None
    """The whole of the form with the fault; None where the report's own form is valid."""
    valid: tuple[Form, ...]
    """The whole of each form that must pass, the corrected one first."""
    not_expressed: str
    """What of the report the case does not show; empty where it shows all."""

    @property
    def steps(self) -> bool:
        return any("steps" in form for form in (self.faulty or {}, *self.valid))


def read_case(path: Path) -> Case:
    """The case in a file. Raises `InputError` where it is not in the documented format."""
    document = read_document(path)
    data = document.data
    if not isinstance(data, dict):
        raise _wrong(document, (), "a case is an object")
    _check_keys(document, (), data, (*_REQUIRED, *_OPTIONAL), _REQUIRED)
    forms = {key: data[key] for key in ("given", "faulty", "corrected") if key in data}
    also = data.get("also_valid", [])
    if not isinstance(also, list):
        raise _wrong(document, ("also_valid",), "also_valid is a list of forms")
    for place, form in (
        *forms.items(),
        *((("also_valid", at), form) for at, form in enumerate(also)),
    ):
        where = place if isinstance(place, tuple) else (place,)
        if not isinstance(form, dict):
            raise _wrong(document, where, f"{where[0]} is an object with {', '.join(_FORM)}")
        _check_keys(document, where, form, _FORM)
    _check_values(document, data)
    given = data.get("given", {})
    return Case(
        name=path.stem,
        reports=tuple(data["reports"]),
        symptom=data["symptom"],
        cause=data["cause"],
        rule=data["rule"],
        severity=data.get("severity", "error"),
        base=data.get("base"),
        checkpoint=data.get("checkpoint"),
        faulty=merged(given, data["faulty"]) if "faulty" in data else None,
        valid=tuple(merged(given, form) for form in (data["corrected"], *also)),
        not_expressed=data.get("not_expressed", ""),
    )


def _check_keys(
    document: Document,
    path: tuple[str | int, ...],
    data: Mapping[str, object],
    known: Iterable[str],
    required: Iterable[str] = (),
) -> None:
    for key in data:
        if key not in known:
            raise _wrong(document, (*path, key), f"{key!r} is no key here: {', '.join(known)}")
    for key in required:
        if key not in data:
            raise _wrong(document, path, f"{key!r} is required and was not given")


def _check_values(document: Document, data: Mapping[str, Any]) -> None:
    reports = data["reports"]
    if not (isinstance(reports, list) and reports):
        raise _wrong(document, ("reports",), "reports is a list of owner/repository#number")
    for at, report in enumerate(reports):
        if not (isinstance(report, str) and REPORT.fullmatch(report)):
            raise _wrong(document, ("reports", at), f"{report!r} is not owner/repository#number")
    for key in ("symptom", "cause", "not_expressed"):
        if not isinstance(data.get(key, ""), str):
            raise _wrong(document, (key,), f"{key} is a text")
    choices: dict[str, Iterable[str]] = {
        "rule": RULES,
        "severity": ("error", "warning"),
        "base": _BASES,
        "checkpoint": sorted(path.name for path in CHECKPOINTS.iterdir() if path.is_dir()),
    }
    for key, values in choices.items():
        if key in data and data[key] not in values:
            known = "`specmeta rules` lists them" if key == "rule" else ", ".join(values)
            raise _wrong(document, (key,), f"{data[key]!r} is no {key}: {known}")
    if ("base" in data) == ("checkpoint" in data):
        raise _wrong(document, (), "give one of base and checkpoint")


def _wrong(document: Document, path: tuple[str | int, ...], fact: str) -> InputError:
    return InputError(f"{document.name}:{document.line_of(path)}: {fact}; see docs/faults.md")


def cases(folder: Path = FOLDER) -> list[Case]:
    """Every case of a folder, by name."""
    found = [read_case(path) for path in sorted(folder.glob("*.yaml"))]
    if not found:
        raise InputError(f"{folder}: holds no case, a file named *.yaml; see docs/faults.md")
    return found


def merged(base: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396), but null stays a value: configurations use it."""
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return patch
    return {**base, **{key: merged(base.get(key), value) for key, value in patch.items()}}


def needs(case: Case) -> dict[str, tuple[str, ...]]:
    """What has to be given beside the required fields for the fault to be found: how the page names
    it, and where in a form it is.
    """
    form = case.faulty or {}
    deployment = form.get("deployment", {})
    engine = deployment.get("engine", {})
    found: dict[str, tuple[str, ...]] = {
        f"`engine.{name}`": ("deployment", "engine", name)
        for name in _CHOSEN
        if name in engine and engine[name] not in (False, [])
    }
    if "compiled_for" in deployment:
        found["`compiled_for`"] = ("deployment", "compiled_for")
    for engine_name in deployment.get("arguments", {}):
        found[f"arguments of {engine_name}"] = ("deployment", "arguments")
    for fact in form.get("stated", {}):
        found[f"`--state {fact}`"] = ("stated", fact)
    if form.get("weights"):
        found["headers of the weights"] = ("weights",)
    if "steps" in form:
        found["recorded steps"] = ("steps",)
    return found


def table(found: Iterable[Case]) -> str:
    """The table of docs/faults.md: one row for all cases of the same reports."""
    rows: dict[tuple[str, ...], list[Case]] = {}
    for case in found:
        rows.setdefault(case.reports, []).append(case)
    lines = ["| reports | symptom | rule | caught | needs | not expressed |", f"|{'---|' * 6}"]
    for reports, same in rows.items():
        cells = [
            ", ".join(reports),
            _each(case.symptom for case in same),
            _each(f"`{case.rule}`" for case in same),
            _each(_caught(case) for case in same),
            _each(", ".join(needs(case)) for case in same),
            _each(case.not_expressed for case in same),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _caught(case: Case) -> str:
    if case.faulty is None:
        return "accepted: an engine refused what is valid"
    caught = "warning" if case.severity == "warning" else "refused"
    return f"{caught} {'before a step' if case.steps else 'at load'}"


def _each(texts: Iterable[str]) -> str:
    """One text for all cases of a row, or one each."""
    shown = [text or "–" for text in texts]
    return shown[0] if len({*shown}) == 1 else "; ".join(shown)


def page_with(text: str, content: str) -> str:
    """The page with another table between its marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{content}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(), table(cases(OURS))))
