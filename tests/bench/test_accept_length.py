"""The benchmark's promises on a small part of its prompts; the figures are those of the bundled
pair in float64, in which nothing may depend on the batch.
"""

import io

import pytest
from rich.console import Console

from specmeta_workers import Pair
from specmeta_workers.bench import (
    TABLE_WIDTH,
    AcceptLengthOptions,
    Report,
    accept_length_table,
    difference_lines,
    measure_accept_length,
)

OPTIONS = AcceptLengthOptions(draft_lens=(1, 7), batches=(1, 8), requests=16, new_tokens=32)


@pytest.fixture(scope="module")
def report(pair: Pair) -> Report:
    return measure_accept_length(pair, OPTIONS)


def test_every_setting_has_a_row(report: Report) -> None:
    cells = {(row.mode, row.batch, row.draft_len) for row in report.rows}
    assert len(report.rows) == 8
    assert cells == {
        (mode, batch, draft_len)
        for mode in ("aggregated", "disaggregated")
        for batch in (1, 8)
        for draft_len in (1, 7)
    }


def test_outputs_equal_plain_greedy_decoding_in_every_setting(report: Report) -> None:
    assert [row.outputs_equal for row in report.rows] == [16] * 8
    assert [row.outputs_equal for row in report.plain] == [16, 16]


def test_accept_length_does_not_depend_on_the_batch_or_the_mode(report: Report) -> None:
    assert report.findings() == []
    assert difference_lines(report) == []
    for row in report.rows:
        assert (row.batch_ratio, row.lengths_equal) == (1.0, 16)
    for draft_len in (1, 7):
        pooled = {r.accept_length_pooled for r in report.rows if r.draft_len == draft_len}
        assert len(pooled) == 1


def test_a_longer_draft_is_accepted_further(report: Report) -> None:
    by_length = {row.draft_len: row for row in report.rows}
    assert by_length[1].accept_length_pooled > 1.6
    assert by_length[7].accept_length_pooled > 3.0
    shares = by_length[7].acceptance_by_position
    assert list(shares) == sorted(shares, reverse=True)


def test_processes_share_the_prompts_and_change_nothing(pair: Pair, report: Report) -> None:
    seen: list[int] = []
    options = AcceptLengthOptions(
        draft_lens=(7,),
        batches=(1,),
        modes=("aggregated",),
        requests=16,
        new_tokens=32,
        processes=2,
    )
    shared = measure_accept_length(pair, options, lambda _, tokens: seen.append(tokens))
    (row,) = shared.rows
    alone = next(r for r in report.rows if (r.draft_len, r.batch) == (7, 1))
    assert (row.outputs_equal, row.speedup_pairs) == (16, 2)
    assert row.accept_length_mean == pytest.approx(alone.accept_length_mean, rel=1e-12)
    assert row.acceptance_by_position == alone.acceptance_by_position
    assert 0 < sum(seen) <= 2 * 16 * 32


def test_there_are_as_many_processes_as_cores_while_each_fills_its_batches() -> None:
    assert AcceptLengthOptions().processes_for(2) == 2
    assert AcceptLengthOptions().processes_for(64) == 2
    assert AcceptLengthOptions(batches=(1,)).processes_for(64) == 32
    assert AcceptLengthOptions(requests=8).processes_for(2) == 1


def test_graph_buckets_change_nothing(pair: Pair, report: Report) -> None:
    padded = measure_accept_length(
        pair,
        AcceptLengthOptions(
            draft_lens=(7,),
            batches=(8,),
            modes=("aggregated",),
            requests=16,
            new_tokens=32,
            graph_batch_sizes=(3, 8),
        ),
    )
    unpadded = next(r for r in report.rows if (r.draft_len, r.batch) == (7, 8))
    assert padded.rows[0].outputs_equal == 16
    assert padded.rows[0].accept_length_pooled == unpadded.accept_length_pooled


def test_the_default_slot_fault_collapses_with_the_batch_and_keeps_the_output(pair: Pair) -> None:
    options = AcceptLengthOptions(
        draft_lens=(7,),
        batches=(1, 16),
        modes=("aggregated",),
        requests=16,
        new_tokens=32,
        fault="default-slot",
    )
    faulty = measure_accept_length(pair, options)
    alone, beside = faulty.rows
    assert alone.accept_length_pooled > 3.0
    assert beside.batch_ratio <= 0.6
    assert [alone.outputs_equal, beside.outputs_equal] == [16, 16]
    assert any("accept length" in finding for finding in faulty.findings())


@pytest.mark.parametrize("width", [80, TABLE_WIDTH])
def test_no_figure_of_the_table_is_cut(report: Report, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(accept_length_table(report))
    text = console.export_text()
    assert "…" not in text.replace("1 …", "")
    for row in report.rows:
        line = next(
            line
            for line in text.splitlines()
            if line.split()[:3] == [row.mode, str(row.draft_len), str(row.batch)]
        )
        assert f" {row.accept_length_mean:.2f} " in line
        assert f" {row.accept_length_pooled:.2f} " in line
        assert f" {row.speedup:.2f} " in line
        assert line.rstrip().endswith(f"{row.outputs_equal}/16")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draft_lens": (1, 0)}, r"draft_lens\[1\]: 0 is not an int of at least 1"),
        ({"draft_lens": ()}, "draft_lens: empty"),
        ({"batches": (4, 4)}, "batches: .* repeats"),
        ({"modes": ("both",)}, r"modes\[0\]: 'both' is none of aggregated, disaggregated"),
        ({"requests": 0}, "requests: 0 is not"),
        ({"fault": "no-such"}, "fault: 'no-such' is unknown"),
    ],
)
def test_options_that_cannot_run_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AcceptLengthOptions(**change)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (AcceptLengthOptions(requests=10_000), "requests: 10000, but there are"),
        (AcceptLengthOptions(draft_lens=(3, 8)), r"draft_lens\[1\]: 8 is above the 7 drafts"),
        (AcceptLengthOptions(new_tokens=1), "new_tokens: 1 is the prefill's token alone"),
    ],
)
def test_options_that_the_pair_cannot_serve_are_refused(
    pair: Pair, options: AcceptLengthOptions, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        measure_accept_length(pair, options)
