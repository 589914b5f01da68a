"""``specmeta convert``: the arguments of one engine as those of another.

What it runs is imported when it runs: every other command starts without it.
"""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from specmeta._files import Document
    from specmeta._findings import Finding

_NAME = "specmeta convert"


class Form(StrEnum):
    """What a deployment can be written as."""

    TENSORRT_LLM = "tensorrt-llm"
    VLLM = "vllm"
    SGLANG = "sglang"
    SPECMETA = "specmeta"


class Origin(StrEnum):
    """Whose arguments are read."""

    TENSORRT_LLM = "tensorrt-llm"
    VLLM = "vllm"
    SGLANG = "sglang"


class Style(StrEnum):
    """How arguments are written."""

    YAML = "yaml"
    FLAGS = "flags"


def convert(
    file: Annotated[
        Path,
        typer.Argument(
            help="A deployment file, or an engine's arguments as YAML, JSON or a command; - reads "
            "standard input.",
            allow_dash=True,
        ),
    ],
    to: Annotated[Form, typer.Option(help="Engine to write for, or a deployment file.")],
    from_: Annotated[
        Origin | None,
        typer.Option("--from", help="Whose arguments FILE holds. Default: told by their names."),
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
        typer.Option(help="Directory that the paths in a deployment file may lead to."),
    ] = None,
) -> None:
    """Write FILE for another engine, and say on stderr what that engine cannot be told.

    Exit code 0: written. 1: FILE breaks a rule. 2: usage, or an input that cannot be read.
    """
    if style is Style.FLAGS and to in (Form.TENSORRT_LLM, Form.SPECMETA):
        _fail(f"--as flags: {to} has no flags for speculation; leave it out")
    from specmeta import _conversion as conversion
    from specmeta._arguments._written import flags_text
    from specmeta._check._stated import parse_facts
    from specmeta._findings import InputError

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
        _show(source.findings)
        if source.unreadable:
            raise typer.Exit(2)
        if source.choices is None:
            raise typer.Exit(1)
        written = conversion.convert(source, source.choices, to.replace("-", "_"))
    except InputError as error:
        _fail(str(error))
    for note in written.notes:
        _say(f"note: {note}")
    try:
        sys.stdout.write(flags_text(written.flags) if style is Style.FLAGS else written.text)
        sys.stdout.flush()
    except BrokenPipeError:  # the last flush of the interpreter goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None


def _open(file: Path) -> "Document":
    from specmeta._argument_files import open_arguments, parse_arguments
    from specmeta._files import read_stream

    if str(file) == "-":
        return parse_arguments(read_stream(sys.stdin.buffer, "<stdin>"), "<stdin>")
    return open_arguments(file)


def _show(findings: "tuple[Finding, ...]") -> None:
    for found in findings:
        _say(f"{found.severity}: {found}")


def _say(text: str) -> None:
    typer.echo(f"{_NAME}: {text}", err=True)


def _fail(text: str) -> NoReturn:
    """One message on stderr, exit 2."""
    _say(text)
    raise typer.Exit(2)
