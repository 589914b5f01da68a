"""Every bad input is refused, wherever it enters, with an error that says what to do."""

import json
import pickle
import re
import threading
from typing import Any
from unittest.mock import Mock

import pytest
from pydantic import BaseModel, TypeAdapter

from specmeta import Deployment, DSparkSpecMetadata, SamplingParams, ValidationError
from specmeta._rules import RULES, Rule, _deployments, _drafters, _rows
from specmeta.testing import make_deployment, make_dspark_metadata
from tests.specmeta.bad_inputs import ALL, VALID, Bad, fields_of

by_name = pytest.mark.parametrize("bad", ALL, ids=lambda bad: bad.name)


def _refused(bad: Bad, error: ValidationError) -> None:
    lines = [line for line in error.errors() if line["type"] == bad.kind]
    assert lines, error
    line = lines[0]
    context = line["ctx"]
    path = (*bad.field.split("."), *(() if bad.index is None else (bad.index,)))
    assert line["loc"] == path
    assert context["field"] == bad.field
    assert context["index"] == bad.index
    place = bad.field if bad.index is None else f"{bad.field}[{bad.index}]"
    assert line["msg"].startswith(f"{place}: ")
    assert line["msg"].endswith(f"; {context['remedy']}")
    assert context["remedy"]
    if isinstance(context["value"], int) and bad.kind != "request_id_repeated":
        assert str(context["value"]).lower() in line["msg"].lower()  # JSON has true and false


@by_name
def test_construction_refuses_it(bad: Bad) -> None:
    with pytest.raises(ValidationError) as caught:
        bad.model(**fields_of(bad))
    _refused(bad, caught.value)


@by_name
def test_validation_of_a_mapping_refuses_it(bad: Bad) -> None:
    with pytest.raises(ValidationError) as caught:
        bad.model.model_validate(fields_of(bad))
    _refused(bad, caught.value)


@by_name
def test_a_type_adapter_refuses_it(bad: Bad) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(bad.model).validate_python(fields_of(bad))
    _refused(bad, caught.value)


@by_name
def test_a_changed_copy_refuses_it(bad: Bad) -> None:
    changed = {name: fields_of(bad)[name] for name in {n.split(".")[0] for n in bad.changes}}
    with pytest.raises(ValidationError) as caught:
        VALID[bad.model].model_copy(update=changed)
    _refused(bad, caught.value)


@by_name
def test_json_refuses_it(bad: Bad) -> None:
    if bad.beyond_schema in ("JSON has no such value", "JSON has one kind of array"):
        return  # JSON cannot carry it
    text = json.dumps(fields_of(bad), default=lambda model: model.model_dump(mode="json"))
    with pytest.raises(ValidationError) as caught:
        bad.model.model_validate_json(text)
    _refused(bad, caught.value)


def test_the_table_covers_every_rule_of_a_model() -> None:
    of_methods = {
        "graph_bucket_out_of_range",
        "rank_counts_absent",
        "row_selection_invalid",
        "sampling_absent",
        "static_part_differs",
    }
    of_files = {"part_unreadable", "path_outside"}
    of_models = {
        rule.name
        for module in (_rows, _drafters, _deployments)
        for rule in vars(module).values()
        if isinstance(rule, Rule) and rule.severity == "error"
    }
    assert {bad.kind for bad in ALL} & set(RULES) == of_models - of_methods - of_files


@pytest.mark.parametrize("valid", VALID.values(), ids=lambda valid: type(valid).__name__)
def test_what_the_table_starts_from_is_valid(valid: BaseModel) -> None:
    assert type(valid)(**dict(vars(valid))) == valid


@pytest.mark.parametrize("bad_id", [0, -5, True, "7", 2**64 - 1, 1.5, None])
def test_a_thousand_bad_ids_give_one_short_error(bad_id: object) -> None:
    with pytest.raises(ValidationError) as caught:
        make_dspark_metadata(request_ids=(bad_id,) * 1024, max_num_requests=1024)
    (line,) = caught.value.errors()
    assert line["loc"] == ("request_ids", 0)
    assert len(str(caught.value)) < 400


def test_one_bad_id_among_a_thousand_is_named_by_its_index() -> None:
    ids = [*range(1, 1025)]
    ids[777] = 0
    with pytest.raises(ValidationError) as caught:
        make_dspark_metadata(request_ids=tuple(ids), max_num_requests=1024)
    (line,) = caught.value.errors()
    assert line["loc"] == ("request_ids", 777)


def test_violations_are_reported_together() -> None:
    with pytest.raises(ValidationError) as caught:
        make_dspark_metadata(
            request_ids=(0, 2), num_seq_slots=1, seq_lens=(1, 99), max_num_requests=2, block_size=1
        )
    assert {line["type"] for line in caught.value.errors()} == {
        "request_id_not_positive",
        "num_seq_slots_too_small",
        "generation_row_too_long",
        "draft_beyond_block",
    }


def test_a_numpy_id_is_told_to_use_tolist() -> None:
    np = pytest.importorskip("numpy")
    with pytest.raises(
        ValidationError, match=r"request_ids\[0\]: np.int64\(5\) is not an int; .*tolist"
    ):
        make_dspark_metadata(request_ids=(np.int64(5),))


def test_an_object_with_a_dear_repr_is_named_by_type_only() -> None:
    class Tensor:
        def __repr__(self) -> str:
            raise AssertionError("a device tensor would synchronise here")

    with pytest.raises(ValidationError, match=r"an object of type .*Tensor is not an int"):
        make_dspark_metadata(request_ids=(Tensor(),))


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**5000), "\ud800", iter([1]), threading.Lock(), Mock(), {1: 2}.keys()],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("field", ["request_ids", "num_seq_slots", "dtype", "is_cuda_graph"])
@pytest.mark.parametrize("among_others", [False, True])
def test_the_error_of_any_value_is_short_and_survives_json_and_pickle(
    field: str, value: object, among_others: bool
) -> None:
    changes: dict[str, Any] = {field: (7, value) if among_others else value}
    with pytest.raises(ValidationError) as caught:
        make_dspark_metadata(**changes)
    (line,) = caught.value.errors()
    assert line["ctx"]["field"] == field
    assert line["ctx"]["remedy"]
    assert len(line["msg"]) < 300
    assert json.loads(caught.value.json())[0]["msg"] == line["msg"]
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.errors() == caught.value.errors()


def test_an_unreadable_name_is_reported_like_any_other() -> None:
    unreadable: dict[str, Any] = {"\ud800": 1}
    with pytest.raises(ValidationError, match="unicode"):
        make_dspark_metadata(**unreadable)
    with pytest.raises(ValidationError, match="5 is not a string; name the fields with strings"):
        DSparkSpecMetadata.model_validate({**vars(make_dspark_metadata()), 5: 1})


@pytest.mark.parametrize(
    ("pair", "kind"),
    [((0, 8.0), "greater_than"), ((8, 0.0), "greater_than"), ((8, "x"), "float_type")],
)
def test_a_bad_pair_of_rates_is_named_by_its_index(pair: Any, kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make_deployment(steps_per_second=((1, 9.0), (4, 8.5), pair))
    (line,) = caught.value.errors()
    assert (line["type"], line["loc"][:2]) == (kind, ("steps_per_second", 2))
    assert line["ctx"]["index"] == 2
    assert line["msg"].startswith(f"steps_per_second[2]: {pair[line['loc'][2]]!r} is not ")


def test_a_bad_field_of_a_row_s_sampling_is_located() -> None:
    bad: dict[str, Any] = {"temperature": -1, "seed": 2}
    with pytest.raises(ValidationError) as caught:
        make_dspark_metadata(sampling=(VALID[SamplingParams], bad))
    (line,) = caught.value.errors()
    assert line["loc"] == ("sampling", 1, "temperature")
    assert line["msg"].startswith("temperature: -1 is not greater than or equal to 0; ")


def test_too_many_contexts_are_one_error() -> None:
    with pytest.raises(ValidationError) as caught:
        make_dspark_metadata(request_ids=(7, 9), num_contexts=3)
    (line,) = caught.value.errors()
    assert line["type"] == "num_contexts_beyond_rows"


def test_the_error_survives_json_and_pickle() -> None:
    with pytest.raises(ValidationError) as caught:
        make_dspark_metadata(request_ids=(1, 2), num_seq_slots=None)
    (line,) = json.loads(caught.value.json())
    assert line["ctx"]["field"] == "num_seq_slots"
    assert "input_value" not in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.errors() == caught.value.errors()


def test_an_unknown_method_is_told_the_known_ones() -> None:
    fields = make_deployment().model_dump()
    fields["drafter"]["decoding_type"] = "Eagle"
    with pytest.raises(ValidationError, match=r"drafter: decoding_type 'Eagle' is unknown; use"):
        Deployment.model_validate(fields)


def test_a_near_miss_of_a_closed_name_suggests_it() -> None:
    with pytest.raises(ValidationError, match="did you mean 'float32'"):
        make_dspark_metadata(dtype="float31")
    with pytest.raises(ValidationError, match="pass one of those named"):
        make_dspark_metadata(dtype="int8")


def test_no_json_at_all_is_one_readable_message() -> None:
    with pytest.raises(ValidationError, match=r"Invalid JSON.*; pass one JSON object"):
        DSparkSpecMetadata.model_validate_json("{")


def test_rule_names_are_stable_snake_case_and_rules_say_what_they_protect() -> None:
    for name, rule in RULES.items():
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z]+)+", name)
        assert rule.protects
        assert rule.remedy
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report) for report in rule.reports)
