"""Host side of a step: which request sits in which slot, decided before any state changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ._errors import ContextGapError, UnknownRequestError
from ._slots import SlotHandle, SlotPool

if TYPE_CHECKING:
    from specmeta import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata, RequestId

    from ._windows import ContextWindows

    Metadata = DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata


class SlotAdmission:
    """Slots of the live requests, their windows' life cycle, and the batch's device mirror.

    A request owns its slot from its first context row until its id is reported finished, in or out
    of the batch. A refused batch changes nothing.
    """

    def __init__(self, windows: ContextWindows) -> None:
        self.windows = windows
        self.pool = SlotPool(windows.num_slots)
        self.batch_to_slot = torch.full(
            (windows.num_slots,),
            self.pool.scratch_slot,
            dtype=torch.long,
            device=windows.context_lens.device,
        )
        # By handle, so that a slot that changed hands outside this class is not taken for seeded.
        self._seeded: dict[RequestId, SlotHandle] = {}
        self._admitted: tuple[Metadata, int] | None = None

    def admit(self, metadata: Metadata) -> None:
        """Release, assign and reset slots for this batch, and mirror them on the device.

        Repeating an unchanged batch without contexts costs nothing.

        Raises:
            UnknownRequestError: a generation row that was never seeded.
            ContextGapError: a context chunk that does not continue its request.
            SlotPoolExhaustedError: more live requests than slots.

        """
        pool = self.pool
        if self._admitted is not None and metadata.num_contexts == 0:
            known, version = self._admitted
            if known is metadata and version == pool.version:
                return
        contexts = metadata.request_ids[: metadata.num_contexts]
        self._check_generations(metadata)
        self._check_continuations(metadata)
        # An id that owns no slot has nothing to release: it finished before its first step here.
        released = [i for i in metadata.finished_request_ids if i in pool]
        fresh = {i for i in contexts if not self._is_seeded(i)}
        stale_slots = [pool.lookup(i).slot for i in released]
        pool.exchange(released, [i for i in contexts if i not in pool])
        for request_id in released:
            self._seeded.pop(request_id, None)
        restarted = [
            pool.lookup(i).slot
            for i, first in zip(contexts, metadata.context_positions, strict=True)
            if first == 0 or i in fresh
        ]
        self.windows.reset([*stale_slots, *restarted])
        self._seeded.update((i, pool.lookup(i)) for i in contexts)
        slots = [pool.lookup(i).slot for i in metadata.request_ids]
        self.batch_to_slot.fill_(pool.scratch_slot)
        self.batch_to_slot[: len(slots)] = torch.tensor(slots, dtype=torch.long)
        self._admitted = (metadata, pool.version)

    def _is_seeded(self, request_id: RequestId) -> bool:
        return request_id in self.pool and (
            self._seeded.get(request_id) == self.pool.lookup(request_id)
        )

    def _check_generations(self, metadata: Metadata) -> None:
        for index in range(metadata.num_contexts, len(metadata.request_ids)):
            request_id = metadata.request_ids[index]
            if not self._is_seeded(request_id):
                raise UnknownRequestError(
                    f"request_ids[{index}]: generation row {request_id} was never seeded on this "
                    "worker; run its context, or a seed step, under the same id first"
                )

    def _check_continuations(self, metadata: Metadata) -> None:
        continued = [
            (index, metadata.request_ids[index], first)
            for index, first in enumerate(metadata.context_positions)
            if first > 0 and self._is_seeded(metadata.request_ids[index])
        ]
        if not continued:
            return
        ends = self.windows.context_lens.tolist()  # one device sync, however many chunks
        for index, request_id, first in continued:
            end = ends[self.pool.lookup(request_id).slot]
            if first != end:
                raise ContextGapError(
                    f"context_positions[{index}]: the chunk of request {request_id} starts at "
                    f"{first}, but its window ends at {end}; send the chunk that starts at {end}, "
                    "or start over with a chunk at 0"
                )
