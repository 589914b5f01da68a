"""The bytes that a deployment announces are those of the buffers that its worker allocates."""

from typing import Any

import pytest
import torch
from torch import Tensor

from specmeta import DecodingType, buffer_sizes
from specmeta._types import DType
from specmeta.testing import make_deployment
from specmeta_workers import TargetRunner
from specmeta_workers._target_layout import TargetRows
from tests.workers.tiny_targets import HIDDEN, LAYERS, VOCAB, tiny_qwen3
from tests.workers.worker_cases import buffers_of, draft_probs_of, make_rig


def size(buffers: dict[str, Tensor]) -> int:
    return sum(buffer.numel() * buffer.element_size() for buffer in buffers.values())


@pytest.mark.parametrize("kind", ["DSpark", "DFlash", "MTP"])
@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"dtype": "bfloat16", "num_seq_slots": 9},
        {"use_rejection_sampling": True, "max_draft_len": 3},
        {"sliding_window": None, "max_seq_len": 100},
        {"sliding_window": 500, "dtype": "float64", "use_rejection_sampling": True},
    ],
    ids=str,
)
def test_a_worker_allocates_what_the_deployment_says(
    kind: DecodingType, overrides: dict[str, Any]
) -> None:
    rig = make_rig(kind=kind, **overrides)
    sizes = buffer_sizes(rig.deployment)
    assert sizes.slot_state == size(buffers_of(rig.worker))
    assert sizes.draft_probs == size(draft_probs_of(rig.worker))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layers", [(0, 2), (1,), (-1, 0, 2), None], ids=str)
def test_a_target_hands_over_what_the_deployment_says(
    layers: tuple[int, ...] | None, dtype: DType
) -> None:
    fields: dict[str, Any] = {"hidden_size": HIDDEN, "vocab_size": VOCAB, "dtype": dtype}
    fields |= {"target": {"num_layers": LAYERS}, "max_seq_len": 64, "max_num_tokens": 256}
    if layers is None:
        deployment = make_deployment("MTP", **fields)
    else:
        deployment = make_deployment(target_layer_ids=layers, mask_token_id=0, **fields)
    target = TargetRunner.for_deployment(tiny_qwen3(dtype=getattr(torch, dtype)), deployment)
    full = TargetRows(num_contexts=4, seq_lens=(64,) * 4, slots=(0, 1, 2, 3))
    _, captured = target.forward(full, torch.zeros(256, dtype=torch.long))
    assert buffer_sizes(deployment).captured_states == size({"captured": captured})


def test_the_windows_are_all_of_their_storage() -> None:
    windows = make_rig().worker.windows
    assert windows._storage.untyped_storage().nbytes() == size({"kv": windows.kv})
