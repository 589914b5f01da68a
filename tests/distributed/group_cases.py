"""Ranks as threads of one process, each with a gloo group of its own."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

T = TypeVar("T")


def make_groups(size: int, timeout: float) -> list[Any]:
    """A process group a rank; they know each other through memory alone."""
    gloo: Any = dist.ProcessGroupGloo
    store: Any = HashStore()

    def make(rank: int) -> Any:
        options = gloo._Options()
        options._timeout = timedelta(seconds=timeout)
        options._devices = [gloo.create_device(hostname="127.0.0.1")]
        return gloo(store, rank, size, options)

    return in_threads([lambda rank=rank: make(rank) for rank in range(size)])  # type: ignore[misc]


def in_threads(functions: Sequence[Callable[[], T]]) -> list[T]:
    """Run them at the same time; their results, or the first error."""
    with ThreadPoolExecutor(len(functions)) as pool:
        futures = [pool.submit(function) for function in functions]
        return [future.result() for future in futures]
