"""The generation path is one graph: it traces whole, and no value in it reaches the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from specmeta import RequestId
from specmeta_workers._draft_output import Parts
from specmeta_workers._generation_path import Rows
from specmeta_workers._sampling import SamplingTensors
from specmeta_workers._step_layout import RowIndex
from tests.workers.recorded_steps import record
from tests.workers.worker_cases import CASES, Rig, live_rows, make_rig, same_state, state_of

cases = pytest.mark.parametrize("case", CASES)


def rows_of(rig: Rig, batch: dict[int, tuple[int, int]], padding: int) -> Rows:
    """A step's tensors: accepted tokens and length of each row, and padding rows."""
    rows = {i: rig.row(accepted, length) for i, (accepted, length) in batch.items()}
    metadata = rig.metadata(
        request_ids=tuple(map(RequestId, rows)),
        seq_lens=tuple(len(row.inputs) for row in rows.values()),
        num_padding=padding,
    )
    worker = rig.worker
    layout, sampling = worker._layout(metadata)
    worker._admission.admit(metadata)
    filler = rig.tokens(padding * rig.width)
    inputs = [token for row in rows.values() for token in row.inputs]
    targets = [token for row in rows.values() for token in row.targets]
    return Rows(
        layout.index,
        worker.batch_to_slot[: layout.num_rows],
        torch.cat((torch.tensor(inputs), filler)),
        rig.logits_of(torch.cat((torch.tensor(targets), filler))),
        torch.cat([*(row.captured for row in rows.values()), rig.captured(padding * rig.width)]),
        sampling,
    )


def seeded(case: str) -> Rig:
    """A rig with two requests, one of them beyond the window of a block drafter."""
    rig = make_rig(**CASES[case])
    rig.context(1, rig.captured(12))
    rig.context(2, rig.captured(40))
    return rig


def compiled_path(rig: Rig) -> Callable[[Rows], Parts]:
    """The path as one graph, or an error where it is not one."""
    torch._dynamo.reset()  # traces of other workers count as ours
    path: Callable[[Rows], Parts] = rig.worker._generate_padded
    return torch.compile(path, fullgraph=True, backend="eager")


@cases
def test_it_traces_as_one_graph_that_decides_the_same(case: str) -> None:
    eager, traced = seeded(case), seeded(case)
    compiled = compiled_path(traced)
    width = eager.width
    with torch.inference_mode():
        for batch in (
            {1: (3, width), 2: (width, width)},
            {1: (1, width), 2: (2, width)},
        ):
            outputs = [
                eager.worker._generate_padded(rows_of(eager, batch, 2)),
                compiled(rows_of(traced, batch, 2)),
            ]
            for mine, theirs in zip(*outputs, strict=True):
                if mine is None or theirs is None:
                    assert mine is theirs
                else:
                    assert torch.equal(mine[:2], theirs[:2])
            if "sampled" not in case:
                assert outputs[0][1][:2].tolist() == [count for count, _ in batch.values()]
    assert same_state(state_of(eager.worker), traced.worker)
    for mine, theirs in zip(live_rows(eager.worker), live_rows(traced.worker), strict=True):
        assert torch.equal(mine, theirs)


def run_without_values(rig: Rig) -> Parts:
    """The path on tensors that have shapes and no values: what reads one raises."""
    rows = rows_of(rig, {1: (2, rig.width), 2: (1, 2)}, 1)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fake = Rows(
        RowIndex(*map(mode.from_tensor, rows.index)),
        mode.from_tensor(rows.slots),
        mode.from_tensor(rows.input_ids),
        mode.from_tensor(rows.logits),
        mode.from_tensor(rows.captured),
        rows.sampling and SamplingTensors(*map(mode.from_tensor, rows.sampling)),
    )
    with torch.no_grad(), mode:
        parts: Parts = rig.worker._generate_padded(fake)
    return parts


@cases
def test_no_shape_and_no_branch_depends_on_a_value(case: str) -> None:
    rig = seeded(case)
    tokens, accepted, drafts, lengths, confidence = run_without_values(rig)
    assert tokens.shape == (3, rig.width)
    assert accepted.shape == lengths.shape == (3,)
    assert drafts.shape == (3, rig.width - 1)
    assert (confidence is not None) == ("confidence" in case)


Plant = Callable[[Rig, Rows, Tensor], object]
PLANTS: dict[str, Plant] = {
    "item of an outcome": lambda rig, rows, accepted: accepted[0].item(),
    "item of a buffer": lambda rig, rows, accepted: rig.worker.context_lens[0].item(),
    "list": lambda rig, rows, accepted: rows.slots.tolist(),
    "branch": lambda rig, rows, accepted: 1 if (accepted > 1).any() else 0,
    "boolean mask": lambda rig, rows, accepted: rows.captured[rows.captured[:, 0] > 0],
    "boolean mask of a buffer": lambda rig, rows, accepted: rig.worker.context_lens[
        rig.worker.position_initialized
    ],
    "nonzero": lambda rig, rows, accepted: accepted.nonzero(),
    "unique": lambda rig, rows, accepted: torch.unique(rows.slots),
    "repeat": lambda rig, rows, accepted: rows.slots.repeat_interleave(accepted),
}


def planted(case: str, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A rig whose path does something of `PLANTS` in its middle."""
    rig = seeded(case)
    accept = rig.worker._acceptance.accept

    def accept_and_look(rows: Rows, positions: Tensor) -> tuple[Tensor, Tensor]:
        tokens, accepted = accept(rows, positions)
        plant(rig, rows, accepted)
        return tokens, accepted

    monkeypatch.setattr(rig.worker._acceptance, "accept", accept_and_look)
    return rig


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_dependence_on_a_value_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = planted("DSpark", PLANTS[name], monkeypatch)
    with pytest.raises((DataDependentOutputException, DynamicOutputShapeException)):
        run_without_values(rig)


def test_a_planted_host_read_breaks_the_trace_and_the_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = planted("DFlash", PLANTS["branch"], monkeypatch)
    rows = rows_of(rig, {1: (2, rig.width)}, 1)
    with torch.inference_mode():
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled_path(rig)(rows)
        with pytest.raises(RuntimeError, match="cannot read a value to the host"):
            record(lambda: rig.worker._generate_padded(rows))
