"""``specmeta check``: validate deployments, checkpoints, engine arguments, recorded metadata.

What a check runs is imported when it runs: every other command starts without it.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ._help import NO_VALUE

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
        typer.Option(metavar="FACT=VALUE", help="A fact of the drafter that no file states."),
    ] = None,
    decoding_type: Annotated[
        str | None,
        typer.Option(help="Which drafter of a checkpoint is meant: DSpark, DFlash or MTP."),
    ] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(help="Directory that the paths in a deployment file may lead to."),
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
    format_: Annotated[Format, typer.Option("--format", help="Form of the report.")] = Format.TEXT,
    json_output: Annotated[
        bool, typer.Option("--json", metavar=NO_VALUE, help="The same as --format json.")
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="RULE", help="Say what a rule protects and what to do; check nothing."
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
    try:
        if explain is not None:
            _explain(explain)
            return
        if not paths:
            _fail("no PATH is given; --help shows what can be checked")
        from specmeta._check._options import Options
        from specmeta._check._run import check as run
        from specmeta._check._stated import parse_facts
        from specmeta._findings import InputError

        try:
            options = Options(
                target=target,
                drafter=drafter,
                deployment=deployment,
                stated=parse_facts(state or ()),
                decoding_type=decoding_type,
                roots=tuple(root or ()),
                mid_run=mid_run,
                weights=not no_weights,
            )
        except InputError as error:
            _fail(str(error))
        report = run(paths, options, lambda: sys.stdin.buffer)
        _write(report, Format.JSON if json_output else format_)
        code = report.exit_code(strict=strict)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if code:
        raise typer.Exit(code)


def _write(report: "Report", form: Format) -> None:
    from specmeta._check._text import lines, printable

    for item in report.inputs:
        for message in item.unreadable:
            typer.echo(f"{_NAME}: {printable(' '.join(message.splitlines()))}", err=True)
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
        _print(line.text for line in lines(report))


def _print(lines: "Iterable[str]") -> None:
    for line in lines:
        print(line)


def _explain(name: str) -> None:
    from specmeta._rules import FAMILIES, RULES

    rule = RULES.get(name)
    if rule is None:
        from difflib import get_close_matches

        close = get_close_matches(name, RULES, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}?" if close else "'specmeta rules' lists them"
        _fail(f"{name!r} is no rule; {hint}")
    _print(
        [
            rule.name,
            f"  family: {rule.family}, {FAMILIES[rule.family]}",
            f"  severity: {rule.severity}",
            f"  overridable: {'yes' if rule.overridable else 'no'}",
            f"  protects: {rule.protects}",
            f"  remedy: {rule.remedy}",
            f"  reports: {', '.join(rule.reports) or 'none'}",
        ]
    )


def _fail(text: str) -> NoReturn:
    """One message on stderr, exit 2."""
    typer.echo(f"{_NAME}: {text}", err=True)
    raise typer.Exit(2)
