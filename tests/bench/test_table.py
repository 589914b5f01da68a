"""The tables of a report, and what a report finds."""

import io
from typing import Any

import attrs
import pytest
from rich.console import Console

from specmeta_workers.bench import (
    TABLE_WIDTH,
    PlainRow,
    Report,
    Row,
    accept_length_table,
    difference_lines,
    speed_table,
)
from specmeta_workers.bench._comparison import Difference


def row(decoding_type: str, draft_len: int, batch: int, **change: Any) -> Row:
    values: dict[str, Any] = {
        "decoding_type": decoding_type,
        "mode": "aggregated",
        "draft_len": draft_len,
        "batch": batch,
        "requests": 64,
        "accept_length_mean": 2.25 + draft_len,
        "accept_length_pooled": 1.75 + draft_len,
        "acceptance_by_position": (0.5,) * draft_len,
        "batch_ratio": 1.0,
        "batch_ratio_low": 1.0,
        "batch_ratio_high": 1.0,
        "lengths_equal": 64,
        "outputs_equal": 64,
        "tokens_per_second": 12345.0,
        "speedup": 1.5,
        "speedup_pairs": 8,
        "draft_ms": 12.5,
        "target_ms": 37.5,
        "draft_share": 0.25,
        "differences": (),
    }
    return Row(**(values | change))


def report(*rows: Row, **change: Any) -> Report:
    values: dict[str, Any] = {
        "rows": rows,
        "plain": (
            PlainRow(
                batch=1, requests=64, tokens_per_second=100.0, outputs_equal=64, target_ms=1.0
            ),
        ),
        "distinct_4grams": 0.9,
        "dtype": "float32",
        "new_tokens": 96,
        "temperature": None,
        "fault": None,
        "processes": 2,
        "ranks": None,
        "seconds": 10.0,
    }
    return Report(**(values | change))


EVERYTHING = report(
    *(
        row(decoding_type, draft_len, batch, mode=mode)
        for batch in (1, 16)
        for decoding_type in ("DSpark", "DFlash", "MTP")
        for mode in ("aggregated", "disaggregated")
        for draft_len in (1, 3, 5, 7)
    )
)


def printed(table: object) -> list[str]:
    console = Console(width=TABLE_WIDTH, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text().splitlines()


def test_the_first_table_has_the_published_figures_beside_each_row() -> None:
    lines = {
        tuple(line.split()[:2]): line.split() for line in printed(accept_length_table(EVERYTHING))
    }
    assert lines["DSpark", "7"][2:6] == ["4.51", "1.49", "8.75", "8.75"]
    assert lines["DSpark", "1"][2:6] == ["1.86", "1.20", "2.75", "2.75"]
    assert lines["MTP", "7"][2:6] == ["2.85", "2.85", "8.75", "8.75"]
    assert lines["MTP", "5"][2:4] == ["6.75", "6.75"]
    assert lines["DFlash", "7"][2:4] == ["8.75", "8.75"]


def test_the_second_table_has_a_line_a_setting_with_its_cost() -> None:
    lines = printed(speed_table(EVERYTHING))
    found = [line.split() for line in lines if line[:6].strip() in ("DSpark", "DFlash", "MTP")]
    assert len(found) == 48
    assert found[0][:9] == ["DSpark", "aggr", "1", "1", "3.25", "2.75", "1.000", "64/64", "64/64"]
    assert found[0][9:] == ["12345", "1.50", "12.50", "25", "%"]
    assert found[-1][:4] == ["MTP", "disagg", "16", "7"]


@pytest.mark.parametrize("table", [accept_length_table, speed_table])
def test_no_line_is_cut_and_all_of_it_is_ascii(table: Any) -> None:
    lines = printed(table(EVERYTHING))
    assert all(len(line) <= TABLE_WIDTH for line in lines)
    "\n".join(lines).encode("ascii")


def test_a_cost_that_nobody_timed_is_left_empty() -> None:
    untimed = report(row("MTP", 7, 1, draft_ms=None, target_ms=None, draft_share=None))
    line = next(line for line in printed(speed_table(untimed)) if line.startswith("MTP"))
    assert line.split()[-1] == "1.50"


def test_a_fault_is_named_in_the_titles() -> None:
    faulty = report(row("MTP", 7, 1), fault="default-slot")
    assert "with the default-slot fault" in printed(accept_length_table(faulty))[0]
    assert "with the default-slot fault" in printed(speed_table(faulty))[0]


def test_sampling_changes_what_outputs_are_compared_with() -> None:
    text = " ".join(printed(speed_table(report(row("MTP", 7, 1), temperature=0.5))))
    assert "that of the smallest batch, token by token" in " ".join(text.split())
    assert "sampling at temperature 0.5" in " ".join(text.split())


def test_the_first_differences_of_a_row_are_printed_with_their_ties() -> None:
    found = (
        Difference(3, "output", 7, 1.5e-7),
        *(Difference(i, "output", 1, None) for i in range(4)),
    )
    lines = difference_lines(report(row("DFlash", 5, 16, differences=found)))
    place = "DFlash, aggregated, draft length 5, batch 16"
    assert lines[0] == (
        f"{place}: request 3 differs in its output at generated token 7, "
        "where the best token leads by 1.5e-07"
    )
    assert lines[1] == f"{place}: request 0 differs in its output at generated token 1"
    assert lines[3] == f"{place}: 2 more, all in --json"


@pytest.mark.parametrize(
    ("dtype", "change", "count"),
    [
        ("float64", {"outputs_equal": 63}, 1),
        ("float32", {"outputs_equal": 63}, 0),
        ("float32", {"outputs_equal": 62}, 1),
        ("float32", {"lengths_equal": 62}, 1),
        ("float32", {"batch_ratio": 0.98}, 1),
        ("float32", {"batch_ratio": 0.995}, 0),
        ("bfloat16", {"outputs_equal": 0, "lengths_equal": 0}, 0),
        ("float16", {"batch_ratio": 0.9, "batch_ratio_high": 0.96, "batch_ratio_low": 0.8}, 0),
        ("bfloat16", {"batch_ratio": 0.9, "batch_ratio_high": 0.94, "batch_ratio_low": 0.8}, 1),
        ("bfloat16", {"batch_ratio": 1.2, "batch_ratio_high": 1.3, "batch_ratio_low": 1.1}, 1),
    ],
)
def test_what_is_found_depends_on_the_precision(
    dtype: str, change: dict[str, Any], count: int
) -> None:
    found = report(row("MTP", 7, 16, **change), dtype=dtype).findings()
    assert len(found) == count
    assert all(line.startswith("MTP, aggregated, draft length 7, batch 16: ") for line in found)


def test_plain_decoding_that_depends_on_the_batch_is_found() -> None:
    plain = attrs.evolve(report().plain[0], batch=16, outputs_equal=60)
    found = report(row("MTP", 7, 16), plain=(plain,)).findings()
    assert found == ["plain decoding, batch 16: output equal in 60 of 64 requests"]
