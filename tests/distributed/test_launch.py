"""Real processes under torchrun: equal results, and ranks that are killed."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specmeta_workers import Pair, RequestResult, default_engine, load_bundled
from specmeta_workers.distributed import DistributedError, Part, Plan, Roles, _launch, launch
from tests.distributed.test_ranks import PLAIN, SPECULATIVE, alone, make_plan, make_requests

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_bundled(engine=default_engine("float64"))


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:  # the thread is gone
            continue
    return found


def rank_processes() -> dict[int, int]:
    """Process ids of the ranks that this process has launched."""
    ranks = {}
    for agent in children(os.getpid()):
        for pid in children(agent):
            try:
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:  # it has just ended
                continue
            for variable in variables:
                if variable.startswith(b"RANK="):
                    ranks[int(variable[5:])] = pid
    return ranks


def launch_and_kill(
    plan: Plan, folder: Path, rank: int, ready: Callable[[], bool], sig: int = signal.SIGKILL
) -> tuple[DistributedError, int, float]:
    """The error, the process that was killed, and the seconds from then to the error."""
    killed: list[tuple[int, float]] = []

    def kill() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            ranks = rank_processes()
            if rank in ranks and ready():
                os.kill(ranks[rank], sig)
                killed.append((ranks[rank], time.monotonic()))
                return
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(DistributedError) as caught:
        launch(plan, None, folder)
    ended = time.monotonic()
    thread.join()
    ((pid, when),) = killed
    for left in rank_processes().values():
        pytest.fail(f"process {left} is still there")
    return caught.value, pid, ended - when


def check_nothing_is_lost(error: DistributedError, plan: Plan, pair: Pair) -> None:
    """Every request is either listed, or has the result of a single process."""
    requests = {request.request_id: request for request in plan.parts[0].requests}
    results = error.finished["K=3"].results
    done = [result.request_id for result in results]
    assert sorted([*done, *error.unfinished["K=3"]]) == sorted(requests)
    assert results == alone(pair, SPECULATIVE, [requests[i] for i in done])


def long_plan(pair: Pair) -> Plan:
    """Enough prompts to be killed in the middle of."""
    return make_plan(Roles(), [SPECULATIVE], [Part(0, make_requests(pair, 64))])


def test_each_request_equals_the_single_process_run(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, temporary = tmp_path / "run", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("PET_NNODES", "2")  # a job scheduler's, not meant for these ranks
    requests = make_requests(pair, 5)
    plan = make_plan(
        Roles(context_ranks=1, generation_ranks=2),
        [PLAIN, SPECULATIVE],
        [Part(0, requests), Part(1, requests)],
    )
    told: list[tuple[str, RequestResult]] = []
    served = launch(plan, lambda label, result: told.append((label, result)), folder)
    for spec in (PLAIN, SPECULATIVE):
        expected = alone(pair, spec, requests)
        assert served[spec.label].results == expected
        by_id = sorted((r for label, r in told if label == spec.label), key=lambda r: r.request_id)
        assert by_id == expected
    assert (folder / "log.txt").read_text() == ""  # no warning of torchrun or gloo
    assert not list(temporary.glob("torchelastic*"))


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_while_serving_is_named_and_nothing_is_lost(
    pair: Pair, tmp_path: Path, rank: int
) -> None:
    plan = long_plan(pair)
    journal = tmp_path / "journal.jsonl"

    def ready() -> bool:
        """Prompts have begun to run, and for the generation rank: a request was decoded."""
        text = journal.read_text() if journal.exists() else ""
        return ("results" if rank else "part") in text

    error, pid, seconds = launch_and_kill(plan, tmp_path, rank, ready)
    name = ("context rank 0", "generation rank 1")[rank]
    assert str(error).startswith(f"{name} (pid {pid}) was killed by SIGKILL")
    assert seconds < 15
    check_nothing_is_lost(error, plan, pair)
    assert error.unfinished["K=3"]
    assert bool(error.finished["K=3"].results) is bool(rank)


def test_a_rank_that_is_killed_before_the_group_is_formed_is_named(
    pair: Pair, tmp_path: Path
) -> None:
    plan = long_plan(pair)
    error, pid, seconds = launch_and_kill(plan, tmp_path, 1, lambda: True)
    assert str(error).startswith(f"generation rank 1 (pid {pid}) was killed by SIGKILL")
    assert "64 requests have no result:\n  K=3: 1001, 1014," in str(error)
    assert seconds < 15


KILLED = {"rank": 1, "pid": 5, "exitcode": -9, "message": "Signal 9"}
ENDED = {"rank": 2, "pid": 6, "exitcode": -15, "message": "Signal 15"}
LOST = {"rank": 0, "pid": 4, "exitcode": 1, "message": "RankLostError: generation rank 1 is gone"}
SILENT = {**LOST, "message": "RankSilentError: generation rank 1 was silent for 5 s"}
FAILED = {"rank": 2, "pid": 6, "exitcode": 1, "message": "ValueError: no such: thing"}


@pytest.mark.parametrize(
    ("failures", "reason"),
    [
        (
            [ENDED, LOST, KILLED],
            "generation rank 1 (pid 5) was killed by SIGKILL; the system",
        ),
        ([SILENT, KILLED, ENDED], "generation rank 1 was silent for 5 s"),
        ([LOST, FAILED], "generation rank 2: ValueError: no such: thing"),
        ([ENDED, LOST], "generation rank 1 is gone"),
        ([ENDED], "generation rank 2 (pid 6) was killed by SIGTERM"),
    ],
)
def test_the_rank_that_failed_is_blamed_not_those_that_followed(
    failures: list[dict[str, Any]], reason: str
) -> None:
    assert _launch._blame(failures, Roles(generation_ranks=2)).startswith(reason)


def test_an_interrupt_ends_every_rank(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        if len(rank_processes()) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(_launch, "_follow", interrupt)
    with pytest.raises(KeyboardInterrupt):
        launch(long_plan(pair), None, tmp_path)
    assert rank_processes() == {}


def test_a_folder_of_another_run_is_refused(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").touch()
    plan = long_plan(pair)
    with pytest.raises(ValueError, match="is not empty; give each run a folder of its own"):
        launch(plan, None, tmp_path)
