"""Recorded steps: every rule between them, what it lets pass, and where it points."""

import io
import json
from typing import Any

import pytest

from specmeta import Deployment, Finding, Step, check_steps
from specmeta._files import parse_json, read_json_lines
from specmeta._step_documents import steps_from
from specmeta.testing import make_deployment, make_dspark_metadata, make_mtp_metadata

DEPLOYMENT = make_deployment(max_num_requests=2, num_seq_slots=3)  # window 32, 7 drafts, 256 tokens


def row(
    contexts: dict[int, tuple[int, int]] | None = None,
    generations: dict[int, int] | None = None,
    finished: tuple[int, ...] = (),
    **fields: Any,
) -> dict[str, Any]:
    """A step: contexts as id: (position, tokens), generation rows as id: tokens."""
    contexts, generations = contexts or {}, generations or {}
    return {
        "request_ids": [*contexts, *generations],
        "num_contexts": len(contexts),
        "seq_lens": [*(length for _, length in contexts.values()), *generations.values()],
        "context_positions": [start for start, _ in contexts.values()],
        "finished_request_ids": list(finished),
        "num_padding": 0 if contexts or generations else 1,
        **fields,
    }


def found(
    *rows: dict[str, Any], deployment: Deployment = DEPLOYMENT, mid_run: bool = False
) -> list[Finding]:
    text = "".join(f"{json.dumps(fields)}\n" for fields in rows).encode()
    documents = read_json_lines(io.BytesIO(text), "steps.jsonl")
    steps = steps_from(documents, deployment)
    return list(check_steps(steps, deployment=deployment, mid_run=mid_run))


def short(findings: list[Finding]) -> list[tuple[str, str, int | None, object, int | None]]:
    return [(f.rule, f.field, f.index, f.value, f.line) for f in findings]


SEED = row({7: (0, 12)})
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
            "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#223",
        ),
        file="steps.jsonl",
        line=2,
    )


def test_the_requests_of_the_first_step_of_a_running_worker_are_known() -> None:
    first = row({8: (40, 4)}, {7: 8}, finished=(5,))
    rows = (first, row({8: (44, 4)}, {7: 8}), row({}, {7: 8, 8: 8}), row({}, {}, finished=(7,)))
    assert found(*rows, mid_run=True) == []
    assert short(found(*rows)) == [
        ("release_unknown", "finished_request_ids", 0, 5, 1),
        ("request_not_seeded", "request_ids", 1, 7, 1),
        ("window_short_after_prefix", "request_ids", 1, 8, 3),
    ]
    assert short(found(first, row({}, {9: 8}), mid_run=True)) == [
        ("request_not_seeded", "request_ids", 0, 9, 2)
    ]
    assert short(found(first, row({}, {5: 8}), mid_run=True)) == [
        ("request_released", "request_ids", 0, 5, 2)
    ]


def test_a_released_request_does_not_go_on() -> None:
    generation = found(SEED, row(finished=(7,)), row({}, {7: 8}), row({}, {7: 8}))
    assert short(generation) == [("request_released", "request_ids", 0, 7, 3)]
    assert generation[0].fact == "request 7 was released before"
    chunk = found(SEED, row(finished=(7,)), row({7: (12, 4)}))
    assert short(chunk) == [("request_released", "context_positions", 0, 12, 3)]
    assert chunk[0].fact == "12 continues request 7, whose slot was released at 12"
    assert chunk[0].reports == ("MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#3",)


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


def test_static_fields_are_the_deployments() -> None:
    other = {"window_size": 64, "layers_to_capture": [1, 3]}
    findings = found(row({7: (0, 4)}, **other), row({}, {7: 8}, **other), row({}, {7: 8}))
    assert short(findings) == [
        ("static_part_differs", "layers_to_capture", None, "a tuple of 2", 1),
        ("static_part_differs", "window_size", None, 64, 1),
    ]
    assert findings[0].fact == "(1, 3) is not the deployment's (0, 2)"
    assert findings[1].fact == "64 is not the deployment's 32"
    twice = found(SEED, row({}, {7: 8}, **other), SEED | row({}, {7: 8}), row({}, {7: 8}, **other))
    assert [f.line for f in twice] == [2, 2, 4, 4]


def test_a_step_of_another_method_is_one_finding() -> None:
    mtp = make_mtp_metadata(
        request_ids=(7,),
        num_contexts=1,
        seq_lens=(4,),
        context_positions=(0,),
        max_num_requests=2,
        num_seq_slots=3,
        max_draft_len=7,
        num_stages=2,
    )
    (finding,) = check_steps([Step(mtp)], deployment=DEPLOYMENT)
    assert (finding.rule, finding.field, finding.value) == (
        "static_part_differs",
        "decoding_type",
        "MTP",
    )


def test_without_a_deployment_steps_agree_with_the_first() -> None:
    first = make_dspark_metadata(num_contexts=2)
    later = make_dspark_metadata(hidden_size=128)
    assert list(check_steps([Step(first), Step(make_dspark_metadata())])) == []
    (finding,) = check_steps([Step(first), Step(later), Step(later)])
    assert finding.field == "hidden_size"
    assert finding.fact == "128 is not the first step's 64"


def test_a_graph_bucket_alone_narrows_the_batch() -> None:
    whole = make_dspark_metadata(num_contexts=2)
    bucket = make_dspark_metadata().create_cuda_graph_metadata(4)
    narrow = make_dspark_metadata(max_num_requests=4, num_seq_slots=16)
    wide = make_dspark_metadata(max_num_requests=16, num_seq_slots=16)
    wide_bucket = wide.create_cuda_graph_metadata(16)

    def facts(*metadata: Any) -> list[str]:
        findings = list(check_steps(map(Step, (whole, *metadata))))
        assert {f.field for f in findings} <= {"max_num_requests"}
        return [f.fact for f in findings]

    assert facts(bucket, bucket, make_dspark_metadata()) == []
    assert facts(narrow) == ["4 is not the first step's 8, and this is no graph bucket"]
    assert facts(wide) == ["16 is not the first step's 8, and this is no graph bucket"]
    assert facts(wide_bucket) == ["16 is above the first step's 8, which a bucket only narrows"]


def test_a_recording_may_begin_with_a_bucket() -> None:
    bucket = make_dspark_metadata(num_contexts=0).create_cuda_graph_metadata(4)
    steps = [Step(bucket), Step(bucket.create_cuda_graph_metadata(2)), Step(make_dspark_metadata())]
    assert list(check_steps(steps, mid_run=True)) == []
    narrow = make_dspark_metadata(max_num_requests=2, num_seq_slots=16)
    (finding,) = check_steps([Step(bucket), Step(narrow)], mid_run=True)
    assert finding.fact == "2 is below the 4 of a graph bucket before"


def test_slots_are_the_same_in_every_bucket() -> None:
    metadata = make_dspark_metadata(num_contexts=2)
    shrunk = make_dspark_metadata(num_seq_slots=2, max_num_requests=2, is_cuda_graph=True)
    (finding,) = check_steps([Step(metadata), Step(shrunk)])
    assert (finding.rule, finding.field) == ("static_part_differs", "num_seq_slots")
    assert finding.fact == "2 is not the first step's 16"


def test_an_invalid_step_is_found_and_does_not_accuse_the_later_ones() -> None:
    broken = row({7: (0, 12), 8: (0, 5)}) | {"seq_lens": [12]}
    findings = found(
        row({5: (0, 4)}), broken, row({8: (5, 4)}, {7: 8}), row({5: (0, 4)}), row(finished=(9,))
    )
    assert short(findings) == [("lengths_disagree", "seq_lens", None, "a tuple of 1", 2)]
    assert short(found(broken, SEED, row(finished=(7,)), row({}, {7: 8}))) == [
        ("lengths_disagree", "seq_lens", None, "a tuple of 1", 1),
        ("request_released", "request_ids", 0, 7, 4),
    ]


def test_every_error_of_a_step_is_told() -> None:
    findings = found(row({0: (0, 4)}, {3: 9}))
    assert short(findings) == [
        ("request_id_not_positive", "request_ids", 0, 0, 1),
        ("generation_row_too_long", "seq_lens", 1, 9, 1),
    ]


def whole(**fields: Any) -> dict[str, Any]:
    return {**make_dspark_metadata(num_contexts=2).model_dump(mode="json"), **fields}


@pytest.mark.parametrize(
    ("data", "rule", "field", "fact"),
    [
        ([3], "model_type", "step", "3 is no step"),
        ("steps", "model_type", "step", "'steps' is no step"),
        ({"request_ids": [1]}, "union_tag_not_found", "decoding_type", "is not given"),
        ({"decoding_type": "Eagle"}, "union_tag_invalid", "decoding_type", "'Eagle' is unknown"),
        ({"decoding_type": [1]}, "union_tag_invalid", "decoding_type", "a list of 1 is unknown"),
        (whole(dtype="int8"), "literal_error", "dtype", None),
        (whole(reqest_ids=[]), "extra_forbidden", "reqest_ids", None),
    ],
)
def test_what_is_no_metadata_is_one_finding(
    data: Any, rule: str, field: str, fact: str | None
) -> None:
    document = parse_json(json.dumps(data).encode(), "steps.json")
    (finding,) = check_steps(steps_from([document]))
    assert (finding.rule, finding.severity, finding.field) == (rule, "error", field)
    assert (finding.file, finding.line) == ("steps.json", 1)
    assert fact is None or finding.fact == fact
    assert finding.remedy


def test_whole_metadata_takes_nothing_from_the_deployment() -> None:
    without = whole()
    del without["num_seq_slots"]
    (finding,) = found(without, deployment=make_deployment())
    assert (finding.rule, finding.field) == ("missing", "num_seq_slots")
    assert found(whole(), deployment=make_deployment()) == []


def test_a_document_may_be_a_list_of_steps_and_points_into_it() -> None:
    steps = [SEED, row({7: (9, 4)}), row({}, {9: 8})]
    document = parse_json(json.dumps(steps, indent=1).encode(), "steps.json")
    findings = list(check_steps(steps_from([document], DEPLOYMENT), deployment=DEPLOYMENT))
    lines = json.dumps(steps, indent=1).splitlines()
    positions = [number for number, line in enumerate(lines, 1) if "context_positions" in line]
    ids = [number for number, line in enumerate(lines, 1) if "request_ids" in line]
    assert [(f.rule, f.line) for f in findings] == [
        ("chunk_not_contiguous", positions[1] + 1),
        ("request_not_seeded", ids[4] + 1),
    ]


def test_sampling_is_read_with_its_rows() -> None:
    deployment = make_deployment(use_rejection_sampling=True)
    params = {"temperature": 1, "seed": 4}
    assert found(row({7: (0, 4)}, sampling=[params]), deployment=deployment) == []
    (finding,) = found(row({7: (0, 4)}, sampling=[params | {"seed": -1}]), deployment=deployment)
    assert (finding.rule, finding.field, finding.value) == (
        "greater_than_equal",
        "sampling.seed",
        -1,
    )


def test_long_recordings_are_checked_as_they_come() -> None:
    deployment = make_deployment()

    def steps() -> Any:
        for number in range(1, 3001):
            before = (number - 1,) if number > 1 else ()
            yield from steps_from(
                [parse_json(json.dumps(row({number: (0, 4)}, finished=before)).encode(), "s")],
                deployment,
            )
            if number == 10:
                yield from steps_from(
                    [parse_json(json.dumps(row({}, {99_999: 8})).encode(), "s")], deployment
                )

    findings = check_steps(steps(), deployment=deployment)
    assert next(findings).value == 99_999  # told before the rest is read
    assert list(findings) == []
