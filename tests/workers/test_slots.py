"""The slot pool, against a plain model and by example."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from specmeta import RequestId, SeqSlot
from specmeta_workers import (
    RequestAlreadyAssignedError,
    SlotError,
    SlotHandle,
    SlotPool,
    SlotPoolExhaustedError,
    StaleSlotError,
    UnknownRequestError,
)

_SIZE = 4
_IDS = st.integers(1, 9).map(RequestId)


class SlotPoolMachine(RuleBasedStateMachine):
    """A pool of four beside a dict, a list and a counter."""

    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.pool = SlotPool(_SIZE)
        self.live: dict[RequestId, int] = {}
        self.free = list(range(_SIZE))
        self.uses = [0] * _SIZE

    @rule(target=handles, request_id=_IDS)
    def assign(self, request_id: RequestId) -> tuple[RequestId, SlotHandle | None]:
        if request_id in self.live:
            with pytest.raises(RequestAlreadyAssignedError, match=str(request_id)):
                self.pool.assign(request_id)
            return request_id, None
        if not self.free:
            with pytest.raises(SlotPoolExhaustedError, match=str(request_id)):
                self.pool.assign(request_id)
            return request_id, None
        handle = self.pool.assign(request_id)
        slot = self.free.pop(0)
        self.uses[slot] += 1
        self.live[request_id] = slot
        assert handle == SlotHandle(SeqSlot(slot), self.uses[slot])
        return request_id, handle

    @rule(request_id=_IDS)
    def release(self, request_id: RequestId) -> None:
        if request_id not in self.live:
            with pytest.raises(UnknownRequestError, match=str(request_id)):
                self.pool.release(request_id)
            return
        assert self.pool.release(request_id).slot == self.live[request_id]
        self.free.append(self.live.pop(request_id))

    @rule(held=consumes(handles))
    def release_by_handle(self, held: tuple[RequestId, SlotHandle | None]) -> None:
        request_id, handle = held
        if handle is None:
            return
        slot = self.live.get(request_id)
        if slot != handle.slot or self.uses[handle.slot] != handle.generation:
            with pytest.raises(StaleSlotError, match=f"slot {handle.slot}"):
                self.pool.release(handle)
            return
        self.pool.release(handle)
        self.free.append(self.live.pop(request_id))

    @rule(released=st.lists(_IDS, max_size=3), assigned=st.lists(_IDS, max_size=4))
    def exchange(self, released: list[RequestId], assigned: list[RequestId]) -> None:
        kept = {i for i in self.live if i not in released}
        valid = (
            set(released) <= self.live.keys()
            and len(set(released)) == len(released)
            and len(set(assigned)) == len(assigned)
            and not kept & set(assigned)
            and len(assigned) <= len(self.free) + len(released)
        )
        if not valid:
            with pytest.raises(SlotError):
                self.pool.exchange(released, assigned)
            return
        handles = self.pool.exchange(released, assigned)
        self.free += [self.live.pop(i) for i in released]
        for request_id, handle in zip(assigned, handles, strict=True):
            slot = self.free.pop(0)
            self.uses[slot] += 1
            self.live[request_id] = slot
            assert handle == SlotHandle(SeqSlot(slot), self.uses[slot])

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert {i: self.pool.lookup(i).slot for i in self.pool} == self.live
        assert len(self.pool) == len(self.live)
        assert self.pool.num_free == len(self.free)
        assert self.pool.free_slots == tuple(self.free)
        assert len(set(self.live.values())) == len(self.live), "two requests share a slot"
        assert self.pool.scratch_slot not in self.live.values()
        for request_id in range(1, 10):
            assert (request_id in self.pool) == (request_id in self.live)


TestSlotPoolAgainstAModel = SlotPoolMachine.TestCase
TestSlotPoolAgainstAModel.settings = settings(max_examples=60, stateful_step_count=30)


def test_slots_are_reused_first_freed_first() -> None:
    pool = SlotPool(3)
    for request_id in (11, 12, 13):
        pool.assign(RequestId(request_id))
    pool.release(RequestId(12))
    pool.release(RequestId(11))
    assert pool.assign(RequestId(14)) == SlotHandle(SeqSlot(1), 2)
    assert pool.assign(RequestId(15)) == SlotHandle(SeqSlot(0), 2)


def test_the_scratch_slot_lies_behind_the_pool_and_is_never_assigned() -> None:
    pool = SlotPool(4)
    assert pool.scratch_slot == 4
    assert {pool.assign(RequestId(i)).slot for i in range(1, 5)} == {0, 1, 2, 3}


def test_exhaustion_leaves_the_pool_as_it_was() -> None:
    pool = SlotPool(2)
    first = pool.assign(RequestId(1))
    version = pool.version
    with pytest.raises(SlotPoolExhaustedError, match=r"request_id 3: 2 wanted, 1 of 2 free"):
        pool.exchange((), (RequestId(2), RequestId(3)))
    assert (list(pool), pool.num_free, pool.version) == ([1], 1, version)
    assert pool.check(first) == 1


def test_a_stale_handle_raises_after_its_slot_changed_hands() -> None:
    pool = SlotPool(1)
    old = pool.assign(RequestId(1))
    assert pool.check(old) == 1
    pool.release(RequestId(1))
    with pytest.raises(StaleSlotError, match="slot 0 generation 1 is not live"):
        pool.check(old)
    pool.assign(RequestId(2))
    with pytest.raises(StaleSlotError, match="slot 0 generation 1 is not live"):
        pool.check(old)


@pytest.mark.parametrize("size", [0, -1, True, 2.0, "4", None])
def test_a_pool_size_that_is_no_positive_int_is_refused(size: object) -> None:
    with pytest.raises(ValueError, match=r"num_slots: .* pass the engine's num_seq_slots"):
        SlotPool(size)  # type: ignore[arg-type]  # what a caller without a type checker may pass


@pytest.mark.parametrize("request_id", [True, "7", 7.0, None])
def test_an_id_that_is_no_int_is_refused(request_id: object) -> None:
    pool = SlotPool(2)
    with pytest.raises(TypeError, match="pass the request's real id"):
        pool.assign(request_id)  # type: ignore[arg-type]  # what an untyped caller may pass
    assert pool.num_free == 2
