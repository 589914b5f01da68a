"""What a CUDA graph does to a step, on any device.

A recording freezes the operations and the addresses of their tensors, and with them whatever the
host decided; a replay runs the same operations on the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from specmeta_workers._draft_output import Parts


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Runs operations and remembers them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self.calls: list[tuple[Callable[..., Any], Sequence[Any], dict[str, Any], Any]] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if not all(isinstance(leaf, Tensor) for leaf in tree_leaves(out)):
            if any(isinstance(leaf, Tensor) for leaf in tree_leaves(args)):
                raise RuntimeError(f"{func}: a capture cannot read a value to the host")
            return out  # of types or sizes, which a capture may know
        self.calls.append((func, args, kwargs or {}, out))
        return out

    def replay(self) -> None:
        """Run the operations again, each outcome to where it was."""
        for func, args, kwargs, out in self.calls:
            for old, new in zip(tree_leaves(out), tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def record(step: Callable[[], Parts]) -> Callable[[], Parts]:
    """The replay of a step, as `BucketRunner` takes it."""
    recorder = Recorder()
    with recorder:
        parts = step()

    def replay() -> Parts:
        with torch.inference_mode():
            recorder.replay()
        return parts

    return replay
