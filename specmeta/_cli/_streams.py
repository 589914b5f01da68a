"""The standard streams of every command: closed, full, or a pipe that nobody reads any more.

An output that cannot be written ends the command with one message and exit code 2; a pipe whose
reader is gone ends it with 141 and no message, as the shell says of any program that SIGPIPE ends.
Messages that cannot be written are dropped, and the exit code stays what it was.
"""

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NoReturn

if TYPE_CHECKING:
    from typing_extensions import Buffer

_USAGE = 2
_NO_READER = 141


class OutputError(Exception):
    """Standard output cannot be written. No `OSError`: typer and rich would act on that."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(problem.strerror or str(problem))
        self.no_reader = isinstance(problem, BrokenPipeError)


class _Output(io.FileIO):
    def write(self, data: "Buffer", /) -> int:
        try:
            return super().write(data)
        except OSError as problem:
            raise OutputError(problem) from None


class _Messages(io.FileIO):
    def write(self, data: "Buffer", /) -> int:
        with suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes  # nobody is left to be told


def run(command: Callable[[], None]) -> None:
    """Run a command to its `SystemExit`, with streams that end in an exit code, not a traceback."""
    _reserve()
    _guard()
    try:
        if sys.stdout is None:
            _end("standard output is closed; give it somewhere to go, /dev/null for example")
        try:
            command()
        finally:
            sys.stdout.flush()
    except OutputError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # where the interpreter's last flush goes
        if problem.no_reader:
            sys.exit(_NO_READER)
        _end(f"standard output cannot be written ({problem}); what was printed is not whole")


def standard_input() -> BinaryIO | None:
    """The bytes of standard input; None where it is closed."""
    return None if sys.stdin is None else sys.stdin.buffer


def _reserve() -> None:
    """Keep the numbers of closed streams, so that no file is opened under one of them."""
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:
            found = os.open(os.devnull, os.O_RDWR)
            if found != number:  # the number is open after all
                os.close(found)


def _guard() -> None:
    """Put the guarded streams in place; a terminal is neither full nor a pipe, and stays."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the encoding lacks must not end the output.
        sys.stdout.reconfigure(errors="backslashreplace")
        if not sys.stdout.isatty():
            sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper) and not sys.stderr.isatty():
        sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, like: io.TextIOWrapper) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=like.encoding,
        errors=like.errors,
        line_buffering=like.line_buffering,
    )


def _end(text: str) -> NoReturn:
    if sys.stderr is not None:
        print(f"specmeta: {text}", file=sys.stderr)
        sys.stderr.flush()
    sys.exit(_USAGE)
