"""`specmeta bench`: measurements that need `specmeta[workers]`."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import attrs
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from specmeta_workers import Pair, default_engine, load_bundled, load_pair
from specmeta_workers import bench as benching

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def root() -> None:
    """Measure accept length and speed on a real target and drafter."""


@app.command("accept-length")
def accept_length(
    draft_len: Annotated[str, typer.Option(help="Draft lengths, comma-separated.")] = "1,3,5,7",
    batch: Annotated[str, typer.Option(help="Batch sizes, comma-separated.")] = "1,16",
    mode: Annotated[
        str, typer.Option(help="Serving modes, comma-separated.")
    ] = "aggregated,disaggregated",
    requests: Annotated[int, typer.Option(help="Held-out prompts to serve.")] = 64,
    new_tokens: Annotated[int, typer.Option(help="Tokens to generate for each prompt.")] = 96,
    dtype: Annotated[
        str, typer.Option(help="Precision: float32, float64 or bfloat16.")
    ] = "float32",
    graph_batch_sizes: Annotated[
        str, typer.Option(help="Graph buckets that pad generation batches, comma-separated.")
    ] = "",
    fault: Annotated[
        str | None,
        typer.Option(
            help="Serve with a deliberately broken worker: default-slot sends every request to one "
            "slot."
        ),
    ] = None,
    target: Annotated[
        Path | None, typer.Option(help="Directory of another target (with --drafter).")
    ] = None,
    drafter: Annotated[
        Path | None, typer.Option(help="Directory of another drafter (with --target).")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(help='JSON Lines of {"text": ...}; default: the bundled prompts.')
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Processes of one thread that share the prompts; default: the cores."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the figures to a .png or .svg.")] = None,
) -> None:
    """Serve held-out prompts in every setting, and print accept length, equality and speed.

    Exit code 1: outputs or accept lengths depend on the batch (not with --fault, which shows that).
    """
    try:
        options = benching.AcceptLengthOptions(
            draft_lens=_integers("draft-len", draft_len),
            batches=_integers("batch", batch),
            modes=_names(mode),
            requests=requests,
            new_tokens=new_tokens,
            graph_batch_sizes=_integers("graph-batch-sizes", graph_batch_sizes),
            fault=cast("benching.Fault | None", fault),  # checked there
        )
        if plot is not None:
            benching.check_plot_path(plot)
        wanted = options.processes_for(_cores()) if processes is None else processes
        options = attrs.evolve(options, processes=wanted)
        pair = _pair(target, drafter, prompts, dtype)
        options.check(pair)
    except (ValueError, ImportError) as error:
        _fail(error)
    try:
        report = _measure(pair, options)
    except KeyboardInterrupt:
        typer.echo("specmeta bench accept-length: interrupted; nothing was measured", err=True)
        sys.exit(130)
    if json_output:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        console = Console()
        if not console.is_terminal:  # a file has no width, and rich would assume 80
            console = Console(width=benching.TABLE_WIDTH)
        console.print(benching.accept_length_table(report))
    messages = Console(stderr=True)
    if fault is None:  # with a fault they are no near-ties
        for line in benching.difference_lines(report):
            messages.print(line, highlight=False)
    if plot is not None:
        benching.save_plot(report, plot)
        messages.print(f"wrote {plot}")
    findings = report.findings()
    for finding in findings:
        messages.print(f"[bold]finding:[/] {finding}", highlight=False)
    if findings and fault is None:
        raise typer.Exit(1)


def _measure(pair: Pair, options: benching.AcceptLengthOptions) -> benching.Report:
    groups = len(options.batches) * (1 + len(options.modes) * len(options.draft_lens))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        total = groups * options.requests * options.new_tokens
        task = progress.add_task("loading", total=total)

        def advance(label: str, tokens: int) -> None:
            progress.update(task, description=f"{label:<34}", advance=tokens)

        return benching.measure_accept_length(pair, options, advance)


def _pair(target: Path | None, drafter: Path | None, prompts: Path | None, dtype: Any) -> Pair:
    engine = default_engine(dtype)
    if (target is None) != (drafter is None):
        raise ValueError("--target and --drafter belong together; give both or neither")
    if target is not None and drafter is not None:
        return load_pair(target, drafter, prompts=prompts, engine=engine)
    if prompts is not None:
        bundled = load_bundled(engine=engine)
        return bundled.with_prompts(prompts)
    return load_bundled(engine=engine)


def _integers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(
            f"--{name}: {text!r} is not a comma-separated list of integers, like 1,3,7"
        ) from None


def _names(text: str) -> Any:
    """The parts of a list, whatever they say: the options know the names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _fail(error: Exception) -> NoReturn:
    """One message on stderr, exit 2."""
    text = str(error)
    if isinstance(error, ValidationError):
        text = "\n".join(line["msg"] for line in error.errors())
    if isinstance(error, ImportError):
        text = f'this needs {error.name}: pip install "specmeta[plot]"'
    typer.echo(f"specmeta bench accept-length: {text}", err=True)
    sys.exit(2)
