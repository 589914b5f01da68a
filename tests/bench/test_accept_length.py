"""The benchmark's promises on a small part of its prompts; the figures are those of the bundled
drafters in float64, in which nothing may depend on the batch.
"""

from typing import Any

import pytest

from specmeta_workers import Pair
from specmeta_workers.bench import (
    AcceptLengthOptions,
    Report,
    difference_lines,
    measure_accept_length,
    settings,
)

TYPES = ("DSpark", "DFlash", "MTP")
SMALL: dict[str, Any] = {"requests": 6, "new_tokens": 16}
ONE: dict[str, Any] = {
    "decoding_types": ("DSpark",),
    "draft_lens": (7,),
    "modes": ("aggregated",),
    **SMALL,
}


@pytest.fixture(scope="module")
def report(pairs: tuple[Pair, ...]) -> Report:
    options = AcceptLengthOptions(draft_lens=(1, 7), batches=(1, 8), **SMALL)
    return measure_accept_length(pairs, options)


def test_every_setting_has_a_row(report: Report) -> None:
    cells = [(row.decoding_type, row.mode, row.batch, row.draft_len) for row in report.rows]
    assert len(cells) == 24
    assert set(cells) == {
        (decoding_type, mode, batch, draft_len)
        for decoding_type in TYPES
        for mode in ("aggregated", "disaggregated")
        for batch in (1, 8)
        for draft_len in (1, 7)
    }


def test_outputs_equal_plain_greedy_decoding_in_every_setting(report: Report) -> None:
    assert [row.outputs_equal for row in report.rows] == [6] * 24
    assert [row.outputs_equal for row in report.plain] == [6, 6]


@pytest.mark.parametrize("decoding_type", TYPES)
def test_accept_length_does_not_depend_on_the_batch_or_the_mode(
    report: Report, decoding_type: str
) -> None:
    rows = [row for row in report.rows if row.decoding_type == decoding_type]
    assert [(row.batch_ratio, row.lengths_equal) for row in rows] == [(1.0, 6)] * 8
    for draft_len in (1, 7):
        pooled = {row.accept_length_pooled for row in rows if row.draft_len == draft_len}
        assert len(pooled) == 1


def test_a_run_in_which_all_is_equal_has_no_findings(report: Report) -> None:
    assert report.findings() == []
    assert difference_lines(report) == []


@pytest.mark.parametrize("decoding_type", TYPES)
def test_a_longer_draft_is_accepted_further(report: Report, decoding_type: str) -> None:
    rows = {row.draft_len: row for row in report.rows if row.decoding_type == decoding_type}
    assert rows[1].accept_length_pooled > 1.3
    assert rows[7].accept_length_pooled > rows[1].accept_length_pooled
    shares = rows[7].acceptance_by_position
    assert list(shares) == sorted(shares, reverse=True)


def test_the_cost_of_drafting_is_that_of_an_iteration(report: Report) -> None:
    cost: dict[tuple[str, int], float] = {}
    for row in report.rows:
        draft, target, share = row.draft_ms, row.target_ms, row.draft_share
        assert draft is not None
        assert target is not None
        assert share == pytest.approx(draft / (draft + target))
        cost[row.decoding_type, row.draft_len] = draft
    assert cost["MTP", 7] > 2 * cost["MTP", 1]  # a forward a draft
    assert all(row.target_ms is not None for row in report.plain)


def test_processes_share_the_prompts_and_change_nothing(pair: Pair, report: Report) -> None:
    seen: list[int] = []
    options = AcceptLengthOptions(batches=(1,), processes=2, **ONE)
    shared = measure_accept_length([pair], options, lambda _, tokens: seen.append(tokens))
    (row,) = shared.rows
    alone = next(r for r in report.rows if (r.draft_len, r.batch) == (7, 1))
    assert (row.outputs_equal, row.speedup_pairs) == (6, 2)
    assert row.accept_length_mean == pytest.approx(alone.accept_length_mean, rel=1e-12)
    assert row.acceptance_by_position == alone.acceptance_by_position
    assert row.draft_ms is not None
    assert 0 < sum(seen) <= 2 * 6 * 16


def test_there_are_as_many_processes_as_cores_while_each_fills_its_batches() -> None:
    assert AcceptLengthOptions().processes_for(2) == 2
    assert AcceptLengthOptions().processes_for(64) == 2
    assert AcceptLengthOptions(batches=(1,)).processes_for(64) == 32
    assert AcceptLengthOptions(requests=8).processes_for(2) == 1


def test_modes_after_the_first_serve_the_outer_draft_lengths_alone() -> None:
    def served(options: AcceptLengthOptions) -> list[tuple[str, int]]:
        group = settings(options)[0]
        return [(setting.mode, setting.draft_len) for setting in group if setting.draft_len]

    options = AcceptLengthOptions(decoding_types=("MTP",), draft_lens=(1, 3, 5))
    first = [("aggregated", 1), ("aggregated", 3), ("aggregated", 5)]
    assert served(options) == [*first, ("disaggregated", 1), ("disaggregated", 5)]
    full = AcceptLengthOptions(decoding_types=("MTP",), draft_lens=(1, 3, 5), full=True)
    assert served(full)[3:] == [("disaggregated", 1), ("disaggregated", 3), ("disaggregated", 5)]
    one = AcceptLengthOptions(decoding_types=("MTP",), draft_lens=(5,))
    assert served(one) == [("aggregated", 5), ("disaggregated", 5)]


def test_graph_buckets_change_nothing(pair: Pair, report: Report) -> None:
    options = AcceptLengthOptions(batches=(8,), graph_batch_sizes=(3, 8), **ONE)
    (padded,) = measure_accept_length([pair], options).rows
    unpadded = next(r for r in report.rows if (r.draft_len, r.batch) == (7, 8))
    assert padded.outputs_equal == 6
    assert padded.accept_length_pooled == unpadded.accept_length_pooled


@pytest.mark.parametrize("index", [0, 1, 2], ids=TYPES)
def test_the_default_slot_fault_shows_in_the_accept_length_alone(
    pairs: tuple[Pair, ...], index: int
) -> None:
    options = AcceptLengthOptions(
        batches=(1, 8), fault="default-slot", **{**ONE, "decoding_types": (TYPES[index],)}
    )
    faulty = measure_accept_length([pairs[index]], options)
    alone, beside = faulty.rows
    assert beside.batch_ratio <= 0.8
    assert [alone.outputs_equal, beside.outputs_equal] == [6, 6]
    assert any("accept length" in finding for finding in faulty.findings())


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_sampled_outputs_are_those_of_the_smallest_batch(pair: Pair, temperature: float) -> None:
    options = AcceptLengthOptions(batches=(1, 4), temperature=temperature, top_k=50, **ONE)
    sampled = measure_accept_length([pair], options)
    assert sampled.temperature == temperature
    assert [(row.outputs_equal, row.lengths_equal) for row in sampled.rows] == [(6, 6)] * 2
    assert [row.outputs_equal for row in sampled.plain] == [6, 6]
    assert sampled.findings() == []


def test_a_confidence_threshold_shortens_what_is_accepted(pair: Pair, report: Report) -> None:
    options = AcceptLengthOptions(batches=(1, 4), confidence_threshold=0.9, **ONE)
    cut = measure_accept_length([pair], options)
    everything = next(r for r in report.rows if (r.draft_len, r.batch) == (7, 1))
    for row in cut.rows:
        assert 1.0 < row.accept_length_pooled < everything.accept_length_pooled
        assert (row.outputs_equal, row.lengths_equal) == (6, 6)
