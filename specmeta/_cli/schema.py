"""``specmeta schema``: write the JSON Schemas, or verify that they are up to date."""

from pathlib import Path
from typing import Annotated

import typer


def schema(
    directory: Annotated[
        Path, typer.Argument(help="Folder of the schemas.", file_okay=False)
    ] = Path("schemas"),
    check: Annotated[
        bool,
        typer.Option(
            "--check", metavar="", help="Write nothing; exit 1 where a schema is out of date."
        ),
    ] = False,
) -> None:
    """Write the JSON Schema of every public model to DIRECTORY, or verify it with --check."""
    from specmeta import _schemas  # only here: every other command starts without it

    try:
        if not check:
            changed = _schemas.write(directory)
            for name in changed:
                typer.echo(f"{directory / name}: written")
            if not changed:
                typer.echo(f"{directory}: up to date")
        elif not directory.is_dir():
            typer.echo(
                f"{directory} is not a folder: run 'specmeta schema {directory}' first", err=True
            )
            raise typer.Exit(2)
        elif found := _schemas.differences(directory):
            for name, what in sorted(found.items()):
                remedy = "; remove it" if what == "unknown" else ""
                typer.echo(f"{directory / name}: {what}{remedy}", err=True)
            if {*found.values()} != {"unknown"}:  # writing leaves unknown files where they are
                typer.echo(f"run 'specmeta schema {directory}' and commit the result", err=True)
            raise typer.Exit(1)
        else:
            typer.echo(f"{directory}: up to date")
    except OSError as error:
        typer.echo(f"{error.filename or directory}: {error.strerror or error}", err=True)
        raise typer.Exit(2) from None
