"""Starts the ranks of one machine with torchrun, follows their journal, reports how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ._journal import JournalReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._requests import RequestResult
    from ._journal import Served
    from ._plan import Plan
    from ._roles import Roles

_POLL_SECONDS = 0.05
_ENVIRONMENT = {
    # The warnings of c10d and gloo about host names, which no reader can act on.
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Where torchrun itself is told to end. A failed run's other ranks still get its half minute.
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "2",
    # `-m` would let a file of the current folder stand for a module.
    "PYTHONSAFEPATH": "1",
}


def launch(
    plan: Plan,
    on_result: Callable[[str, RequestResult], None] | None = None,
    folder: Path | None = None,
) -> dict[str, Served]:
    """Run a plan on this machine, a process a rank.

    Args:
        plan: what to serve.
        on_result: told the server's label and the result of each finished request.
        folder: an empty one for plan, journal and log, which then stay; None uses a temporary one.

    Returns:
        What each server of the plan served, by label.

    Raises:
        ValueError: the folder holds another run.
        DistributedError: a rank was killed, failed or hung; it lists the unfinished requests.

    """
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="specmeta-")))
        elif any(folder.iterdir()):
            raise ValueError(f"folder: {folder} is not empty; give each run a folder of its own")
        plan.save(folder / "plan.json")
        reader = JournalReader(folder / "journal.jsonl", plan)
        process = _start(folder, plan.roles)
        try:
            while process.poll() is None:
                _follow(reader, on_result)
                time.sleep(_POLL_SECONDS)
        except BaseException:
            _end(process)
            raise
        _follow(reader, on_result)
        if process.returncode != 0:
            raise reader.error(_reason(folder, process, plan.roles))
        if any(reader.unfinished.values()):
            raise reader.error("every rank ended well, but results are missing")
        return reader.served


def _start(folder: Path, roles: Roles) -> subprocess.Popen[bytes]:
    package = str(__package__)
    command = [
        *(sys.executable, "-m", f"{package}._agent"),
        *(str(os.getpid()), str(folder / "failures.json")),
        *("--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={roles.world_size}"),
        f"--log-dir={folder / 'torchrun'}",  # else it makes one that nobody removes
        *("-m", package, str(folder / "plan.json"), str(folder / "journal.jsonl")),
    ]
    # A job scheduler's own settings for torchrun are not for this one.
    inherited = {name: value for name, value in os.environ.items() if name[:4] != "PET_"}
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**inherited, **_ENVIRONMENT},
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the others
        )


def _follow(reader: JournalReader, on_result: Callable[[str, RequestResult], None] | None) -> None:
    for label, result in reader.read():
        if on_result is not None:
            on_result(label, result)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End all ranks: torchrun hands SIGTERM on to them; without it, they end by themselves."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _reason(folder: Path, process: subprocess.Popen[bytes], roles: Roles) -> str:
    path = folder / "failures.json"
    if path.exists():
        return _blame(json.loads(path.read_text(encoding="utf-8")), roles)
    if process.returncode < 0:
        return f"torchrun (pid {process.pid}) was killed by {_signal(process.returncode)}"
    log = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    lines = [line for line in log.splitlines() if line.strip()]
    said = lines[-1].strip() if lines else "it printed nothing"
    return f"torchrun ended with exit code {process.returncode}: {said}"


def _blame(failures: list[dict[str, str]], roles: Roles) -> str:
    """Why the run ended.

    A silent rank first: torchrun has killed it in the end. Then one that somebody else killed, then
    one that failed, then one that others missed. SIGTERM is how torchrun ends the rest.
    """

    def order(failure: dict[str, str]) -> int:
        kind, code = failure["message"].partition(":")[0], int(failure["exitcode"])
        if code < 0:
            return 4 if code == -signal.SIGTERM else 1
        return {"RankSilentError": 0, "RankLostError": 3}.get(kind, 2)

    first = min(failures, key=order)
    name, code, message = roles.name(int(first["rank"])), int(first["exitcode"]), first["message"]
    if code < 0:
        hint = "; the system kills so when memory runs out" if code == -signal.SIGKILL else ""
        return f"{name} (pid {first['pid']}) was killed by {_signal(code)}{hint}"
    # Who misses a rank names that one, not itself.
    return message.partition(": ")[2] if order(first) in (0, 3) else f"{name}: {message}"


def _signal(returncode: int) -> str:
    return signal.Signals(-returncode).name
