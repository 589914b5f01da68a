"""Bytes of a worker's buffers, computed by hand."""

from typing import Any

import pytest

from specmeta import BufferSizes, buffer_sizes
from specmeta.testing import make_deployment

ROWS = 17  # 16 slots and the scratch row
BOOKKEEPING = 8 + 8 + 1


@pytest.mark.parametrize(
    ("kind", "overrides", "expected"),
    [
        # Of a slot: layers, window, keys and values, heads, channels, bytes of a number.
        (
            "DSpark",
            {},
            (ROWS * (2 * 32 * 2 * 2 * 16 * 4 + BOOKKEEPING), 256 * 2 * 64 * 4, 0),
        ),
        (
            "DSpark",
            {"use_rejection_sampling": True, "dtype": "bfloat16"},
            (
                ROWS * (2 * 32 * 2 * 2 * 16 * 2 + BOOKKEEPING),
                256 * 2 * 64 * 2,
                ROWS * 7 * 256 * 4,  # always float32
            ),
        ),
        (
            "DFlash",
            {"sliding_window": None, "target_layer_ids": (0, 1, 3), "max_seq_len": 200},
            (ROWS * (2 * 200 * 2 * 2 * 16 * 4 + BOOKKEEPING), 256 * 3 * 64 * 4, 0),
        ),
        (
            "DFlash",
            {"attention_kind": "latent", "num_key_value_heads": None, "head_dim": 48},
            (ROWS * (2 * 32 * 48 * 4 + BOOKKEEPING), 256 * 2 * 64 * 4, 0),
        ),
        (
            "MTP",
            {"dtype": "float64"},
            (ROWS * (256 * 2 * 2 * 16 * 8 + BOOKKEEPING + 64 * 8), 256 * 64 * 8, 0),
        ),
        (
            "DSpark",
            {"drafter": {"hidden_size": 32, "target_hidden_size": 64}, "head_dim": 32},
            (ROWS * (2 * 32 * 2 * 2 * 32 * 4 + BOOKKEEPING), 256 * 2 * 64 * 4, 0),
        ),
    ],
    ids=str,
)
def test_buffers_take_what_their_shapes_say(
    kind: Any, overrides: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    sizes = buffer_sizes(make_deployment(kind, **overrides))
    assert sizes == BufferSizes(*expected)
    assert sizes.total == sum(expected)


@pytest.mark.parametrize("absent", ["num_key_value_heads", "head_dim"])
def test_what_the_checkpoint_does_not_state_is_not_guessed(absent: str) -> None:
    overrides: dict[str, Any] = {absent: None}
    sizes = buffer_sizes(make_deployment(use_rejection_sampling=True, **overrides))
    assert sizes == BufferSizes(None, 256 * 2 * 64 * 4, ROWS * 7 * 256 * 4)
    assert sizes.total == 256 * 2 * 64 * 4 + ROWS * 7 * 256 * 4


def test_slots_and_not_the_batch_decide_the_state() -> None:
    small = buffer_sizes(make_deployment(max_num_requests=1, num_seq_slots=16))
    assert small.slot_state == buffer_sizes(make_deployment()).slot_state
    more = buffer_sizes(make_deployment(num_seq_slots=33))
    assert more.slot_state == 2 * buffer_sizes(make_deployment()).slot_state  # type: ignore[operator]


def test_a_window_bounds_the_state_of_long_sequences() -> None:
    positions: dict[str, Any] = {"max_position_embeddings": 1_048_576, "max_seq_len": 1_048_576}
    windowed = buffer_sizes(make_deployment(**positions))
    assert windowed.slot_state == buffer_sizes(make_deployment()).slot_state
    dense = buffer_sizes(make_deployment(**positions, sliding_window=None))
    assert dense.slot_state == ROWS * (2 * 1_048_576 * 64 * 4 + BOOKKEEPING)
