"""``specmeta rules``: the registry of rules, as a table or as JSON."""

import sys
from typing import Annotated

import typer

from ._help import NO_VALUE

_HEADER = ("rule", "family", "severity", "overridable", "reports")


def rules(
    json_output: Annotated[
        bool, typer.Option("--json", metavar=NO_VALUE, help="Print one JSON array.")
    ] = False,
) -> None:
    """List every rule with its family, its severity and the public reports that it answers."""
    from specmeta._rules import RULES

    if json_output:
        import json

        content = [{**rule._asdict(), "reports": list(rule.reports)} for rule in RULES.values()]
        typer.echo(json.dumps(content, indent=2))
        return
    rows: list[tuple[str, ...]] = [
        (
            rule.name,
            rule.family,
            rule.severity,
            "yes" if rule.overridable else "no",
            ", ".join(rule.reports),
        )
        for rule in RULES.values()
    ]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*_HEADER)
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(_HEADER, *rows, strict=True)]
    for row in (_HEADER, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
