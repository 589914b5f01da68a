"""A report as workflow commands: GitHub shows each at its line of the changed file."""

from collections.abc import Iterator

from ._options import file_of
from ._report import Report

_COMMANDS = {"error": "error", "warning": "warning", "overridden": "notice"}


def commands(report: Report) -> Iterator[str]:
    """One command a finding, and one for each input that could not be read."""
    for item in report.inputs:
        for message in item.unreadable:
            yield f"::error title=unreadable::{_data(message)}"
        for found in item.findings:
            properties = {"file": file_of(found), "line": found.line, "title": found.rule}
            given = ",".join(
                f"{name}={_property(str(value))}"
                for name, value in properties.items()
                if value is not None
            )
            reason = "" if found.reason is None else f" (overridden: {found.reason})"
            yield f"::{_COMMANDS[found.severity]} {given}::{_data(found.message + reason)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
