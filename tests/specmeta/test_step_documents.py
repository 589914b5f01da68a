"""Recorded steps: the static part, steps that are invalid by themselves, and their documents."""

import json
from itertools import islice, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmeta import Step, check_steps
from specmeta._files import parse_json
from specmeta._step_documents import steps_from
from specmeta.testing import (
    make_deployment,
    make_dspark_metadata,
    make_mtp_metadata,
    spec_metadata,
)
from tests.specmeta.step_cases import DEPLOYMENT, SEED, found, row, short


def test_static_fields_are_the_deployments() -> None:
    other: dict[str, Any] = {"window_size": 64, "layers_to_capture": [1, 3]}
    findings = found(row({7: (0, 4)}, **other), row({}, {7: 8}, **other), row({}, {7: 8}))
    assert short(findings) == [
        ("static_part_differs", "layers_to_capture", None, "2 items", 1),
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
    assert short(findings) == [("lengths_disagree", "seq_lens", None, "1 items", 2)]
    assert short(found(broken, SEED, row(finished=(7,)), row({}, {7: 8}))) == [
        ("lengths_disagree", "seq_lens", None, "1 items", 1),
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


def test_an_item_that_is_no_step_is_named_by_its_index() -> None:
    step = make_dspark_metadata(num_contexts=2).model_dump(mode="json")
    document = parse_json(json.dumps([step, 3, step, None]).encode(), "steps.json")
    findings = list(check_steps(steps_from([document])))
    assert [(f.rule, f.field, f.index, f.value) for f in findings] == [
        ("model_type", "step", 1, 3),
        ("model_type", "step", 3, None),
    ]


def test_steps_are_read_one_at_a_time() -> None:
    endless = repeat(parse_json(b"{}", "steps.json"))
    findings = islice(check_steps(steps_from(endless)), 1000)
    assert {found.rule for found in findings} == {"union_tag_not_found"}


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


@given(st.lists(spec_metadata(), max_size=4), st.booleans())
def test_any_metadata_reads_back_as_the_same_steps(metadata: list[Any], mid_run: bool) -> None:
    built = list(check_steps(map(Step, metadata), mid_run=mid_run))
    text = json.dumps([m.model_dump(mode="json") for m in metadata]).encode()
    steps = list(steps_from([parse_json(text, "steps.json")]))
    assert [step.metadata for step in steps if isinstance(step, Step)] == metadata
    read = list(check_steps(steps, mid_run=mid_run))
    assert [(f.rule, f.message) for f in read] == [(f.rule, f.message) for f in built]
