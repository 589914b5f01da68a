"""Errors of a run over several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specmeta import RequestId

    from ._journal import Served


class RankLostError(RuntimeError):
    """A rank of this run is gone, silent or failed; the message names it."""


class RankSilentError(RankLostError):
    """A rank lives, perhaps, but said nothing for too long."""


def describe(error: BaseException) -> str:
    """An error as one line, with what stopped a server rather than only that it stopped."""
    cause = error.__cause__
    text = f"{type(error).__name__}: {error}"
    return text if cause is None else f"{text} ({type(cause).__name__}: {cause})"


class DistributedError(RuntimeError):
    """The run ended early. Every submitted request has a result or is in `unfinished`."""

    def __init__(
        self,
        reason: str,
        unfinished: Mapping[str, Sequence[RequestId]],
        finished: Mapping[str, Served],
    ) -> None:
        lines = [f"  {label}: {_ranges(ids)}" for label, ids in unfinished.items() if ids]
        count = sum(len(ids) for ids in unfinished.values())
        super().__init__(
            "\n".join([f"{reason}; {count} requests have no result:", *lines]) if lines else reason
        )
        self.unfinished = {label: tuple(ids) for label, ids in unfinished.items()}
        """Ids without a result, by the label of their server."""
        self.finished = dict(finished)
        """What was complete, by label."""


def _ranges(ids: Sequence[int]) -> str:
    """Every id, neighbours as a range: `1001-1004, 1007`."""
    spans: list[list[int]] = []
    for request_id in sorted(ids):
        if spans and request_id == spans[-1][1] + 1:
            spans[-1][1] = request_id
        else:
            spans.append([request_id, request_id])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)
