"""A report in colour."""

from rich.console import Console
from rich.text import Text

from ._report import Report
from ._text import Style, lines

_STYLES: dict[Style, str] = {
    "error": "red",
    "warning": "yellow",
    "overridden": "cyan",
    "title": "bold",
    "plain": "dim",
}


def show(report: Report) -> None:
    """Print the lines of a report, each in the colour of what it says."""
    console = Console(highlight=False)
    for line in lines(report):
        console.print(Text(line.text, style=_STYLES[line.style]), soft_wrap=True)
