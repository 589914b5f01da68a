from typing import Any

import pytest

from specmeta_workers.distributed import Kind, Mailbox, Message, RankLostError, Roles
from tests.distributed.group_cases import in_threads, make_groups

ROLES = Roles(context_ranks=1, generation_ranks=2)


def make_mailboxes(timeout: float = 20.0) -> list[Mailbox]:
    groups = make_groups(3, 4 * timeout)
    return [Mailbox(group, ROLES, rank, timeout) for rank, group in enumerate(groups)]


def close(mailboxes: list[Mailbox]) -> None:
    in_threads([mailbox.close for mailbox in mailboxes])


def give_up(mailboxes: list[Mailbox]) -> None:
    """Release the threads of a group that was given up."""
    over = RankLostError("over")
    in_threads([lambda mailbox=mailbox: mailbox.give_up(over) for mailbox in mailboxes])  # type: ignore[misc]


def receive(mailbox: Mailbox) -> Message:
    message = mailbox.take(20.0)
    assert message is not None
    return message


def test_messages_arrive_whole_and_in_order_from_each_sender() -> None:
    mailboxes = make_mailboxes()
    bodies = [b"", b"\x00", b"x" * 1_000_000, b"last"]
    for body in bodies:
        mailboxes[1].send(0, Kind.RESULTS, body)
        mailboxes[2].send(0, Kind.HANDOVER, body + b"2")
    got: dict[int, list[Message]] = {1: [], 2: []}
    for _ in range(8):
        message = receive(mailboxes[0])
        got[message.source].append(message)
    assert [message.body for message in got[1]] == bodies
    assert [message.body for message in got[2]] == [body + b"2" for body in bodies]
    assert {message.kind for message in got[1]} == {Kind.RESULTS}
    assert mailboxes[0].take() is None
    assert mailboxes[1].take() is None
    close(mailboxes)


def test_waiting_for_a_kind_keeps_the_others_in_order() -> None:
    mailboxes = make_mailboxes()
    mailboxes[0].send(1, Kind.HANDOVER, b"a")
    mailboxes[0].send(1, Kind.LAST_HANDOVER)
    mailboxes[0].send(1, Kind.GO)
    mailboxes[0].send(1, Kind.HANDOVER, b"b")
    assert mailboxes[1].wait_for(Kind.GO).source == 0
    kinds = [(m.kind, m.body) for m in (receive(mailboxes[1]) for _ in range(3))]
    assert kinds == [(Kind.HANDOVER, b"a"), (Kind.LAST_HANDOVER, b""), (Kind.HANDOVER, b"b")]
    close(mailboxes)


def test_a_rank_with_nothing_to_say_outlives_the_timeout() -> None:
    mailboxes = make_mailboxes(timeout=1.0)
    assert mailboxes[0].take(2.5) is None  # longer than the timeout, and no rank is lost
    mailboxes[0].send(1, Kind.GO)
    assert receive(mailboxes[1]).kind is Kind.GO
    close(mailboxes)


def test_a_silent_rank_is_named_to_everybody_who_waits() -> None:
    groups = make_groups(3, 20.0)
    speaking = [Mailbox(groups[rank], ROLES, rank, 1.0) for rank in (0, 1)]
    message = r"^generation rank 2 was silent for 1 s$"
    with pytest.raises(RankLostError, match=message) as caught:  # rank 2 has joined, that is all
        speaking[0].wait_for(Kind.GO)
    speaking[0].give_up(caught.value)
    with pytest.raises(RankLostError, match=message):
        speaking[1].wait_for(Kind.GO)
    give_up([*speaking, Mailbox(groups[2], ROLES, 2, 1.0)])


def test_a_failed_rank_tells_why() -> None:
    mailboxes = make_mailboxes()
    mailboxes[2].give_up(ValueError("7 is no prompt"))
    for mailbox in mailboxes[:2]:
        with pytest.raises(RankLostError, match=r"^generation rank 2: ValueError: 7 is no prompt$"):
            mailbox.wait_for(Kind.GO)
    give_up(mailboxes[:2])


def test_a_broken_collective_is_blamed_on_the_lost_rank_or_on_the_limit() -> None:
    mailboxes = make_mailboxes(timeout=1.0)
    error: Any = RuntimeError("Timed out waiting 1000ms\nfor recv")
    with pytest.raises(RankLostError, match="gather failed although every rank is alive: Timed"):
        mailboxes[0].explain(error, "the gather")
    mailboxes[1].give_up(MemoryError("no room"))
    with pytest.raises(RankLostError, match="generation rank 1: MemoryError: no room"):
        mailboxes[0].explain(error, "the gather")
    give_up([mailboxes[0], mailboxes[2]])
