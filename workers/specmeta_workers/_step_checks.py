"""What a step engine refuses before its first step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ._checks import check_is_deployment
from ._step_worker import check_worker
from ._target import TargetRunner

if TYPE_CHECKING:
    from specmeta import Deployment


def check_engine(deployment: Deployment, target: TargetRunner, worker: object | None) -> None:
    """Refuse a target or a worker that does not fit the deployment.

    Raises:
        TypeError: an argument of another type.
        ValueError: names what differs and the remedy.

    """
    check_is_deployment(deployment)
    if not isinstance(target, TargetRunner):
        raise TypeError(
            f"target: {type(target).__name__} is not a TargetRunner; build it with "
            "TargetRunner.for_deployment"
        )
    if worker is not None:
        check_worker(worker, deployment, target.device)
    engine = deployment.engine
    if engine.tensor_parallel_size != 1:
        raise ValueError(
            f"engine.tensor_parallel_size: {engine.tensor_parallel_size}, but the reference "
            "executor runs on one device; set it to 1"
        )
    _check_target(deployment, target, captures=worker is not None)


def _check_target(deployment: Deployment, target: TargetRunner, *, captures: bool) -> None:
    engine = deployment.engine
    wanted: dict[str, tuple[object, object]] = {
        "num_slots": (target.store.num_slots, engine.num_seq_slots),
        "vocab_size": (target.vocab_size, deployment.target.vocab_size),
        "hidden_size": (target.hidden_size, deployment.target.hidden_size),
        "dtype": (target.dtype, getattr(torch, engine.dtype)),
    }
    if captures:
        wanted["target_layer_ids"] = (target.target_layer_ids, deployment.layers_to_capture)
    for name, (given, needed) in wanted.items():
        if given != needed:
            raise ValueError(
                f"target: its {name} is {given}, the deployment needs {needed}; build the runner "
                "with TargetRunner.for_deployment"
            )
    needed_length = max(engine.max_seq_len, deployment.decoding.max_draft_len + 1)
    if target.max_seq_len < needed_length:
        raise ValueError(
            f"target: its max_seq_len is {target.max_seq_len}, the deployment needs "
            f"{needed_length}; build the runner with TargetRunner.for_deployment"
        )
