"""Rules between the steps of a worker: who is live, where it ended, and what must not change.

A step is checked alone when its metadata is built. What this adds is the worker's own bookkeeping,
on the host and from the records alone: linear in the rows, with memory for the live requests and
the ids of released ones.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from . import _rules as rules
from ._errors import show
from ._findings import Finding, Origin, Path, finding
from ._metadata import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata
from ._rules import Rule
from ._static_part import StaticPart

if TYPE_CHECKING:
    from ._deployment import Deployment
    from ._files import Document


_METADATA = (DSparkSpecMetadata, DFlashSpecMetadata, MTPSpecMetadata)


class Step(NamedTuple):
    """The metadata of one step, and where it was recorded."""

    metadata: DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata
    """The batch, validated."""
    document: "Document | None" = None
    """What it was read from; None for metadata that was built in code."""
    path: Path = ()
    """Where it lies in the document; () is the whole of it."""


def check_steps(
    steps: Iterable[Step | Finding],
    *,
    deployment: "Deployment | None" = None,
    mid_run: bool = False,
) -> Iterator[Finding]:
    """What is wrong between the steps of one worker, in their order.

    Args:
        steps: what one worker was told, from its start on, nothing left out. A finding among them
            stands for a step that is invalid by itself: it is handed on, and what such a step may
            have changed is not held against the later ones.
        deployment: what the steps have to agree with. Without it they have to agree with the first,
            and the lengths of sequences are not checked.
        mid_run: whether the recording begins in a running worker. Then a request that was not seen
            before is taken as one that was live and paused: that it was never seeded, or is
            released in vain, is not found.

    Raises:
        TypeError: the deployment is none, or one of the steps is neither a `Step` nor a `Finding`.

    """
    _check_deployment(deployment)
    recording = _Recording(deployment, mid_run=mid_run)
    for step in steps:
        if isinstance(step, Finding):
            recording.forget()
            yield step
        else:
            _check_type(step)
            yield from recording.check(step)


def _check_deployment(given: object) -> None:
    from ._deployment import Deployment

    if not isinstance(given, Deployment | None):
        told = "pass Deployment(...), or None to compare the steps with each other"
        raise TypeError(f"check_steps compares with a Deployment, not {show(given)}; {told}")


def _check_type(step: object) -> None:
    given = step.metadata if isinstance(step, Step) else step
    if given is step or not isinstance(given, _METADATA):
        told = "pass Step(metadata) with metadata of get_spec_metadata(...)"
        raise TypeError(f"check_steps takes steps, not {show(given)}; {told}")


@dataclass(slots=True)
class _Request:
    """What the records say of a live request."""

    first: int | None
    """Position from which on its window was filled without a gap; None where that is not known."""
    fewest: int | None
    """Tokens that it has committed at least: its next position where it has not generated."""
    most: int | None
    """Tokens that it can have committed, every draft accepted."""
    generated: bool = False

    def jump(self, start: int) -> tuple[Rule, str] | None:
        """The rule that a later chunk breaks by starting here, and where it should start."""
        fewest, most = self.fewest, self.most
        if fewest is None or most is None or fewest <= start <= most:
            return None
        if not self.generated:
            return rules.CHUNK_NOT_CONTIGUOUS, f"the end ({most})"
        below = start < fewest
        rule = rules.CONTEXT_AFTER_GENERATION if below else rules.CHUNK_NOT_CONTIGUOUS
        return rule, f"an end ({fewest} to {most}, by the drafts accepted)"


class _Recording:
    """The requests of one worker, step by step."""

    def __init__(self, deployment: "Deployment | None", *, mid_run: bool) -> None:
        self._longest = None if deployment is None else deployment.engine.max_seq_len
        self._window = None if deployment is None else deployment.window_size
        self._static = StaticPart(deployment)
        # Whether an id that is not known here was never seeded.
        self._complete = not mid_run
        self._live: dict[int, _Request] = {}
        # Where a released request ended; None where it had generated.
        self._released: dict[int, int | None] = {}
        # Ids without a slot whose rows have been reported, each once.
        self._reported: set[int] = set()

    def forget(self) -> None:
        """A step is missing: any request may have been seeded or released in it."""
        for known in (self._live, self._released, self._reported):
            known.clear()
        self._complete = False

    def check(self, step: Step) -> Iterator[Finding]:
        """The step in the order of a worker: release, then contexts, then generation rows."""
        metadata = step.metadata
        for name, fact, value in self._static.differences(metadata):
            yield _at(step, rules.STATIC_PART_DIFFERS, name, None, fact, value)
        for index, request_id in enumerate(metadata.finished_request_ids):
            yield from self._release(step, index, request_id)
        for index, start in enumerate(metadata.context_positions):
            yield from self._context(step, index, start)
        for index in range(metadata.num_contexts, len(metadata.request_ids)):
            yield from self._generation(step, index)

    def _release(self, step: Step, index: int, request_id: int) -> Iterator[Finding]:
        request = self._live.pop(request_id, None)
        if request is None and self._complete and request_id not in self._reported:
            before = "was released before" if request_id in self._released else "was never seeded"
            fact = f"request {request_id} holds no slot: it {before}"
            yield _at(step, rules.RELEASE_UNKNOWN, "finished_request_ids", index, fact, request_id)
        self._reported.discard(request_id)
        if request is None or request.generated:
            self._released[request_id] = None
        else:
            self._released[request_id] = request.fewest

    def _context(self, step: Step, index: int, start: int) -> Iterator[Finding]:
        request_id, length = step.metadata.request_ids[index], step.metadata.seq_lens[index]
        end, field = start + length, "context_positions"
        if self._longest is not None and end > self._longest:
            fact = f"the chunk of request {request_id} ends at {end}, beyond {self._longest}"
            yield _at(step, rules.SEQUENCE_TOO_LONG, "seq_lens", index, fact, length)
        request = self._live.get(request_id)
        if request is None:
            yield from self._start(step, index, start)
            first = start if start == 0 or self._complete else None  # else maybe a later chunk
            self._live[request_id] = _Request(first, end, end)
            return
        if start == 0:
            ended = "" if request.fewest is None else f", which has {request.fewest} tokens or more"
            fact = f"0 starts request {request_id} again{ended}"
            yield _at(step, rules.CONTEXT_RESTARTED, field, index, fact, start)
            request.first = 0
        elif (jump := request.jump(start)) is not None:
            rule, end_of_it = jump
            fact = f"{start} is not {end_of_it} of request {request_id}"
            yield _at(step, rule, field, index, fact, start)
            request.first = None
        request.fewest = request.most = end

    def _start(self, step: Step, index: int, start: int) -> Iterator[Finding]:
        """The first chunk of a request, which takes a slot."""
        metadata = step.metadata
        request_id, length = metadata.request_ids[index], metadata.seq_lens[index]
        ended = self._released.pop(request_id, None)
        window = self._window_of(metadata)
        fills = window is not None and length >= window
        # A chunk that fills the window by itself is a seed, and may begin anywhere.
        if start > 0 and start == ended and not fills:
            fact = f"{start} continues request {request_id}, whose slot was released at {ended}"
            yield _at(step, rules.REQUEST_RELEASED, "context_positions", index, fact, start)
        self._reported.discard(request_id)
        if len(self._live) >= self._static.num_seq_slots:
            slots = f"all {self._static.num_seq_slots} slots"
            fact = f"request {request_id} finds {slots} held by live requests"
            yield _at(step, rules.SLOTS_EXHAUSTED, "request_ids", index, fact, request_id)

    def _generation(self, step: Step, index: int) -> Iterator[Finding]:
        request_id, length = step.metadata.request_ids[index], step.metadata.seq_lens[index]
        request = self._live.get(request_id)
        if request is None:
            if request_id in self._released:
                rule, fact = rules.REQUEST_RELEASED, f"request {request_id} was released before"
            elif self._complete:
                rule = rules.REQUEST_NOT_SEEDED
                fact = f"request {request_id} generates, but had no context row"
            else:
                self._live[request_id] = _Request(None, None, None, generated=True)
                return
            if request_id not in self._reported:
                self._reported.add(request_id)
                yield _at(step, rule, "request_ids", index, fact, request_id)
            return
        if not request.generated:
            yield from self._first_generation(step, index, request)
        if request.fewest is not None and request.most is not None:
            if request.fewest == self._longest:  # each row adds one or more: equal only once
                fact = f"request {request_id} has {request.fewest} tokens or more and goes on"
                yield _at(step, rules.SEQUENCE_TOO_LONG, "request_ids", index, fact, request_id)
            request.fewest += 1
            request.most += length

    def _first_generation(self, step: Step, index: int, request: _Request) -> Iterator[Finding]:
        request.generated = True
        window = self._window_of(step.metadata)
        if not request.first or request.fewest is None or window is None:
            return
        filled = request.fewest - request.first
        if filled < window:
            request_id = step.metadata.request_ids[index]
            fact = (
                f"request {request_id} generates with {filled} of {window} window positions "
                f"seeded: its first chunk started at {request.first}"
            )
            yield _at(step, rules.WINDOW_SHORT_AFTER_PREFIX, "request_ids", index, fact, request_id)

    def _window_of(
        self, metadata: DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata
    ) -> int | None:
        """The drafter's window; the metadata of MTP does not say it."""
        if self._window is not None or isinstance(metadata, MTPSpecMetadata):
            return self._window
        return metadata.window_size


def _at(step: Step, rule: Rule, field: str, index: int | None, fact: str, value: object) -> Finding:
    origin = None
    if step.document is not None:
        inner = (field,) if index is None else (field, index)
        origin = Origin(step.document, (*step.path, *inner))
    return finding(rule, field, fact, value=value, index=index, origin=origin)
