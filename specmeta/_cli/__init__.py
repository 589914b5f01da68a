"""The ``specmeta`` command. Sub-commands that need torch import it when they run."""

from importlib import import_module
from typing import Annotated

import typer

from . import bench, check, convert, rules, schema
from ._help import NO_VALUE, Command, Group
from ._streams import run

app = typer.Typer(
    name="specmeta",
    cls=Group,
    help="Contracts for speculative decoding: schemas, checks and measurements.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(name="check", cls=Command)(check.check)
app.command(name="convert", cls=Command)(convert.convert)
app.command(name="rules", cls=Command)(rules.rules)
app.command(name="schema", cls=Command)(schema.schema)
app.add_typer(bench.app, name="bench")


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", metavar=NO_VALUE)
    ] = False,
) -> None:
    """Keep sub-commands even where there is one, and answer ``--version``."""
    if version:
        typer.echo(f"specmeta {import_module('specmeta').__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point of the ``specmeta`` command: exit 0 valid, 1 findings, 2 usage or unreadable."""
    run(lambda: app(prog_name="specmeta"))
