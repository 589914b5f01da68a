"""A report as workflow commands: GitHub shows each at its line of the changed file."""

from collections.abc import Iterator

from .._text import printable
from ._options import file_of
from ._report import Report
from ._text import STOPPED

_COMMANDS = {"error": "error", "warning": "warning", "overridden": "notice"}


def commands(report: Report) -> Iterator[str]:
    """One command a finding, and one for each input that could not be read, or not to its end."""
    for item in report.inputs:
        for message in item.unreadable:
            yield _command("error", message, title="unreadable")
        for found in item.findings:
            reason = "" if found.reason is None else f" (overridden: {found.reason})"
            file = file_of(found)
            yield _command(
                _COMMANDS[found.severity],
                found.message + reason,
                file=file,
                line=None if file is None else found.line,
                title=found.rule,
            )
        if item.stopped:
            yield _command("error", f"{item.path}: {STOPPED}", title="stopped")


def _command(name: str, message: str, **properties: object) -> str:
    given = ",".join(
        f"{key}={_property(str(value))}" for key, value in properties.items() if value is not None
    )
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    """Each line printable, and joined by the escape of a line break."""
    return "%0A".join(printable(line).replace("%", "%25") for line in text.split("\n"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
