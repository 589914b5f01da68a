"""Begin and end of the parts of a run: rank 0 starts each on all ranks and keeps the journal."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Protocol

from ._journal import encode_results
from ._mailbox import Kind, Mailbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._requests import RequestResult
    from ._journal import JournalWriter


class Parts(Protocol):
    """What a rank needs to serve one part after the other."""

    def begin(self, part: int) -> None:
        """Wait until every rank has finished the part before."""
        ...

    def report(self, results: Sequence[RequestResult]) -> None:
        """Put finished requests of this part into the journal."""
        ...

    def poll(self) -> None:
        """Between two steps: do what others wait for, and raise where a rank is lost."""
        ...

    def end(self) -> None:
        """Wait until every rank has finished the last part."""
        ...


class Follower:
    """Every rank but 0."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def begin(self, part: int) -> None:
        """Say that this rank is ready, and wait for rank 0's word."""
        del part
        self.end()

    def report(self, results: Sequence[RequestResult]) -> None:
        """Send the results to rank 0."""
        if results:
            self._mailbox.send(0, Kind.RESULTS, encode_results(results))

    def poll(self) -> None:
        """Raise where a rank is lost."""
        self._mailbox.check()

    def end(self) -> None:
        """Say that this rank is ready, and wait for rank 0's word."""
        self._mailbox.send(0, Kind.READY)
        self._mailbox.wait_for(Kind.GO)


class Coordinator:
    """Rank 0. A part lasts from its start to the message of the rank that finished it last."""

    def __init__(self, mailbox: Mailbox, journal: JournalWriter) -> None:
        self._mailbox, self._journal = mailbox, journal
        self._ready: dict[int, float] = {}
        self._part: int | None = None
        self._began = 0.0

    def begin(self, part: int) -> None:
        """Wait for everybody, then start the part on every rank."""
        self._finish()
        self._part = part
        self._journal.write(part=part)
        self._start()

    def report(self, results: Sequence[RequestResult]) -> None:
        """Write the results into the journal."""
        if results:
            self._record(encode_results(results))

    def poll(self) -> None:
        """Take in the results of the others; raise where a rank is lost."""
        while self._take(0.0):
            pass

    def end(self) -> None:
        """Wait for everybody, then let every rank go."""
        self._finish()
        self._start()

    def _start(self) -> None:
        self._began = time.perf_counter()
        for peer in self._mailbox.peers:
            self._mailbox.send(peer, Kind.GO)

    def _finish(self) -> None:
        while len(self._ready) < len(self._mailbox.peers):
            self._take(1.0)
        if self._part is not None:
            self._journal.write(part=self._part, seconds=max(self._ready.values()) - self._began)
        self._ready.clear()

    def _take(self, wait: float) -> bool:
        message = self._mailbox.take(wait)
        if message is None:
            return False
        if message.kind is Kind.READY:
            self._ready[message.source] = message.arrived
        else:
            self._record(message.body)
        return True

    def _record(self, body: bytes) -> None:
        self._journal.write(part=self._part, results=json.loads(body))
