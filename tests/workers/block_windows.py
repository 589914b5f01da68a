"""What the window of a block drafter must hold, and what must be drafted from it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from specmeta import RequestId
from specmeta_workers._draft_worker import DraftWorker
from tests.workers.worker_cases import Rig


def check_window(worker: DraftWorker[Any], request_id: int, states: Tensor, *, first: int) -> None:
    """The slot holds the last positions of `states`, which starts at `first`, and shows only them.

    Computed from the published formulas alone: position p, column (p + 1) % window, readable iff
    (start - c) mod window < valid.
    """
    model, window = worker.draft_model, worker.deployment.window_size
    slot = worker.pool.lookup(RequestId(request_id)).slot
    end = first + states.shape[0]
    valid = min(window, states.shape[0])
    assert worker.context_lens[slot] == end
    assert worker.valid_lens[slot] == valid
    assert worker.position_initialized[slot]
    positions = torch.arange(first, end)
    kv = model.context_kv(model.project_context(states), positions)
    shown = {c for c in range(window) if (end - c) % window < valid}
    assert shown == {(p + 1) % window for p in range(end - valid, end)}
    for p in range(end - valid, end):
        held = worker.kv_windows[slot, :, (p + 1) % window]
        torch.testing.assert_close(held, kv[p - first], rtol=0, atol=1e-12)
    readable = worker.windows.readable(torch.tensor([end]), torch.tensor([valid]))[0]
    assert set(readable.nonzero().flatten().tolist()) == shown


def draft_from(rig: Rig, states: Tensor, *, first: int, bonus: int) -> list[int]:
    """The drafts of a request whose window holds these states, without any ring or mask."""
    model = rig.worker.draft_model
    end = first + states.shape[0]
    kept = states[-rig.deployment.window_size :]
    positions = torch.arange(end - kept.shape[0], end)
    kv = model.context_kv(model.project_context(kept), positions).transpose(0, 1)[None]
    anchor = torch.tensor([bonus])
    hidden = model.block(
        anchor,
        torch.tensor([end]),
        kv,
        torch.ones(1, kept.shape[0], dtype=torch.bool),
        rig.deployment.block_size,
    )
    drafts: Tensor = model.draft(hidden, anchor, rig.width - 1)
    return drafts[0].tolist()
