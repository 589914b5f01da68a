"""Forms the process groups of a run, or says which ranks did not come."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from ._errors import RankLostError, RankSilentError

if TYPE_CHECKING:
    from ._roles import Roles


def rank_from_environment(roles: Roles) -> int:
    """This process's rank, as torchrun gives it.

    Raises:
        ValueError: not started by torchrun, or with another number of processes.

    """
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError) as error:
        raise ValueError(
            "RANK, WORLD_SIZE: not set by a launcher; start this module with torchrun"
        ) from error
    if size != roles.world_size or not 0 <= rank < size:
        raise ValueError(
            f"WORLD_SIZE: {size} processes (this is rank {rank}), but the plan has "
            f"{roles.context_ranks} context and {roles.generation_ranks} generation ranks; start "
            f"{roles.world_size} processes"
        )
    return rank


def rank_device(kind: str) -> torch.device:
    """The CPU, or the GPU of this local rank.

    Raises:
        ValueError: this machine has fewer GPUs than ranks.

    """
    if kind == "cpu":
        return torch.device("cpu")
    local, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if local >= count:
        raise ValueError(
            f"device: local rank {local} has no GPU of its own, this machine has {count}; start "
            "fewer ranks a machine"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


def join(roles: Roles, rank: int, timeout: float, device: torch.device) -> tuple[Any, Any]:
    """The group of all ranks, for bytes, and that of the generation ranks, for collectives.

    gloo carries what is on the CPU, NCCL what is on a GPU.

    Raises:
        RankLostError: not all ranks came within `timeout` seconds; it names the missing.

    """
    limit = timedelta(seconds=timeout)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    try:
        store, _, _ = next(iter(rendezvous("env://", timeout=limit)))
        store.set_timeout(limit)
        _wait_for_all(store, roles, rank, timeout)
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=roles.world_size, timeout=4 * limit
        )  # the mailbox notices silence before
        generations = dist.new_group(list(roles.generations), timeout=limit)
    except (dist.DistError, RuntimeError) as error:
        if isinstance(error, RankLostError):
            raise
        raise RankLostError(
            f"the group of {roles.world_size} ranks was not formed: {str(error).splitlines()[0]}"
        ) from error
    return dist.group.WORLD, generations


def _wait_for_all(store: Any, roles: Roles, rank: int, timeout: float) -> None:
    """Where a rank never comes, the group would only say that it timed out."""
    store.set(f"specmeta/{rank}", b"here")
    deadline = time.monotonic() + timeout
    while True:
        absent = [r for r in range(roles.world_size) if not store.check([f"specmeta/{r}"])]
        if not absent:
            return
        if time.monotonic() > deadline:
            names = ", ".join(roles.name(r) for r in absent)
            raise RankSilentError(f"{names} did not come within {timeout:g} s")
        time.sleep(0.05)
