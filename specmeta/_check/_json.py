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
    """One object, as docs/check.md describes it, indented."""
    content = {
        "version": VERSION,
        "inputs": [_input(item) for item in report.inputs],
        "errors": report.count("error"),
        "warnings": report.count("warning"),
        "unreadable": report.unreadable,
    }
    return json.dumps(content, indent=2)


def _input(item: InputReport) -> dict[str, object]:
    memory, slots = item.memory, item.slots
    sizes = None
    if memory is not None:
        sizes = {**memory._asdict(), "total": memory.total, "not_stated": item.not_stated}
    return {
        "path": item.path,
        "kind": item.kind,
        "dialect": item.dialect,
        "notes": item.notes,
        "unreadable": item.unreadable,
        "findings": [_finding(found) for found in item.findings],
        "stopped": item.stopped,
        "memory": sizes,
        "slots": None if slots is None else slots._asdict(),
    }


def _finding(found: Finding) -> dict[str, object]:
    return {**{name: getattr(found, name) for name in _FIELDS}, "message": found.message}
