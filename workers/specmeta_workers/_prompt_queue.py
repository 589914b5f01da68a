"""Requests that wait for a slot."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from ._requests import WaitingRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from specmeta import RequestId

    from ._requests import Request


class PromptQueue:
    """New requests in their order, and preempted ones before them."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[RequestId, WaitingRequest] = OrderedDict()

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._waiting

    def requests(self) -> Iterator[Request]:
        """The requests, the next one first."""
        return (waiting.request for waiting in self._waiting.values())

    def num_ready(self, paused: Collection[RequestId]) -> int:
        """How many may be admitted."""
        return len(self._waiting) - sum(request_id in self._waiting for request_id in paused)

    def first_ready(self, paused: Collection[RequestId]) -> WaitingRequest | None:
        """The next one that may be admitted."""
        ready = (w for request_id, w in self._waiting.items() if request_id not in paused)
        return next(ready, None)

    def append(self, request: Request) -> None:
        """Add a new request."""
        self._waiting[request.request_id] = WaitingRequest(request)

    def put_back(self, waiting: WaitingRequest) -> None:
        """Make a preempted request the next one."""
        request_id = waiting.request.request_id
        self._waiting[request_id] = waiting
        self._waiting.move_to_end(request_id, last=False)

    def remove(self, waiting: WaitingRequest) -> None:
        """Take one out."""
        del self._waiting[waiting.request.request_id]

    def find(self, request_id: RequestId) -> WaitingRequest | None:
        """The request with this id, where it waits."""
        return self._waiting.get(request_id)
