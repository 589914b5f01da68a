"""The bytes that a deployment announces are those of the buffers that its worker allocates."""

from typing import Any

import pytest
from torch import Tensor

from specmeta import DecodingType, buffer_sizes
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
    most = rig.deployment.engine.max_num_tokens
    assert sizes.captured_states == size({"captured": rig.captured(most)})


def test_the_windows_are_all_of_their_storage() -> None:
    windows = make_rig().worker.windows
    assert windows._storage.untyped_storage().nbytes() == size({"kv": windows.kv})
