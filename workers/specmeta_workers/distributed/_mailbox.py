"""Messages between ranks: byte strings over a gloo process group, and signs of life.

Each pair of ranks has two threads at either end, one that sends and one that receives, so nobody's
computation delays anybody's messages, and a message between two ranks never overtakes another. A
rank that has nothing to say says so every second; silence for `timeout`, or a closed connection,
means that the rank is lost, and every later call here names it. Who gives up tells the others why,
so that all name the same rank and not each other.

Messages wait in memory until they are taken. What may be under way at once is the requests of one
part (see `Plan.parts`).
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import torch

from ._errors import RankLostError, RankSilentError, describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._roles import Roles


class Kind(IntEnum):
    """What a message is."""

    ALIVE = 0
    """Nothing new."""
    READY = 1
    """To rank 0: the sender is done with the part before, or has loaded its pair."""
    GO = 2
    """From rank 0: the next part begins."""
    HANDOVER = 3
    """From a context to a generation rank: the bytes of a `Handover`."""
    LAST_HANDOVER = 4
    """From a context to a generation rank: none follows in this part."""
    RESULTS = 5
    """To rank 0: a JSON list of results."""
    OVER = 6
    """The sender gives up; the text says why."""
    BYE = 7
    """The last message."""


@attrs.frozen
class Message:
    """What one rank sent to this one."""

    source: int
    kind: Kind
    body: bytes
    arrived: float
    """`time.perf_counter` at receipt."""


class Mailbox:
    """This rank's end of the connections to all others.

    Args:
        group: a process group with gloo's `send` and `recv`. Its own timeout must be longer: where
            gloo gives up on one rank it drops its connections to all.
        roles: names and number of the ranks.
        rank: this one.
        timeout: seconds that a rank may be silent.

    """

    def __init__(self, group: Any, roles: Roles, rank: int, timeout: float) -> None:
        self._group, self._roles, self._rank, self._timeout = group, roles, rank, timeout
        self._interval = min(1.0, timeout / 5)
        self._inbox: queue.Queue[Message | None] = queue.Queue()
        self._early: deque[Message] = deque()
        self._lost: list[RankLostError] = []
        self.peers = tuple(peer for peer in range(roles.world_size) if peer != rank)
        self._heard = dict.fromkeys(self.peers, time.monotonic())
        self._outboxes: dict[int, queue.Queue[tuple[Kind, bytes]]] = {
            peer: queue.Queue() for peer in self.peers
        }
        self._threads = [
            threading.Thread(target=self._watch, args=(work, peer), daemon=True)
            for peer in self.peers
            for work in (self._send_all, self._receive_all)
        ]
        for thread in self._threads:
            thread.start()

    def send(self, peer: int, kind: Kind, body: bytes = b"") -> None:
        """Queue a message; never waits.

        Raises:
            RankLostError: any rank is lost.

        """
        self.check()
        self._outboxes[peer].put((kind, body))

    def take(self, wait: float = 0.0) -> Message | None:
        """The next message; None where none came in `wait` seconds.

        Raises:
            RankLostError: any rank is lost.

        """
        self.check()
        if self._early:
            return self._early.popleft()
        try:
            message = self._inbox.get(timeout=wait) if wait else self._inbox.get_nowait()
        except queue.Empty:
            message = None
        self.check()
        return message

    def wait_for(self, kind: Kind) -> Message:
        """The next message of this kind, however long it takes; others are kept for `take`."""
        passed: list[Message] = []
        while True:
            message = self.take(self._interval)
            if message is not None and message.kind is kind:
                self._early.extendleft(reversed(passed))
                return message
            if message is not None:
                passed.append(message)

    def check(self) -> None:
        """Raise the `RankLostError` of the first rank that was lost."""
        if self._lost:
            raise self._lost[0]
        peer = min(self._heard, key=self._heard.__getitem__)
        if time.monotonic() - self._heard[peer] > self._timeout:
            name = self._roles.name(peer)
            self._lose(RankSilentError(f"{name} was silent for {self._timeout:g} s"))
            raise self._lost[0]

    def explain(self, error: RuntimeError, what: str) -> NoReturn:
        """Raise the error of the rank whose loss broke a collective.

        A closed connection tells who it was at once, silence within another timeout.
        """
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            self.take(self._interval)
        raise RankLostError(
            f"{what} failed although every rank is alive: {str(error).splitlines()[0]}; give a "
            f"timeout above the longest step ({self._timeout:g} s now)"
        ) from error

    def give_up(self, error: BaseException) -> None:
        """Tell the other ranks why this one ends; returns when those that still listen know it."""
        lost = isinstance(error, RankLostError)
        reason = str(error) if lost else f"{self._roles.name(self._rank)}: {describe(error)}"
        for outbox in self._outboxes.values():
            outbox.put((Kind.OVER, reason.encode()))
        self._end()
        deadline = time.monotonic() + self._interval
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Say goodbye and wait for everybody's; no message may follow."""
        self._end()
        for thread in self._threads:
            thread.join()
        self.check()

    def _end(self) -> None:
        for outbox in self._outboxes.values():
            outbox.put((Kind.BYE, b""))

    def _watch(self, work: Callable[[int], None], peer: int) -> None:
        try:
            work(peer)
        except RuntimeError:  # gloo's error for a closed connection
            self._lose(RankLostError(f"{self._roles.name(peer)} is gone"))

    def _lose(self, error: RankLostError) -> None:
        self._lost.append(error)
        self._inbox.put(None)  # wakes a waiting `take`

    def _send_all(self, peer: int) -> None:
        kind = Kind.ALIVE
        while kind is not Kind.BYE:
            try:
                kind, body = self._outboxes[peer].get(timeout=self._interval)
            except queue.Empty:
                kind, body = Kind.ALIVE, b""
            self._group.send([torch.tensor([kind, len(body)])], peer, 0).wait()
            if body:
                data = torch.frombuffer(bytearray(body), dtype=torch.uint8)
                self._group.send([data], peer, 0).wait()

    def _receive_all(self, peer: int) -> None:
        while True:
            header = torch.empty(2, dtype=torch.int64)
            self._group.recv([header], peer, 0).wait()
            self._heard[peer] = time.monotonic()
            kind, length = Kind(int(header[0])), int(header[1])
            data = torch.empty(length, dtype=torch.uint8)
            if length:
                self._group.recv([data], peer, 0).wait()
            if kind is Kind.BYE:
                self._heard[peer] = math.inf  # silent from now on, and rightly so
                return
            body = data.numpy().tobytes()
            if kind is Kind.OVER:
                self._lose(RankLostError(body.decode()))
            elif kind is not Kind.ALIVE:
                self._inbox.put(Message(peer, kind, body, time.perf_counter()))
