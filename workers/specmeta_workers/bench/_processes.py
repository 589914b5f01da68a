"""Shares the prompts of a run among processes, one thread each.

The models of a bench on a CPU are too small for two threads to help one forward, so a second core
is better spent on other prompts. Every process serves its share in every setting, so each figure is
still that of one server on one core.
"""

from __future__ import annotations

import os
import queue
import signal
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.multiprocessing

from .._guardian import end_with_parent
from ._runner import Run, Setting, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from .._pairs import Pair
    from ._options import AcceptLengthOptions

_POLL_SECONDS = 0.2


class ProcessLostError(RuntimeError):
    """A process that shared the prompts was killed."""


def serve_all(
    pairs: Sequence[Pair],
    options: AcceptLengthOptions,
    on_progress: Callable[[str, int], None] | None = None,
) -> dict[Setting, Run]:
    """Run every setting on all prompts, in `options.processes` processes.

    Raises:
        ValueError: the pairs cannot serve the options, see `AcceptLengthOptions.check`.
        ProcessLostError: a process was killed.

    """
    options.check(pairs)
    prompts = range(options.requests)
    if options.processes == 1:
        return serve(pairs, options, prompts, on_progress)
    shares = [prompts[i :: options.processes] for i in range(options.processes)]
    context: Any = torch.multiprocessing.get_context("spawn")
    reports: Any = context.Queue()
    with ProcessPoolExecutor(
        options.processes, context, initializer=_start, initargs=(reports,)
    ) as pool:
        with _interrupts_held():
            tasks = [pool.submit(_serve_share, pairs, options, share) for share in shares]
        try:
            pending = set(tasks)
            while pending:
                pending = wait(pending, _POLL_SECONDS, FIRST_EXCEPTION).not_done
                if any(task.done() and task.exception() for task in tasks):
                    break
                _forward(reports, on_progress)
            return merge([task.result() for task in tasks])
        except BrokenProcessPool as error:
            raise ProcessLostError(
                "a process that served prompts was killed, nothing was measured; the system does "
                "so when memory runs out: ask for a smaller batch or fewer processes"
            ) from error
        except BaseException:
            # The others would serve to the end for nothing.
            for process in list(pool._processes.values()):  # noqa: SLF001 - no public way
                process.terminate()
            raise


def merge(shares: Sequence[dict[Setting, Run]]) -> dict[Setting, Run]:
    """The runs of all processes as one, results in the order of the prompts."""
    merged, *others = shares
    for share in others:
        for setting, run in share.items():
            merged[setting].add(run)
    return merged


@contextmanager
def _interrupts_held() -> Generator[None]:
    """Start processes that a Ctrl-C does not reach: they would print a traceback each, from
    wherever their imports are. The interrupt is delivered here, and this process ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forward(reports: Any, on_progress: Callable[[str, int], None] | None) -> None:
    while True:
        try:
            label, tokens = reports.get_nowait()
        except queue.Empty:
            return
        if on_progress is not None:
            on_progress(label, tokens)


_reports: Any = None


def _start(reports: Any) -> None:
    end_with_parent(os.getppid())
    global _reports  # noqa: PLW0603 - how a pool's process keeps what its initializer was given
    _reports = reports
    torch.set_num_threads(1)


def _serve_share(
    pairs: Sequence[Pair], options: AcceptLengthOptions, prompts: Sequence[int]
) -> dict[Setting, Run]:
    def report(label: str, tokens: int) -> None:
        _reports.put((label, tokens))

    return serve(pairs, options, prompts, report)
