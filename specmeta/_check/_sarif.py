"""A report as SARIF 2.1.0, which code-scanning services read."""

import json
from pathlib import Path
from urllib.parse import quote

from .._findings import Finding
from .._rules import FAMILIES, RULES
from .._text import printable
from ._explain import Explanation, explanation
from ._options import file_of
from ._report import InputReport, Report
from ._text import STOPPED

# What holds of every bound and type of a field, also of one that has no text of its own.
_ANY = ("a field has a value of its type, inside its bounds", "correct the value as it says")
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_sarif(report: Report, version: str) -> str:
    """One run with the whole registry as its rules, and a result for each finding."""
    used = {found.rule for item in report.inputs for found in item.findings}
    names = [*RULES, *sorted(used - RULES.keys())]
    positions = {name: index for index, name in enumerate(names)}
    failures = [message for item in report.inputs for message in item.unreadable]
    failures += [f"{item.path}: {STOPPED}" for item in report.inputs if item.stopped]
    run = {
        "tool": {
            "driver": {
                "name": "specmeta",
                "semanticVersion": version,
                "rules": [_rule(name) for name in names],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not failures,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": printable(text)}} for text in failures
                ],
            }
        ],
        "results": [
            _result(item, found, positions[found.rule])
            for item in report.inputs
            for found in item.findings
        ],
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(name: str) -> dict[str, object]:
    """A reporting descriptor."""
    rule = explanation(name) or Explanation(name, None, *_ANY)
    links = [_url(report) for report in rule.reports]
    markdown = f"{rule.protects}.\n\nRemedy: {rule.remedy}."
    if links:
        cited = zip(rule.reports, links, strict=True)
        markdown += "\n\nPublic reports: " + ", ".join(f"[{name}]({url})" for name, url in cited)
    text = f"{rule.protects}. Remedy: {rule.remedy}."
    if rule.reports:
        text += f" Public reports: {', '.join(rule.reports)}."
    descriptor: dict[str, object] = {
        "id": name,
        "shortDescription": {"text": rule.protects},
        "help": {"text": text, "markdown": markdown},
        "defaultConfiguration": {"level": rule.severity},
    }
    if rule.family is not None:
        descriptor["properties"] = {"tags": [rule.family, FAMILIES[rule.family]]}
    if links:
        descriptor["helpUri"] = links[0]
    return descriptor


def _url(report: str) -> str:
    repository, _, number = report.partition("#")
    return f"https://github.com/{repository}/issues/{number}"


def _result(item: InputReport, found: Finding, position: int) -> dict[str, object]:
    place: dict[str, object] = {"artifactLocation": {"uri": _uri(file_of(found) or item.path)}}
    if found.line is not None:
        place["region"] = {"startLine": found.line}
    logical = {"fullyQualifiedName": found.field, "kind": "member"}
    result: dict[str, object] = {
        "ruleId": found.rule,
        "ruleIndex": position,
        "level": "warning" if found.severity == "warning" else "error",
        "message": {"text": found.message},
        "locations": [{"physicalLocation": place, "logicalLocations": [logical]}],
    }
    if found.severity == "overridden":
        result["suppressions"] = [{"kind": "inSource", "justification": found.reason}]
    return result


def _uri(path: str) -> str:
    place = Path(path)
    return place.as_uri() if place.is_absolute() else quote(place.as_posix())
