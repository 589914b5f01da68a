from typing import Any

import pytest
import torch
from torch._C._distributed_c10d import HashStore

from specmeta_workers.distributed import RankLostError, Roles
from specmeta_workers.distributed._join import _wait_for_all, rank_device, rank_from_environment

ROLES = Roles(context_ranks=1, generation_ranks=2)


def test_ranks_that_never_come_are_named() -> None:
    store: Any = HashStore()
    store.set("specmeta/1", b"here")
    with pytest.raises(RankLostError, match=r"^generation rank 2 did not come within 0\.1 s$"):
        _wait_for_all(store, ROLES, 0, 0.1)
    store.set("specmeta/2", b"here")
    _wait_for_all(store, ROLES, 0, 0.1)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "RANK, WORLD_SIZE: not set by a launcher; start this module with torchrun"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "WORLD_SIZE: 2 processes .* start 3 processes"),
        ({"RANK": "3", "WORLD_SIZE": "3"}, "this is rank 3"),
    ],
)
def test_a_launch_that_does_not_fit_the_plan_is_refused(
    variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        rank_from_environment(ROLES)


def test_every_rank_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rank_device("cpu") == torch.device("cpu")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match="local rank 1 has no GPU of its own, this machine has 1"):
        rank_device("cuda")
