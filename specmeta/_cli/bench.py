"""`specmeta bench`: measurements. Running one needs `specmeta[workers]`, its help does not."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ._help import NO_VALUE, Command, Group

if TYPE_CHECKING:
    from types import FrameType

app = typer.Typer(
    cls=Group,
    help="Measure accept length and speed on a real pair (running it needs specmeta\\[workers]).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_NAME = "specmeta bench accept-length"


@app.callback()
def root() -> None:
    """Keep sub-commands even where there is one."""


@app.command("accept-length", cls=Command)
def accept_length(
    decoding_type: Annotated[
        str | None,
        typer.Option(
            help="Decoding types, comma-separated: DSpark, DFlash, MTP. Default: all that are "
            "bundled; with --drafter, that drafter's."
        ),
    ] = None,
    draft_len: Annotated[str, typer.Option(help="Draft lengths, comma-separated.")] = "1,3,5,7",
    batch: Annotated[str, typer.Option(help="Batch sizes, comma-separated.")] = "1,16",
    mode: Annotated[
        str | None,
        typer.Option(
            help="Serving modes, comma-separated; those after the first serve the first and the "
            "last draft length alone. Default: aggregated,disaggregated."
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", metavar=NO_VALUE, help="Serve every draft length in every mode."),
    ] = False,
    requests: Annotated[int, typer.Option(help="Held-out prompts to serve.")] = 64,
    new_tokens: Annotated[int, typer.Option(help="Tokens to generate for each prompt.")] = 96,
    dtype: Annotated[
        str,
        typer.Option(
            help="Precision: float64 (everything must be equal), float32 (2 % near-ties), bfloat16 "
            "or float16 (equality is not expected; only accept length is judged)."
        ),
    ] = "float32",
    temperature: Annotated[
        float | None,
        typer.Option(
            help="Sample, with a seed a request and rejection sampling of the drafts; outputs are "
            "then compared with those of the smallest batch. Default: greedy decoding."
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Sample from this many tokens (with --temperature).")
    ] = None,
    top_p: Annotated[
        float, typer.Option(help="Sample from tokens of this mass (with --temperature).")
    ] = 1.0,
    confidence_threshold: Annotated[
        float | None,
        typer.Option(
            help="Do not verify drafts behind the first of a lower confidence (DSpark alone)."
        ),
    ] = None,
    graph_batch_sizes: Annotated[
        str, typer.Option(help="Graph buckets that pad generation batches, comma-separated.")
    ] = "",
    fault: Annotated[
        str | None,
        typer.Option(
            help="Serve with deliberately broken workers: default-slot sends every request to one "
            "slot."
        ),
    ] = None,
    target: Annotated[
        Path | None, typer.Option(help="Directory of another target (with --drafter).")
    ] = None,
    drafter: Annotated[
        Path | None, typer.Option(help="Directory of another drafter (with --target).")
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACT=VALUE",
            help="A fact that no file of --drafter states, such as "
            "anchor_convention=anchor_first; repeatable.",
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            help='File of prompts, one JSON object a line: {"text": "..."}. Give --requests if it '
            "has fewer than 64. Default: the bundled prompts."
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Processes of one thread that share the prompts; default: the cores."),
    ] = None,
    launch: Annotated[
        str | None,
        typer.Option(
            help="torchrun: serve with a process a rank, disaggregated, under attention DP."
        ),
    ] = None,
    context_ranks: Annotated[
        int | None, typer.Option(help="Ranks that run prompts (with --launch); default 1.")
    ] = None,
    generation_ranks: Annotated[
        int | None, typer.Option(help="Ranks that decode (with --launch); default 1.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds of silence after which a rank is given up; default 60."),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", metavar=NO_VALUE, help="Print one JSON object.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the figures to a .png or .svg.")] = None,
) -> None:
    """Serve held-out prompts in every setting; print accept length, equality and speed.

    Exit code 1: outputs or accept lengths depend on the batch (not with --fault, which shows that).
    """
    with _stoppable():
        try:
            import_module("specmeta_workers")
        except ModuleNotFoundError as error:
            if "specmeta[workers]" not in str(error):
                raise
            _fail(str(error))
        from . import _bench_run as bench_run

        try:
            source = bench_run.Source(
                target,
                drafter,
                prompts,
                dtype,
                _names("decoding-type", decoding_type),
                bench_run.parse_facts(state or ()),
            )
            ranks = bench_run.Ranks.of(launch, context_ranks, generation_ranks, timeout)
            pairs, options = bench_run.prepare(
                source,
                ranks,
                processes,
                plot,
                draft_lens=_integers("draft-len", draft_len),
                batches=_integers("batch", batch),
                modes=_names("mode", mode),
                full=full,
                requests=requests,
                new_tokens=new_tokens,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                confidence_threshold=confidence_threshold,
                graph_batch_sizes=_integers("graph-batch-sizes", graph_batch_sizes),
                fault=fault,
            )
        except (ValueError, ImportError) as error:
            _fail(bench_run.message(error))
        try:
            report = bench_run.measure(pairs, options, source, ranks)
        except (bench_run.DistributedError, bench_run.ProcessLostError) as error:
            _fail(str(error))
        except ValueError as error:  # an engine that no deployment can have
            _fail(bench_run.message(error))
    bench_run.show(report, plot, json_output=json_output)
    if report.findings() and fault is None:
        raise typer.Exit(1)


class _Terminated(BaseException):
    """SIGTERM, as an exception: what was started gets ended."""


@contextmanager
def _stoppable() -> Generator[None]:
    """End with one message at Ctrl-C or SIGTERM, and leave no process behind."""

    def terminate(_: int, __: "FrameType | None") -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"{_NAME}: interrupted; nothing was measured", err=True)
        sys.exit(130)
    except _Terminated:
        typer.echo(f"{_NAME}: terminated; nothing was measured", err=True)
        sys.exit(143)
    finally:
        signal.signal(signal.SIGTERM, before)


def _integers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(
            f"--{name}: {text!r} is not a comma-separated list of integers, like 1,3,7"
        ) from None


def _names(name: str, text: str | None) -> tuple[str, ...] | None:
    """The parts of a list, whatever they say: the options know the names."""
    if text is None:
        return None
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not parts:
        raise ValueError(f"--{name}: {text!r} names nothing; leave it out, or name one")
    return parts


def _fail(text: str) -> NoReturn:
    """One message on stderr, exit 2."""
    typer.echo(f"{_NAME}: {text}", err=True)
    sys.exit(2)
