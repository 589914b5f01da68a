"""The report as two tables for people. In ASCII alone: any terminal, pipe or file can take it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from ._published import PUBLISHED, REPORT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._report import Report, Row

SHOWN = 3
"""Differences of a row that are printed: 2 % of 64 requests are one, more are a fault."""

TABLE_WIDTH = 84
"""Columns that the tables need; print them on a console that is at least this wide."""

_SHORT_MODES = {"aggregated": "aggr", "disaggregated": "disagg"}


def accept_length_table(report: Report) -> Table:
    """Accept length of every method and draft length, beside what the public report has.

    One line a method and draft length, in the first mode of the run; a column a batch size.
    """
    mode = report.rows[0].mode
    batches = list(dict.fromkeys(row.batch for row in report.rows))
    table = _table(
        f"Accept length, {mode}" + _fault(report),
        f"published: {REPORT} with 1 and with 16 requests a rank, other models; its DSpark figures "
        "at 16 are those of the slot fault, which --fault default-slot shows here. Others: pooled "
        "accept length here, by batch size.\n"
        "ratio: largest over smallest batch, with its 95 % bootstrap interval.\n"
        f"{report.definition}.",
    )
    _columns(table, (("method", 6), ("K", 1), ("published", 9)))
    _columns(table, ((f"batch {batch}", 7) for batch in batches))
    _columns(table, (("ratio", 5), ("95 %", 11)))
    table.add_column("accepted at 1 ... K, %", min_width=8)  # a narrow terminal wraps this list
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in report.rows:
        if row.mode == mode:
            groups.setdefault((row.decoding_type, row.draft_len), []).append(row)
    previous = ""
    for (method, draft_len), rows in groups.items():
        _gap(table, previous, method)
        previous = method
        published = PUBLISHED.get((method, draft_len))
        by_batch = {row.batch: row for row in rows}
        widest = by_batch[max(by_batch)]
        table.add_row(
            method,
            str(draft_len),
            "" if published is None else f"{published.alone:.2f} {published.beside:.2f}",
            *(f"{by_batch[batch].accept_length_pooled:.2f}" for batch in batches),
            f"{widest.batch_ratio:.3f}",
            f"{widest.batch_ratio_low:.3f}-{widest.batch_ratio_high:.3f}",
            " ".join(f"{100 * share:.0f}" for share in widest.acceptance_by_position),
        )
    return table


def speed_table(report: Report) -> Table:
    """Equality, speed and the cost of drafting; one line a setting."""
    table = _table("Equality and speed" + _fault(report), _speed_caption(report))
    _columns(table, (("method", 6), ("mode", 6), ("batch", 5), ("K", 1), ("mean", 4)))
    _columns(table, (("pooled", 6), ("ratio", 5), ("output", 6), ("lengths", 7), ("tok/s", 5)))
    _columns(table, (("x plain", 7), ("draft", 5), ("share", 5)))
    previous = ""
    for row in report.rows:
        group = f"{row.batch} {row.decoding_type} {row.mode}"
        _gap(table, previous, group)
        previous = group
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.decoding_type,
        _SHORT_MODES[row.mode],
        str(row.batch),
        str(row.draft_len),
        f"{row.accept_length_mean:.2f}",
        f"{row.accept_length_pooled:.2f}",
        f"{row.batch_ratio:.3f}",
        f"{row.outputs_equal}/{row.requests}",
        f"{row.lengths_equal}/{row.requests}",
        f"{row.tokens_per_second:.0f}",
        f"{row.speedup:.2f}",
        "" if row.draft_ms is None else f"{row.draft_ms:.2f}",
        "" if row.draft_share is None else f"{100 * row.draft_share:.0f} %",
    )


def _speed_caption(report: Report) -> str:
    plain = ", ".join(f"{row.tokens_per_second:.0f} at batch {row.batch}" for row in report.plain)
    if report.temperature is None:
        kind, outputs = "greedy decoding", "that of plain greedy decoding, token by token"
    else:
        kind = f"sampling at temperature {report.temperature:g}"
        outputs = "that of the smallest batch, token by token: seeds are per request"
    whose = "of one process" if report.ranks is None else f"of all ranks ({report.ranks})"
    return (
        f"output: requests whose output equals {outputs}. lengths: whose accepted lengths equal "
        "those of the smallest batch, iteration by iteration.\n"
        f"Plain {kind}: {plain} tok/s, {whose}; x plain is the median of interleaved "
        "pairs. draft: median ms of an iteration in the worker, which accepts, keeps its state and "
        "drafts; share: of it and the target's forward.\n"
        f"Distinct 4-grams in the outputs: {report.distinct_4grams:.2f}. {report.dtype}, "
        f"{report.new_tokens} tokens a request, processes: {report.processes}, "
        f"{report.seconds:.0f} s."
    )


def difference_lines(report: Report) -> list[str]:
    """The requests that two runs disagree on, each with its near-tie; the first few of a row."""
    lines = []
    for row in report.rows:
        for difference in row.differences[:SHOWN]:
            line = (
                f"{row}: request {difference.request} differs in its {difference.what} at "
                f"generated token {difference.token}"
            )
            if difference.gap is not None:
                line += f", where the best token leads by {difference.gap:.1e}"
            lines.append(line)
        more = len(row.differences) - SHOWN
        if more > 0:
            lines.append(f"{row}: {more} more, all in --json")
    return lines


def _table(title: str, caption: str) -> Table:
    return Table(
        title=title, caption=caption, caption_justify="left", box=None, padding=(0, 1, 0, 0)
    )


def _columns(table: Table, columns: Iterable[tuple[str, int]]) -> None:
    for name, width in columns:
        is_text = name in ("method", "mode")
        table.add_column(
            name, justify="left" if is_text else "right", no_wrap=True, min_width=width
        )


def _gap(table: Table, previous: str, group: str) -> None:
    """An empty line between groups."""
    if previous and group != previous:
        table.add_row()


def _fault(report: Report) -> str:
    return "" if report.fault is None else f", with the {report.fault} fault"
