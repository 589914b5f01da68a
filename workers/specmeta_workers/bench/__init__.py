"""Measures accept length: over draft length, batch size and serving mode, on a real pair."""

from ._faults import DefaultSlotWorker
from ._options import MODES, AcceptLengthOptions, Fault, Mode
from ._plot import check_plot_path, save_plot
from ._report import PlainRow, Report, Row, measure_accept_length
from ._table import TABLE_WIDTH, accept_length_table, difference_lines

__all__ = [
    "MODES",
    "TABLE_WIDTH",
    "AcceptLengthOptions",
    "DefaultSlotWorker",
    "Fault",
    "Mode",
    "PlainRow",
    "Report",
    "Row",
    "accept_length_table",
    "check_plot_path",
    "difference_lines",
    "measure_accept_length",
    "save_plot",
]
