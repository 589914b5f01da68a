"""The report as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from ._report import Report, Row

SHOWN = 3
"""Differences of a row that are printed: 2 % of 64 requests are one, more are a fault."""


TABLE_WIDTH = 96
"""Columns that the table needs; a narrower terminal wraps its widest column."""


def accept_length_table(report: Report) -> Table:
    """One line a setting; the caption holds what they share."""
    title = "Accept length and speed"
    if report.fault is not None:
        title += f" with the {report.fault} fault"
    table = Table(
        title=title,
        caption=_caption(report),
        caption_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
    )
    table.add_column("mode", no_wrap=True, min_width=13)
    for name, width in (("K", 1), ("batch", 5), ("mean", 4), ("pooled", 6), ("ratio", 5)):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    table.add_column("95 %", justify="right", no_wrap=True, min_width=11)
    table.add_column("accepted at 1 … K, %", min_width=8)  # a narrow terminal wraps this list
    for name, width in (("tok/s", 5), ("× plain", 7), ("equal", 5)):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    previous = ""
    for row in report.rows:
        group = f"{row.batch} {row.mode}"
        if previous and group != previous:
            table.add_row()
        previous = group
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.mode,
        str(row.draft_len),
        str(row.batch),
        f"{row.accept_length_mean:.2f}",
        f"{row.accept_length_pooled:.2f}",
        f"{row.batch_ratio:.3f}",
        f"{row.batch_ratio_low:.3f}–{row.batch_ratio_high:.3f}",
        " ".join(f"{100 * share:.0f}" for share in row.acceptance_by_position),
        f"{row.tokens_per_second:.0f}",
        f"{row.speedup:.2f}",
        f"{row.outputs_equal}/{row.requests}",
    )


def _caption(report: Report) -> str:
    plain = ", ".join(f"{row.tokens_per_second:.0f} at batch {row.batch}" for row in report.plain)
    return (
        f"{report.definition}.\n"
        "ratio: pooled over that of the smallest batch, with its 95 % bootstrap interval. equal: "
        "requests whose output equals plain greedy decoding, token by token.\n"
        f"Plain greedy decoding: {plain} tok/s; × plain is the median of interleaved pairs.\n"
        f"Distinct 4-grams in the outputs: {report.distinct_4grams:.2f}. {report.dtype}, "
        f"{report.new_tokens} tokens a request, processes: {report.processes}, "
        f"{report.seconds:.0f} s."
    )


def difference_lines(report: Report) -> list[str]:
    """The requests that two runs disagree on, each with its near-tie; the first few of a row."""
    lines = []
    for row in report.rows:
        name = f"{row.mode}, K={row.draft_len}, batch {row.batch}"
        lines += [
            f"{name}: request {d.request} differs in its {d.what} at generated token {d.token}, "
            f"where the best token leads by {d.gap:.1e}"
            for d in row.differences[:SHOWN]
        ]
        more = len(row.differences) - SHOWN
        if more > 0:
            lines.append(f"{name}: {more} more, all in --json")
    return lines
