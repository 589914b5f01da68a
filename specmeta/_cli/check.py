"""``specmeta check``: validate deployments, checkpoints, engine arguments, recorded metadata.

What a check runs is imported when it runs: every other command starts without it.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ._help import NO_VALUE
from ._streams import standard_input

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specmeta._check._report import Report

_NAME = "specmeta check"


class Format(StrEnum):
    """Forms of a report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


class Method(StrEnum):
    """Methods of a drafter."""

    DSPARK = "DSpark"
    DFLASH = "DFlash"
    MTP = "MTP"


def check(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...",
            help="Deployment files, checkpoint directories, engine arguments, recorded metadata; - "
            "reads metadata from standard input.",
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(help="Directory of the target that engine arguments or a drafter are for."),
    ] = None,
    drafter: Annotated[
        Path | None,
        typer.Option(help="Directory of the drafter that engine arguments or a target are for."),
    ] = None,
    deployment: Annotated[
        Path | None, typer.Option(help="Deployment file that recorded metadata belongs to.")
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACT=VALUE",
            help="A fact that no file states of the drafter; of every drafter that is checked.",
        ),
    ] = None,
    decoding_type: Annotated[
        Method | None,
        typer.Option(help="Which drafter of a checkpoint is meant."),
    ] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Directory that the paths in a deployment file, or the links in the directory of "
            "a pair, may lead to.",
        ),
    ] = None,
    mid_run: Annotated[
        bool,
        typer.Option(
            "--mid-run", metavar=NO_VALUE, help="The metadata does not begin with the first step."
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", metavar=NO_VALUE, help="Exit 1 for warnings too.")
    ] = False,
    format_: Annotated[
        Format | None, typer.Option("--format", help="Form of the report. Default: text.")
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", metavar=NO_VALUE, help="The same as --format json.")
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="RULE", help="Say what a rule protects and what to do, instead of a check."
        ),
    ] = None,
    no_weights: Annotated[
        bool,
        typer.Option(
            "--no-weights", metavar=NO_VALUE, help="Do not compare tensors with configurations."
        ),
    ] = False,
) -> None:
    """Check every PATH, each by its content, and print what is wrong with file, line and remedy.

    Exit code 0: valid. 1: findings. 2: usage, or an input that cannot be read.
    """
    if json_output and format_ not in (None, Format.JSON):
        _fail(f"--json and --format {format_} are two forms; give one")
    form = Format.JSON if json_output else format_ or Format.TEXT
    if explain is not None:
        if paths:
            _fail("--explain checks no PATH; leave one of them out")
        given = (target, drafter, deployment, state, decoding_type, root)
        if mid_run or strict or no_weights or any(option is not None for option in given):
            _fail("--explain checks nothing; leave the options of a check out")
        _explain(explain, form)
        return
    if not paths:
        _fail("no PATH is given; --help shows what can be checked")
    from specmeta._check._options import CheckOptions
    from specmeta._check._run import check as run
    from specmeta._findings import InputError
    from specmeta._stated import parse_facts

    try:
        options = CheckOptions(
            target=target,
            drafter=drafter,
            deployment=deployment,
            stated=parse_facts(state or ()),
            decoding_type=None if decoding_type is None else decoding_type.value,
            roots=tuple(root or ()),
            mid_run=mid_run,
            weights=not no_weights,
        )
        report = run(paths, options, standard_input)
        _write(report, form)
    except InputError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    code = report.exit_code(strict=strict)
    if code:
        raise typer.Exit(code)


def _write(report: "Report", form: Format) -> None:
    for item in report.inputs:
        for message in item.unreadable:
            typer.echo(f"{_NAME}: {message}", err=True)
    if form is Format.JSON:
        from specmeta._check._json import as_json

        _print([as_json(report)])
    elif form is Format.SARIF:
        import specmeta
        from specmeta._check._sarif import as_sarif

        _print([as_sarif(report, specmeta.__version__)])
    elif form is Format.GITHUB:
        from specmeta._check._github import commands

        _print([*commands(report), report.summary])
    elif sys.stdout.isatty():
        from specmeta._check._terminal import show

        show(report)
    else:
        from specmeta._check._text import lines

        _print(line.text for line in lines(report))


def _print(lines: "Iterable[str]") -> None:
    for line in lines:
        print(line)


def _explain(name: str, form: Format) -> None:
    from specmeta._check._explain import explanation, known_names
    from specmeta._text import shown

    found = explanation(name)
    if found is None:
        from difflib import get_close_matches

        close = get_close_matches(name[:64], known_names(), n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else "'specmeta rules' lists them"
        _fail(f"{shown(name)} is no rule; {hint}")
    if form is Format.JSON:
        import json

        _print([json.dumps(found._asdict(), indent=2)])
    elif form is Format.TEXT:
        from specmeta._check._explain import lines_of

        _print(lines_of(found))
    else:
        _fail(f"--explain has no --format {form}; leave it out, or use json")


def _fail(text: str) -> NoReturn:
    """One message on stderr, exit 2."""
    typer.echo(f"{_NAME}: {text}", err=True)
    raise typer.Exit(2)
