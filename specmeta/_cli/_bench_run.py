"""The part of `specmeta bench` that needs `specmeta_workers`: loads, measures, prints."""

import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from specmeta_workers import Pair
from specmeta_workers import bench as benching
from specmeta_workers.bench import ProcessLostError
from specmeta_workers.distributed import DistributedError, PairSource, serve_distributed

from .._stated import parse_facts
from ._bench_source import Ranks, Source

if TYPE_CHECKING:
    from specmeta import DecodingType

__all__ = [
    "DistributedError",
    "ProcessLostError",
    "Ranks",
    "Source",
    "measure",
    "message",
    "parse_facts",
    "prepare",
    "show",
]

_FLAGS = {
    "decoding_types": "decoding-type",
    "draft_lens": "draft-len",
    "batches": "batch",
    "modes": "mode",
    "plot": "plot",
}
"""Options whose flag is not the field's own name."""


def prepare(
    source: Source, ranks: Ranks | None, processes: int | None, plot: Path | None, **fields: Any
) -> tuple[tuple[Pair, ...], benching.AcceptLengthOptions]:
    """Check everything that can be checked before the run, the cheap things first.

    `fields` are those of `AcceptLengthOptions`; modes that are None are all that can be served.

    Raises:
        ValueError: an option that cannot be run.
        ImportError: a plot is asked for, and matplotlib is missing.

    """
    if fields["modes"] is None:
        fields["modes"] = benching.MODES if ranks is None else ("disaggregated",)
    if ranks is not None and processes is not None:
        raise ValueError("--processes: with --launch, the ranks are the processes; leave it out")
    types = cast("tuple[DecodingType, ...]", source.types())  # the options check the names
    options = benching.AcceptLengthOptions(decoding_types=types, **fields)
    if plot is not None:
        benching.check_plot_path(plot)
    if ranks is not None:
        wanted = ranks.roles.world_size
        if options.modes != ("disaggregated",):
            raise ValueError("--mode: ranks serve disaggregated alone; leave it out")
    else:
        wanted = options.processes_for(_cores()) if processes is None else processes
    options = attrs.evolve(options, processes=wanted)
    pairs = source.load(types)
    options.check(pairs)
    return pairs, options


def measure(
    pairs: tuple[Pair, ...],
    options: benching.AcceptLengthOptions,
    source: Source,
    ranks: Ranks | None,
) -> benching.Report:
    """Run it, with a bar of the progress on a terminal's stderr.

    Raises:
        DistributedError: a rank was lost.

    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        count = sum(len(group) for group in benching.settings(options))
        total = count * options.requests * options.new_tokens
        task = progress.add_task("loading", total=total)

        def advance(label: str, tokens: int) -> None:
            progress.update(task, description=f"{label:<38}", advance=tokens)

        if ranks is None:
            return benching.measure_accept_length(pairs, options, advance)
        began = time.perf_counter()
        runs = serve_distributed(
            pairs,
            PairSource(
                target=source.target,
                drafter=source.drafter,
                decoding_types=options.decoding_types,
                dtype=source.dtype,
                stated=source.stated,
            ),
            options,
            advance,
            roles=ranks.roles,
            timeout=ranks.timeout,
        )
        seconds = time.perf_counter() - began
        return benching.make_report(pairs, options, runs, seconds, ranks=str(ranks))


def show(report: benching.Report, plot: Path | None, *, json_output: bool) -> None:
    """Print the report, draw it where it was asked for, and say what it should not show."""
    if json_output:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        # A narrower terminal wraps the lines: better than figures that are cut.
        width = Console().width if Console().is_terminal else benching.TABLE_WIDTH
        console = Console(width=max(width, benching.TABLE_WIDTH))
        console.print(benching.accept_length_table(report))
        console.print()
        console.print(benching.speed_table(report))
    messages = Console(stderr=True)
    if report.fault is None:  # with a fault they are no near-ties
        for line in benching.difference_lines(report):
            messages.print(line, highlight=False)
    if plot is not None:
        benching.save_plot(report, plot)
        messages.print(f"wrote {plot}")
    for finding in report.findings():
        messages.print(f"[bold]finding:[/] {finding}", highlight=False)


def message(error: Exception) -> str:
    """What an error says, in the words of the command line."""
    if isinstance(error, ImportError):
        return f'this needs {error.name}: pip install "specmeta[plot]"'
    text = str(error)
    if isinstance(error, ValidationError):
        text = "\n".join(line["msg"] for line in error.errors())
    others = {"context_ranks", "generation_ranks", "timeout"}
    fields = attrs.fields_dict(benching.AcceptLengthOptions).keys() | _FLAGS.keys() | others

    def flag(match: re.Match[str]) -> str:
        name = match[1]
        if name not in fields:
            return match[0]
        return f"--{_FLAGS.get(name, name.replace('_', '-'))}:"

    return re.sub(r"^([a-z_]+)(?:\[\d+\])?:", flag, text, flags=re.MULTILINE)


def _cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
