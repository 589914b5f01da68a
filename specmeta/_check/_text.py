"""A report as lines of text; in colour where a terminal shows it."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from .._findings import Finding
from .._text import printable
from ._report import MAX_FINDINGS, InputReport, Report, Slots

Style = Literal["error", "warning", "overridden", "title", "plain"]
_MIB = 2**20
_REPORTS = 3

STOPPED = f"stopped after {MAX_FINDINGS} findings; mend these and check again"
"""Of an input whose rest was not read."""


class Line(NamedTuple):
    """A line, and what it is."""

    text: str
    style: Style = "plain"


def lines(report: Report) -> Iterator[Line]:
    """Each input with what was recognised, its findings and what it takes; then the summary."""
    for item in report.inputs:
        yield from _input(item)
    yield Line(report.summary, "title")


def _input(item: InputReport) -> Iterator[Line]:
    for note in item.notes:
        yield Line(printable(f"{item.path}: {note}"), "title")
    for found in item.findings:
        yield Line(printable(finding_text(found)), found.severity)
        if found.reports:
            yield Line(f"    reports: {_some(found)}")
        if found.reason is not None:
            yield Line(f"    reason: {found.reason}")
    if item.stopped:
        yield Line(printable(f"{item.path}: {STOPPED}"), "error")
    yield from map(Line, _memory(item))
    if item.slots is not None:
        yield Line(_slots(item.slots))


def finding_text(found: Finding) -> str:
    """``file:line: severity field[index]: fact; remedy [rule]``."""
    place = ":".join(str(part) for part in (found.file, found.line) if part is not None)
    lead = f"{place}: " if place else ""
    return f"{lead}{found.severity} {found.message} [{found.rule}]"


def _memory(item: InputReport) -> Iterator[str]:
    sizes = item.memory
    if sizes is None:
        return
    if sizes.slot_state is None:
        absent = " and ".join(item.not_stated)
        told = "write it, or state it of a checkpoint"
        yield f"  slot buffers: not known without the drafter's {absent}; {told}"
    else:
        yield f"  slot buffers: {_bytes(sizes.slot_state)}"
    yield f"  capture buffers: {_bytes(sizes.captured_states)}"
    if sizes.draft_probs:
        yield f"  draft probabilities: {_bytes(sizes.draft_probs)}"
    else:
        yield "  draft probabilities: none, without rejection sampling"


def _bytes(count: int) -> str:
    return f"{count / _MIB:.1f} MiB ({count} bytes)"


def _slots(slots: Slots) -> str:
    return (
        f"  sequence slots: {slots.num_seq_slots}; EngineConfig.sized gives {slots.plain} plain, "
        f"{slots.overlap_headroom} with overlap headroom, {slots.disaggregated} disaggregated, "
        f"{slots.disaggregated_overlap_headroom} with both"
    )


def _some(found: Finding) -> str:
    """The first reports of a finding, and where the others are."""
    more = len(found.reports) - _REPORTS
    rest = f" and {more} more: --explain {found.rule}" if more > 0 else ""
    return ", ".join(found.reports[:_REPORTS]) + rest
