"""The report as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from ._report import Report

SUFFIXES = (".png", ".svg")


def check_plot_path(path: Path) -> None:
    """Refuse, before a long run, a picture that could not be written after it.

    Raises:
        ValueError: another suffix than .png or .svg, or no such folder.
        ImportError: matplotlib is missing.

    """
    if path.suffix not in SUFFIXES:
        raise ValueError(f"plot: {path} ends in neither {' nor '.join(SUFFIXES)}; rename it")
    if not path.parent.is_dir():
        raise ValueError(f"plot: the folder {path.parent} does not exist; create it first")
    import matplotlib as mpl

    del mpl


def save_plot(report: Report, path: Path) -> None:
    """Draw pooled accept length and speed-up over the draft length: a colour a method, a line a
    mode and batch.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    lengths, speeds = figure.subplots(1, 2)
    groups = list(dict.fromkeys((row.decoding_type, row.mode, row.batch) for row in report.rows))
    methods = list(dict.fromkeys(method for method, _, _ in groups))
    drawn = dict.fromkeys(methods, 0)
    for method, mode, batch in groups:
        rows = sorted(
            (r for r in report.rows if (r.decoding_type, r.mode, r.batch) == (method, mode, batch)),
            key=lambda row: row.draft_len,
        )
        # Equal lines must all be seen: earlier ones are wider and paler.
        width = 1.5 * (len(groups) // len(methods) - drawn[method])
        drawn[method] += 1
        style: dict[str, Any] = {"linewidth": width, "marker": "o", "alpha": 0.6}
        style["color"] = f"C{methods.index(method)}"
        style["linestyle"] = "-" if mode == "aggregated" else "--"
        x = [row.draft_len for row in rows]
        label = f"{method}, {mode}, batch {batch}"
        lengths.plot(x, [row.accept_length_pooled for row in rows], label=label, **style)
        speeds.plot(x, [row.speedup for row in rows], label=label, **style)
    speeds.axhline(1.0, color="grey", linestyle=":", label="plain decoding")
    for axes, name in ((lengths, "accept length, pooled"), (speeds, "speed-up over plain")):
        axes.set_xlabel("draft length K")
        axes.set_ylabel(name)
        axes.set_ylim(bottom=0)
        axes.set_xticks(sorted({row.draft_len for row in report.rows}))
        axes.grid(alpha=0.3)
    lengths.legend(loc="lower right", fontsize="x-small")
    fault = "" if report.fault is None else f", {report.fault} fault"
    figure.suptitle(f"{', '.join(methods)}; prompts: {report.rows[0].requests}{fault}")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
