"""The KV store: slots, lengths, hand-over, and what may never leak between requests."""

import pytest
import torch

from specmeta_workers._kv_store import KVStore, KVView


def make_store(**overrides: int) -> KVStore:
    sizes = {"num_layers": 2, "num_slots": 3, "num_kv_heads": 2, "head_dim": 4, "capacity": 10}
    sizes.update(overrides)
    return KVStore(**sizes, dtype=torch.float64, device="cpu")


def test_store_has_one_row_a_slot_and_a_scratch_row() -> None:
    store = make_store()
    assert store.keys.shape == store.values.shape == (2, 4, 2, 10, 4)
    assert store.scratch_slot == 3
    assert store.lengths == [0, 0, 0, 0]


def test_update_writes_in_place_at_slot_and_position() -> None:
    store = make_store()
    pointer = store.keys.data_ptr()
    # Slot 1, heads 0 and 1, position 6.
    index = torch.tensor([(1 * 2 + head) * 10 + 6 for head in range(2)])
    store.cache.view = KVView(write_index=index, slots=slice(1, 2), length=7)
    new = torch.arange(8, dtype=torch.float64).view(1, 2, 1, 4) + 1
    keys, values = store.cache.update(new, -new, 1)
    assert keys.shape == values.shape == (1, 2, 7, 4)
    assert torch.equal(keys[:, :, 6:], new)
    assert torch.equal(values[:, :, 6:], -new)
    assert keys.data_ptr() == store.keys[1, 1].data_ptr(), "a range of slots is read as a view"
    assert store.keys.data_ptr() == pointer
    assert int(store.keys.count_nonzero()) == 8


def test_scattered_slots_are_gathered_in_row_order() -> None:
    store = make_store()
    store.keys[0, 2] = 2.0
    index = torch.tensor([0, 10, 40, 50])  # position 0 of slots 0 and 2
    store.cache.view = KVView(write_index=index, slots=torch.tensor([2, 0]), length=3)
    keys, _ = store.cache.update(
        torch.zeros(2, 2, 1, 4).double(), torch.zeros(2, 2, 1, 4).double(), 0
    )
    assert keys[0, 0, 2, 0] == 2.0
    assert keys[1, 0, 2, 0] == 0.0


def test_truncate_moves_a_length_and_touches_no_value() -> None:
    store = make_store()
    store.keys[:, 0] = 5.0
    store.lengths[0] = 8
    before = store.keys.clone()
    store.truncate(0, 3)
    assert store.lengths == [3, 0, 0, 0]
    assert torch.equal(store.keys, before)


@pytest.mark.parametrize("length", [-1, 9])
def test_truncate_refuses_to_grow_a_row(length: int) -> None:
    store = make_store()
    store.lengths[0] = 8
    with pytest.raises(ValueError, match=rf"length: {length} is outside 0 to 8"):
        store.truncate(0, length)


@pytest.mark.parametrize("slot", [-1, 3])
def test_slots_outside_the_pool_are_refused_everywhere(slot: int) -> None:
    store = make_store()
    state = torch.zeros(2, 2, 1, 4, dtype=torch.float64)
    calls = (
        lambda: store.open(slot),
        lambda: store.truncate(slot, 0),
        lambda: store.export(slot),
        lambda: store.install(slot, state, state),
    )
    for call in calls:
        with pytest.raises(ValueError, match=f"slot: {slot} is outside the pool of 3"):
            call()


def test_open_clears_what_the_last_request_left_even_nan() -> None:
    store = make_store()
    store.keys[:, 1] = torch.nan
    store.values[:, 1] = torch.inf
    store.keys[:, 0] = 7.0
    store.lengths[1] = 4
    store.open(1)
    assert store.lengths[1] == 0
    assert not store.keys[:, 1].any()
    assert not store.values[:, 1].any()
    assert (store.keys[:, 0] == 7.0).all(), "other rows are untouched"


def test_export_and_install_move_a_row_between_stores() -> None:
    source, sink = make_store(), make_store(num_slots=1, capacity=6)
    source.keys[:, 2] = torch.randn(2, 2, 10, 4, dtype=torch.float64)
    source.values[:, 2] = torch.randn(2, 2, 10, 4, dtype=torch.float64)
    source.lengths[2] = 5
    sink.keys[:, 0] = torch.nan
    keys, values = source.export(2)
    assert keys.shape == (2, 2, 5, 4)
    sink.install(0, keys, values)
    source.keys.zero_()
    assert sink.lengths == [5, 0]
    assert torch.equal(sink.keys[:, 0, :, :5], keys)
    assert torch.equal(sink.values[:, 0, :, :5], values)
    assert not sink.keys[:, 0, :, 5:].any()


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((2, 2, 11, 4), torch.float64, "11 tokens exceed the capacity of 10"),
        ((1, 2, 3, 4), torch.float64, "does not fit a store of 2 layers"),
        ((2, 2, 3, 4), torch.float32, "same precision"),
        ((2, 2, 3), torch.float64, "does not fit"),
    ],
)
def test_install_refuses_what_does_not_fit(
    shape: tuple[int, ...], dtype: torch.dtype, message: str
) -> None:
    store = make_store()
    store.lengths[0] = 2
    state = torch.ones(shape, dtype=dtype)
    with pytest.raises(ValueError, match=message):
        store.install(0, state, state)
    assert store.lengths[0] == 2
    assert not store.keys.any()


def test_use_outside_a_forward_is_an_error() -> None:
    store = make_store()
    state = torch.zeros(1, 2, 1, 4, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"TargetRunner\.forward"):
        store.cache.update(state, state, 0)


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="num_slots: 0 is not a size"):
        make_store(num_slots=0)
