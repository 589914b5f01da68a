"""``specmeta schema``: write the JSON Schemas, or verify that they are up to date."""

from pathlib import Path
from typing import Annotated

import typer

_NAME = "specmeta schema"


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
    from specmeta._files import is_directory, shown_path
    from specmeta._text import printable

    folder = shown_path(directory)

    def tell(text: str) -> None:
        typer.echo(f"{_NAME}: {text}", err=True)

    try:
        if not check:
            changed = _schemas.write(directory)
            for name in changed:
                typer.echo(f"{folder}/{name}: written")
            if not changed:
                typer.echo(f"{folder}: up to date")
        elif not is_directory(directory):
            tell(f"{folder} is not a folder: run 'specmeta schema {folder}' first")
            raise typer.Exit(2)
        elif found := _schemas.differences(directory):
            for name, what in sorted(found.items()):
                remedy = "; remove it" if what in ("unknown", "not a regular file") else ""
                tell(f"{folder}/{printable(name)}: {what}{remedy}")
            if {*found.values()} != {"unknown"}:  # writing leaves unknown files where they are
                tell(f"run 'specmeta schema {folder}' and commit the result")
            raise typer.Exit(1)
        else:
            typer.echo(f"{folder}: up to date")
    except OSError as error:
        place = shown_path(error.filename or directory)
        tell(f"{place}: {error.strerror or error}")
        raise typer.Exit(2) from None
