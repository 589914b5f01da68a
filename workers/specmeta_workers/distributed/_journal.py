"""What a run has achieved so far, as JSON Lines: it survives every rank."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from .._requests import RequestResult
from ._errors import DistributedError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from specmeta import RequestId

    from ._plan import Plan


@attrs.define(eq=False)
class Served:
    """What one kind of server did."""

    results: list[RequestResult] = attrs.Factory(list)
    """In the order of the plan."""
    tokens: list[int] = attrs.Factory(list)
    """Generated tokens of each completed part."""
    seconds: list[float] = attrs.Factory(list)
    """From the start of each completed part to the message of the rank that finished it last."""


def encode_results(results: Iterable[RequestResult]) -> bytes:
    """The body of a `RESULTS` message."""
    return json.dumps([attrs.asdict(result) for result in results]).encode()


def _result(fields: dict[str, Any]) -> RequestResult:
    given: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
    return RequestResult(**given)


class JournalWriter:
    """Appends to the journal; each record is one line, written at once.

    Raises:
        ValueError: the file exists; it is the journal of another run.

    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("xb", buffering=0)
        except FileExistsError as error:
            raise ValueError(f"{path}: exists already; give each run its own journal") from error

    def write(self, **record: Any) -> None:
        """Append a record."""
        self._file.write((json.dumps(record) + "\n").encode())

    def close(self) -> None:
        """Nothing more will come."""
        self._file.close()


class JournalReader:
    """Follows a journal while it grows, and knows what is missing.

    Args:
        path: of the journal, which need not exist yet.
        plan: of the run.

    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self._path, self._plan = path, plan
        self._offset = 0
        self._labels = [server.label for server in plan.servers]
        self._served = {label: Served() for label in self._labels}

    def read(self) -> list[tuple[str, RequestResult]]:
        """Take in what is new: the results with the labels of their servers, as they came."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]  # the last line may be half written
        self._offset += len(whole)
        news: list[tuple[str, RequestResult]] = []
        for line in whole.splitlines():
            record = json.loads(line)
            label = self._labels[self._plan.parts[record["part"]].server]
            served = self._served[label]
            if "results" in record:
                results = [_result(fields) for fields in record["results"]]
                served.results += results
                news += [(label, result) for result in results]
            elif "seconds" in record:
                tokens = sum(len(result.token_ids) for result in served.results)
                served.tokens.append(tokens - sum(served.tokens))
                served.seconds.append(record["seconds"])
        return news

    @property
    def served(self) -> dict[str, Served]:
        """Everything so far, by label, results in the order of the plan."""
        for server, label in enumerate(self._labels):
            served = self._served[label]
            by_id = {result.request_id: result for result in served.results}
            ids = self._plan.request_ids(server)
            served.results = [by_id[request_id] for request_id in ids if request_id in by_id]
        return self._served

    @property
    def unfinished(self) -> dict[str, tuple[RequestId, ...]]:
        """The requests without a result, by label."""
        missing = {}
        for server, label in enumerate(self._labels):
            done = {result.request_id for result in self._served[label].results}
            ids = self._plan.request_ids(server)
            missing[label] = tuple(i for i in ids if i not in done)
        return missing

    def error(self, reason: str) -> DistributedError:
        """The error of a run that ended here."""
        return DistributedError(reason, self.unfinished, self.served)


def read_journal(path: Path, plan: Plan) -> dict[str, Served]:
    """What a finished run served, by label.

    Raises:
        DistributedError: requests have no result.

    """
    reader = JournalReader(path, plan)
    reader.read()
    if any(reader.unfinished.values()):
        raise reader.error(f"{path}: the run ended early")
    return reader.served
