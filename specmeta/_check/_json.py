"""A report as one JSON object."""

import json

from .._findings import Finding
from ._report import InputReport, Report

VERSION = 1
_FIELDS = (
    "rule", "severity", "field", "index", "value", "fact", "remedy", "reports", "file", "line",
    "reason",
)  # fmt: skip


def as_json(report: Report) -> str:
    """``{"version": 1, "inputs": [...], "errors": n, "warnings": n}``, indented."""
    content = {
        "version": VERSION,
        "inputs": [_input(item) for item in report.inputs],
        "errors": report.count("error"),
        "warnings": report.count("warning"),
    }
    return json.dumps(content, indent=2)


def _input(item: InputReport) -> dict[str, object]:
    memory, slots = item.memory, item.slots
    return {
        "path": item.path,
        "kind": item.kind,
        "dialect": item.dialect,
        "notes": item.notes,
        "unreadable": item.unreadable,
        "findings": [_finding(found) for found in item.findings],
        "memory": None if memory is None else {**memory._asdict(), "total": memory.total},
        "slots": None if slots is None else slots._asdict(),
    }


def _finding(found: Finding) -> dict[str, object]:
    return {**{name: getattr(found, name) for name in _FIELDS}, "message": found.message}
