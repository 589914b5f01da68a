import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure, record

from specmeta_workers import _guardian
from specmeta_workers.distributed import RankLostError
from specmeta_workers.distributed._agent import describe_failure


def test_what_a_rank_raised_is_its_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    @record
    def fail() -> None:
        raise RankLostError("generation rank 1 is gone")

    with pytest.raises(RankLostError):
        fail()
    failure = ProcessFailure(local_rank=0, pid=4, exitcode=1, error_file=str(path))
    assert describe_failure(3, failure) == {
        "rank": 3,
        "pid": 4,
        "exitcode": 1,
        "message": "RankLostError: generation rank 1 is gone",
    }


def test_a_killed_rank_has_the_signal(tmp_path: Path) -> None:
    failure = ProcessFailure(
        local_rank=0, pid=4, exitcode=-signal.SIGKILL, error_file=str(tmp_path / "none")
    )
    assert describe_failure(0, failure)["exitcode"] == -9


@pytest.mark.skipif(not hasattr(os, "getppid"), reason="needs process parents")
def test_a_process_does_not_outlive_the_one_that_should_have_started_it() -> None:
    guardian = Path(str(_guardian.__file__))
    code = (
        "import runpy, time, sys; "
        f"module = runpy.run_path({str(guardian)!r}); "
        "module['end_with_parent'](int(sys.argv[1])); time.sleep(30)"
    )
    orphan = subprocess.run([sys.executable, "-c", code, "1"], timeout=20, check=False)
    assert orphan.returncode == -signal.SIGTERM
