"""The ``specmeta`` command. Sub-commands that need torch are imported when they are called."""

from importlib import import_module
from typing import Annotated

import typer

from . import schema

app = typer.Typer(
    name="specmeta",
    help="Contracts for speculative decoding: schemas, checks and measurements.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(name="schema")(schema.schema)

_EXTRA = ("torch", "attr", "attrs", "safetensors", "transformers", "tokenizers", "specmeta_workers")


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Keep sub-commands even where there is one, and answer ``--version``."""
    if version:
        typer.echo(f"specmeta {import_module('specmeta').__version__}")
        raise typer.Exit


@app.command(
    name="bench",
    help="Measure accept length and speed on a real pair (needs specmeta\\[workers]).",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(context: typer.Context) -> None:
    """Hand over to the sub-application, which imports torch."""
    try:
        application = import_module("specmeta._cli.bench").app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        message = f'specmeta bench needs {missing}: pip install "specmeta[workers]"'
        typer.echo(message, err=True)
        raise typer.Exit(2) from None
    command = typer.main.get_group(application)
    command.main(args=context.args, prog_name="specmeta bench")


def main() -> None:
    """Entry point of the ``specmeta`` command: exit 0 valid, 1 findings, 2 usage or unreadable."""
    app(prog_name="specmeta")
