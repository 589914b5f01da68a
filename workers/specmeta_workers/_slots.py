"""Which sequence slot belongs to which request."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs

from specmeta import RequestId, SeqSlot

from ._errors import (
    RequestAlreadyAssignedError,
    SlotPoolExhaustedError,
    StaleSlotError,
    UnknownRequestError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@attrs.frozen
class SlotHandle:
    """A slot as it was when one request got it."""

    slot: SeqSlot
    """Row of the slot-indexed buffers, `0 <= slot < num_slots`."""
    generation: int
    """How many times the slot has been assigned, this time included."""


def _check_num_slots(_: object, __: attrs.Attribute[int], value: int) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(
            f"num_slots: {value!r} is not a pool size; pass the engine's num_seq_slots (an int of "
            "at least 1)"
        )


@attrs.define(eq=False)
class SlotPool:
    """Injective map from live request ids to slots, first freed first reused.

    There is no default slot: an id that was never assigned raises. `scratch_slot`, one past the
    last slot, is never handed out; padding rows use it. Every refused operation leaves the pool
    as it was.
    """

    num_slots: int = attrs.field(validator=_check_num_slots)
    """Slots to hand out: the engine's `num_seq_slots`, never a batch size."""
    _free: deque[SeqSlot] = attrs.field(init=False)
    _handles: dict[RequestId, SlotHandle] = attrs.field(init=False, factory=dict)
    _owners: list[RequestId | None] = attrs.field(init=False)
    _generations: list[int] = attrs.field(init=False)
    _version: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._free = deque(SeqSlot(slot) for slot in range(self.num_slots))
        self._owners = [None] * self.num_slots
        self._generations = [0] * self.num_slots

    @property
    def scratch_slot(self) -> SeqSlot:
        """Row for padding, `num_slots`."""
        return SeqSlot(self.num_slots)

    @property
    def num_free(self) -> int:
        """Slots that no request owns."""
        return len(self._free)

    @property
    def free_slots(self) -> tuple[SeqSlot, ...]:
        """Slots that no request owns, the next one to be assigned first."""
        return tuple(self._free)

    @property
    def version(self) -> int:
        """Grows with every change, so that a cache of slots knows when it is out of date."""
        return self._version

    def __len__(self) -> int:
        return len(self._handles)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._handles

    def __iter__(self) -> Iterator[RequestId]:
        """Live request ids, oldest assignment first."""
        return iter(self._handles)

    def lookup(self, request_id: RequestId) -> SlotHandle:
        """The slot of a live request.

        Raises:
            UnknownRequestError: the id owns no slot.

        """
        handle = self._handles.get(request_id)
        if handle is None:
            raise UnknownRequestError(
                f"request_id {request_id!r} owns no slot; run a context (or seed) forward under "
                "the request's real id before its first generation row"
            )
        return handle

    def check(self, handle: SlotHandle) -> RequestId:
        """The request that owns the handle's slot.

        Raises:
            StaleSlotError: the slot was released, or reassigned, after the handle was made.

        """
        known = 0 <= handle.slot < self.num_slots
        owner = self._owners[handle.slot] if known else None
        if owner is None or self._generations[handle.slot] != handle.generation:
            raise StaleSlotError(
                f"slot {handle.slot} generation {handle.generation} is not live; look the request "
                "up again, and drop handles when their request finishes"
            )
        return owner

    def assign(self, request_id: RequestId) -> SlotHandle:
        """Give a request a slot of its own.

        Raises:
            RequestAlreadyAssignedError: it owns one already.
            SlotPoolExhaustedError: no slot is free.
            TypeError: the id is no int.

        """
        return self.exchange((), (request_id,))[0]

    def release(self, request: RequestId | SlotHandle) -> SlotHandle:
        """Take the slot of a finished request back and return the handle that is now stale.

        Raises:
            UnknownRequestError: the id owns no slot.
            StaleSlotError: the handle is not live.

        """
        request_id = self.check(request) if isinstance(request, SlotHandle) else request
        handle = self.lookup(request_id)
        self.exchange((request_id,), ())
        return handle

    def exchange(
        self, released: Sequence[RequestId], assigned: Sequence[RequestId]
    ) -> tuple[SlotHandle, ...]:
        """Release, then assign, as one step that happens completely or not at all.

        Returns the handles of `assigned`, in order.

        Raises:
            UnknownRequestError, RequestAlreadyAssignedError, SlotPoolExhaustedError, TypeError: as
                `release` and `assign`; an id given twice counts as unknown or assigned.

        """
        freed: dict[RequestId, SeqSlot] = {}
        for request_id in released:
            slot = self.lookup(request_id).slot
            if request_id in freed:
                raise UnknownRequestError(
                    f"request_id {request_id!r} is released twice; name it once"
                )
            freed[request_id] = slot
        self._check_assignable(assigned, freed)
        for request_id, slot in freed.items():
            del self._handles[request_id]
            self._owners[slot] = None
            self._free.append(slot)
        handles = tuple(self._take(request_id) for request_id in assigned)
        if freed or handles:
            self._version += 1
        return handles

    def _check_assignable(
        self, assigned: Sequence[RequestId], freed: dict[RequestId, SeqSlot]
    ) -> None:
        seen: set[RequestId] = set()
        for request_id in assigned:
            if type(request_id) is not int:
                raise TypeError(f"request_id {request_id!r} is no int; pass the request's real id")
            if request_id in seen or (request_id in self._handles and request_id not in freed):
                raise RequestAlreadyAssignedError(
                    f"request_id {request_id} owns a slot already; look it up, or release it first"
                )
            seen.add(request_id)
        available = len(self._free) + len(freed)
        if len(assigned) > available:
            raise SlotPoolExhaustedError(
                f"no slot for request_id {assigned[available]}: {len(assigned)} wanted, {available}"
                f" of {self.num_slots} free; report finished requests in finished_request_ids, or "
                "raise num_seq_slots"
            )

    def _take(self, request_id: RequestId) -> SlotHandle:
        slot = self._free.popleft()
        self._generations[slot] += 1
        handle = SlotHandle(slot, self._generations[slot])
        self._handles[request_id] = handle
        self._owners[slot] = request_id
        return handle
