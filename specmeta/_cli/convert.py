"""``specmeta convert``: the arguments of one engine as those of another.

What it runs is imported when it runs: every other command starts without it.
"""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from specmeta._text import printable

from ._streams import standard_input

if TYPE_CHECKING:
    from specmeta._files import Document

_NAME = "specmeta convert"
_STDIN = "<stdin>"


class Form(StrEnum):
    """What a deployment can be written as."""

    TENSORRT_LLM = "tensorrt-llm"
    VLLM = "vllm"
    SGLANG = "sglang"
    SPECMETA = "specmeta"


class Style(StrEnum):
    """How arguments are written."""

    YAML = "yaml"
    FLAGS = "flags"


_ENGINES = (Form.TENSORRT_LLM, Form.VLLM, Form.SGLANG)


def _form(text: str) -> Form:
    """A form by its name, in which an underscore is a hyphen."""
    return _named(text, tuple(Form))


def _engine(text: str) -> Form:
    return _named(text, _ENGINES)


def _named(text: str, forms: tuple[Form, ...]) -> Form:
    for form in forms:
        if text.replace("_", "-") == form:
            return form
    raise typer.BadParameter(f"{printable(text)!r} is none of {', '.join(forms)}.")


def convert(
    file: Annotated[
        Path,
        typer.Argument(
            help="A deployment file, or an engine's arguments as YAML, JSON or a command; - reads "
            "standard input.",
            allow_dash=True,
        ),
    ],
    to: Annotated[
        Form,
        typer.Option(
            help="Engine to write for, or specmeta for a deployment file.",
            metavar=f"[{'|'.join(Form)}]",
            parser=_form,
        ),
    ],
    from_: Annotated[
        Form | None,
        typer.Option(
            "--from",
            help="Whose arguments FILE holds. Default: told by their names.",
            metavar=f"[{'|'.join(_ENGINES)}]",
            parser=_engine,
        ),
    ] = None,
    style: Annotated[Style, typer.Option("--as", help="YAML, or flags of the command.")] = (
        Style.YAML
    ),
    target: Annotated[
        Path | None, typer.Option(help="Directory of the target that the arguments are for.")
    ] = None,
    drafter: Annotated[
        Path | None, typer.Option(help="Directory of the drafter that the arguments are for.")
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="FACT=VALUE", help="A fact of the drafter that no file states."),
    ] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Directory that the paths in a deployment file may lead to.",
        ),
    ] = None,
) -> None:
    """Write FILE for another engine, and say on stderr what that engine cannot be told.

    Exit code 0: written. 1: FILE breaks a rule. 2: usage, or an input that cannot be read.
    """
    if style is Style.FLAGS and to in (Form.TENSORRT_LLM, Form.SPECMETA):
        _fail(f"--as flags: {to} has no flags for speculation; leave it out")
    from specmeta import _conversion as conversion
    from specmeta._arguments import flags_text
    from specmeta._findings import InputError
    from specmeta._stated import parse_facts

    try:
        options = conversion.Options(
            engine_name=None if from_ is None else from_.replace("-", "_"),
            target=target,
            drafter=drafter,
            stated=parse_facts(state or ()),
            roots=tuple(root or ()),
        )
        source = conversion.read_source(_open(file), file.parent, options)
        for message in source.unreadable:
            _say(message)
        for found in source.findings:
            _say(f"{found.severity}: {found}")
        if source.unreadable:
            raise typer.Exit(2)
        if source.choices is None:
            raise typer.Exit(1)
        written = conversion.convert(source, source.choices, to.replace("-", "_"))
    except InputError as error:
        _fail(str(error))
    for note in written.notes:
        _say(f"note: {note}")
    print(flags_text(written.flags) if style is Style.FLAGS else written.text, end="")


def _open(file: Path) -> "Document":
    from specmeta._argument_files import open_arguments, parse_arguments
    from specmeta._files import read_stream

    if str(file) != "-":
        return open_arguments(file)
    stream = standard_input()
    if stream is None:
        _fail(f"{_STDIN}: is closed; pipe the arguments, or pass a file")
    return parse_arguments(read_stream(stream, _STDIN), _STDIN)


def _say(text: str) -> None:
    typer.echo(f"{_NAME}: {printable(text)}", err=True)


def _fail(text: str) -> NoReturn:
    """A message on stderr, one for each line, and exit 2."""
    for line in text.split("\n"):
        _say(line)
    raise typer.Exit(2)
