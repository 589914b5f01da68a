"""Measures accept length and speed: over draft length, batch and serving mode, on a real target."""

from ._faults import with_default_slot
from ._options import MODES, AcceptLengthOptions, Fault, Mode
from ._plot import check_plot_path, save_plot
from ._processes import ProcessLostError
from ._report import PlainRow, Report, Row, make_report, measure_accept_length
from ._runner import settings
from ._table import TABLE_WIDTH, accept_length_table, difference_lines, speed_table

__all__ = [
    "MODES",
    "TABLE_WIDTH",
    "AcceptLengthOptions",
    "Fault",
    "Mode",
    "PlainRow",
    "ProcessLostError",
    "Report",
    "Row",
    "accept_length_table",
    "check_plot_path",
    "difference_lines",
    "make_report",
    "measure_accept_length",
    "save_plot",
    "settings",
    "speed_table",
    "with_default_slot",
]
