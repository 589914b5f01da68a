"""Rules between recorded steps: what each refuses, what it lets pass, and where it points."""

from typing import Any

import pytest

from specmeta import Finding, Step, check_steps
from specmeta.testing import make_deployment, make_dspark_metadata, make_mtp_metadata
from tests.specmeta.step_cases import DEPLOYMENT, SEED, found, row, short

LIFE = (
    row({7: (0, 20)}),
    row({7: (20, 10), 8: (0, 5)}),
    row({}, {7: 8, 8: 8}),
    row({}, {7: 1}),
    row({}, {8: 3}),
    row({9: (0, 4)}, {8: 8}, finished=(7,)),
    row({7: (0, 6)}, {9: 8}),  # the id of a released request, as a new one
    row(finished=(7, 8, 9)),
)


def test_a_life_of_requests_has_no_finding() -> None:
    assert found(*LIFE) == []


@pytest.mark.parametrize("drop", range(len(LIFE) - 1))
def test_most_steps_cannot_be_left_out(drop: int) -> None:
    rules = {f.rule for f in found(*LIFE[:drop], *LIFE[drop + 1 :])}
    expected: dict[int, set[str]] = {
        0: {"window_short_after_prefix"},  # 20 may be the start behind a prefix hit
        1: {"request_not_seeded"},
        5: {"request_not_seeded", "context_restarted"},
        6: {"release_unknown"},
    }
    assert rules == expected.get(drop, set())


def test_a_generation_row_needs_a_context_row_before() -> None:
    (finding,) = found(SEED, row({}, {7: 8, 9: 8}), row({}, {9: 8}))
    assert finding == Finding(
        rule="request_not_seeded",
        severity="error",
        field="request_ids",
        index=1,
        value=9,
        fact="request 9 generates, but had no context row",
        remedy="run its context, or a seed step behind a transfer or a prefix hit, under the same "
        "id first",
        reports=(
            "NVIDIA/TensorRT-LLM#16767",
            "NVIDIA/TensorRT-LLM#16772",
            "NVIDIA/TensorRT-LLM#17619",
        ),
        file="steps.jsonl",
        line=2,
    )


def test_the_requests_of_a_running_worker_are_known_when_they_are_first_seen() -> None:
    first = row({8: (40, 4)}, {7: 8}, finished=(5,))
    rows = (first, row({8: (44, 4)}, {7: 8}), row({}, {7: 8, 8: 8}), row({}, {}, finished=(7,)))
    assert found(*rows, mid_run=True) == []
    assert short(found(*rows)) == [
        ("release_unknown", "finished_request_ids", 0, 5, 1),
        ("request_not_seeded", "request_ids", 1, 7, 1),
        ("window_short_after_prefix", "request_ids", 1, 8, 3),
    ]
    paused = (first, row({}, {9: 8}), row({10: (64, 4)}, {9: 8}, (7,)), row({}, {10: 8}, (11,)))
    assert found(*paused, mid_run=True) == []
    assert short(found(first, row({}, {5: 8}), mid_run=True)) == [
        ("request_released", "request_ids", 0, 5, 2)
    ]
    # What was seen is held against later steps as in any recording.
    assert short(found(first, row({8: (45, 4)}), mid_run=True)) == [
        ("chunk_not_contiguous", "context_positions", 0, 45, 2)
    ]


@pytest.mark.parametrize("step", [{}, None, 3, make_dspark_metadata()])
@pytest.mark.parametrize("wrapped", [False, True])
def test_what_is_no_step_is_a_type_error(step: Any, wrapped: bool) -> None:
    if wrapped:
        step = Step(Step(step))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"takes steps, not .*; pass Step\(metadata\)"):
        list(check_steps([step]))


def test_a_released_request_does_not_go_on() -> None:
    generation = found(SEED, row(finished=(7,)), row({}, {7: 8}), row({}, {7: 8}))
    assert short(generation) == [("request_released", "request_ids", 0, 7, 3)]
    assert generation[0].fact == "request 7 was released before"
    chunk = found(SEED, row(finished=(7,)), row({7: (12, 4)}))
    assert short(chunk) == [("request_released", "context_positions", 0, 12, 3)]
    assert chunk[0].fact == "12 continues request 7, whose slot was released at 12"
    assert "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#3" in chunk[0].reports


def test_a_released_id_may_start_anew() -> None:
    assert found(SEED, row({7: (0, 9)}, finished=()), deployment=DEPLOYMENT) != []
    again = (row(finished=(7,)), row({7: (0, 9)}), row({}, {7: 8}))
    assert found(SEED, *again) == []
    # A seed that fills the window may begin anywhere, even where the request had been before.
    assert found(SEED, row(finished=(7,)), row({7: (12, 32)}), row({}, {7: 8})) == []


def test_a_release_that_frees_nothing_is_a_warning() -> None:
    findings = found(SEED, row(finished=(8,)), row(finished=(7,)), row(finished=(7,)))
    assert short(findings) == [
        ("release_unknown", "finished_request_ids", 0, 8, 2),
        ("release_unknown", "finished_request_ids", 0, 7, 4),
    ]
    assert [f.severity for f in findings] == ["warning", "warning"]
    assert findings[0].fact == "request 8 holds no slot: it was never seeded"
    assert findings[1].fact == "request 7 holds no slot: it was released before"


@pytest.mark.parametrize("start", [1, 11, 13, 50])
def test_a_chunk_starts_where_the_last_one_ended(start: int) -> None:
    (finding,) = found(SEED, row({7: (start, 4)}), row({7: (start + 4, 4)}))
    assert short([finding]) == [("chunk_not_contiguous", "context_positions", 0, start, 2)]
    assert finding.fact == f"{start} is not the end (12) of request 7"


def test_a_live_request_does_not_start_again() -> None:
    (finding,) = found(SEED, row({7: (0, 5)}), row({7: (5, 5)}))
    assert short([finding]) == [("context_restarted", "context_positions", 0, 0, 2)]
    assert finding.fact == "0 starts request 7 again, which has 12 tokens or more"
    (finding,) = found(row({}, {7: 8}), row({7: (0, 5)}), mid_run=True)
    assert finding.fact == "0 starts request 7 again"


@pytest.mark.parametrize(
    ("start", "rule"),
    [
        (13, "context_after_generation"),
        (14, None),  # each of the two steps committed one token
        (23, None),  # the first step committed 8, the second 3
        (24, "chunk_not_contiguous"),
    ],
)
def test_a_chunk_behind_generated_tokens_starts_behind_them(start: int, rule: str | None) -> None:
    findings = found(SEED, row({}, {7: 8}), row({}, {7: 3}), row({7: (start, 4)}))
    if rule is None:
        assert findings == []
        return
    assert short(findings) == [(rule, "context_positions", 0, start, 4)]
    assert findings[0].fact == (
        f"{start} is not an end (14 to 23, by the drafts accepted) of request 7"
    )


def test_more_live_requests_than_slots_are_found_where_one_finds_none() -> None:
    seeds = [row({i: (0, 4)}) for i in (1, 2, 3)]
    assert found(*seeds, row({4: (0, 4)}, finished=(2,))) == []
    (finding,) = found(*seeds, row({4: (0, 4)}), row({}, {4: 8}), row({4: (5, 1)}))
    assert short([finding]) == [("slots_exhausted", "request_ids", 0, 4, 4)]
    assert finding.fact == "request 4 finds all 3 slots held by live requests"
    # Requests without a slot of their own hold none.
    assert [f.rule for f in found(*seeds[:2], row({}, {8: 8, 9: 8}), seeds[2])] == [
        "request_not_seeded",
        "request_not_seeded",
    ]


def test_a_chunk_ends_within_max_seq_len() -> None:
    chunks = [row({7: (start, 64)}) for start in (0, 64, 128)]
    assert found(*chunks, row({7: (192, 63)}), row({}, {7: 8})) == []
    (finding,) = found(*chunks, row({7: (192, 65)}), row({}, {7: 1}))
    assert short([finding]) == [("sequence_too_long", "seq_lens", 0, 65, 4)]
    assert finding.fact == "the chunk of request 7 ends at 257, beyond 256"


def test_a_request_with_max_seq_len_tokens_does_not_go_on() -> None:
    full = [row({7: (start, 64)}) for start in (0, 64, 128, 192)]
    (finding,) = found(*full, row({}, {7: 1}), row({}, {7: 1}))
    assert short([finding]) == [("sequence_too_long", "request_ids", 0, 7, 5)]
    assert finding.fact == "request 7 has 256 tokens or more and goes on"


@pytest.mark.parametrize(("start", "length", "warns"), [(68, 32, False), (69, 31, True)])
def test_a_prefix_hit_seeds_the_whole_window(start: int, length: int, warns: bool) -> None:
    findings = found(row({7: (start, length)}), row({}, {7: 8}), row({}, {7: 8}))
    assert bool(findings) == warns
    if warns:
        assert short(findings) == [("window_short_after_prefix", "request_ids", 0, 7, 2)]
        assert findings[0].severity == "warning"
        assert findings[0].fact == (
            "request 7 generates with 31 of 32 window positions seeded: its first chunk started "
            "at 69"
        )


def test_chunks_of_a_prefix_hit_fill_the_window_together() -> None:
    assert found(row({7: (68, 20)}), row({7: (88, 12)}), row({}, {7: 8})) == []
    assert found(row({7: (0, 3)}), row({}, {7: 8})) == []  # a short prompt has no more


def test_mtp_has_the_window_of_its_deployment() -> None:
    deployment = make_deployment("MTP", sliding_window=16, max_num_requests=2)
    rows = (row({7: (68, 15)}), row({}, {7: 4}))
    assert [f.rule for f in found(*rows, deployment=deployment)] == ["window_short_after_prefix"]
    assert found(row({7: (68, 16)}), rows[1], deployment=deployment) == []
    # Its metadata does not say the window, and what is not stated is not guessed.
    context = make_mtp_metadata(
        deployment, request_ids=(7,), num_contexts=1, seq_lens=(15,), context_positions=(68,)
    )
    generation = make_mtp_metadata(deployment, request_ids=(7,))
    steps = [Step(context), Step(generation)]
    assert list(check_steps(steps)) == []
    (finding,) = check_steps(steps, deployment=deployment)
    assert (finding.rule, finding.file, finding.line) == ("window_short_after_prefix", None, None)
