"""The report as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from ._report import Report, Row


def accept_length_table(report: Report) -> Table:
    """One line a setting; the caption holds what they share."""
    title = "Accept length and speed"
    if report.fault is not None:
        title += f" with the {report.fault} fault"
    table = Table(title=title, caption=_caption(report), caption_justify="left")
    table.add_column("mode")
    for name in ("K", "batch", "mean", "pooled"):
        table.add_column(name, justify="right")
    table.add_column("batch ratio [95 %]", justify="right")
    table.add_column("accepted at 1 … K, %")
    for name in ("tokens/s", "speed-up", "outputs equal"):
        table.add_column(name, justify="right")
    previous = ""
    for row in report.rows:
        group = f"{row.batch} {row.mode}"
        if previous and group != previous:
            table.add_section()
        previous = group
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> tuple[str, ...]:
    interval = f"{row.batch_ratio:.3f} [{row.batch_ratio_low:.3f}, {row.batch_ratio_high:.3f}]"
    return (
        row.mode,
        str(row.draft_len),
        str(row.batch),
        f"{row.accept_length_mean:.2f}",
        f"{row.accept_length_pooled:.2f}",
        interval,
        " ".join(f"{100 * share:.0f}" for share in row.acceptance_by_position),
        f"{row.tokens_per_second:.0f}",
        f"{row.speedup:.2f} ×",
        f"{row.outputs_equal}/{row.requests}",
    )


def _caption(report: Report) -> str:
    plain = ", ".join(f"{row.tokens_per_second:.0f} at batch {row.batch}" for row in report.plain)
    return (
        f"{report.definition}.\n"
        f"Plain greedy decoding: {plain} tokens/s; speed-up is the median of interleaved pairs.\n"
        f"Distinct 4-grams in the outputs: {report.distinct_4grams:.2f} of all. "
        f"{report.dtype}, {report.new_tokens} tokens a request, {report.processes} processes, "
        f"{report.seconds:.0f} s."
    )


def difference_lines(report: Report) -> list[str]:
    """Each request that two runs disagree on, with its near-tie."""
    return [
        f"{row.mode}, K={row.draft_len}, batch {row.batch}: request {d.request} differs in its "
        f"{d.what} at generated token {d.token}, where the best token leads by {d.gap:.2e}"
        for row in report.rows
        for d in row.differences
    ]
