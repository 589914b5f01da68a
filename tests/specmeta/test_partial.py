"""Invalid objects: rules run on the fields that are valid, and surplus keys are counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specmeta import (
    Deployment,
    DSparkDecodingConfig,
    DSparkDrafterConfig,
    DSparkSpecMetadata,
    EngineConfig,
    SamplingParams,
    ValidationError,
)
from specmeta._base import SpecModel
from specmeta.testing import make_deployment, make_dspark_metadata

from .bad_inputs import ALL, VALID, Bad, fields_of

DEPLOYMENT = make_deployment()
METADATA = make_dspark_metadata(request_ids=(11, 12), num_contexts=1, seq_lens=(5, 8))


def kinds(model: type[SpecModel], fields: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        model(**fields)
    return [line["type"] for line in caught.value.errors()]


@pytest.mark.parametrize(
    ("valid", "changes", "expected"),
    [
        pytest.param(
            DEPLOYMENT.drafter,
            {"num_layers": 0, "target_layer_ids": (1, 1), "mask_token_id": 256, "head_dim": 3},
            ["greater_than", "head_dim_odd", "layers_not_increasing", "mask_token_out_of_range"],
            id="a bad size",
        ),
        pytest.param(
            DEPLOYMENT.drafter,
            {"block_size": 0, "target_layer_ids": (1, 1)},
            ["block_size_out_of_range", "layers_not_increasing"],
            id="a bad block",
        ),
        pytest.param(
            DEPLOYMENT.drafter,
            {"vocab_size": "256", "mask_token_id": -1, "draft_vocab_size": 10**6},
            ["int_type", "mask_token_out_of_range"],
            id="rules that need the bad field are skipped",
        ),
        pytest.param(
            DEPLOYMENT.decoding,
            {"max_draft_len": 0, "acceptance_rate_threshold": 0.5, "steps_per_second": ()},
            ["greater_than", "acceptance_gate_incomplete", "step_rates_not_increasing"],
            id="choices",
        ),
        pytest.param(
            DEPLOYMENT.engine,
            {"dtype": "int8", "num_seq_slots": 1, "cuda_graph_batch_sizes": (4, 2, 999)},
            [
                "literal_error",
                "num_seq_slots_too_small",
                "graph_size_out_of_range",
                "graph_sizes_not_increasing",
            ],
            id="engine",
        ),
        pytest.param(
            METADATA,
            {
                "hidden_size": 0,
                "request_ids": (0, 12),
                "seq_lens": (5,),
                "context_positions": (-1,),
            },
            [
                "greater_than",
                "request_id_not_positive",
                "lengths_disagree",
                "context_position_negative",
            ],
            id="metadata",
        ),
        pytest.param(
            METADATA,
            {"max_draft_len": 0, "request_ids": (12, 12), "seq_lens": (5, 0)},
            ["greater_than", "request_id_repeated", "seq_len_not_positive"],
            id="metadata without a draft length",
        ),
    ],
)
def test_a_bad_field_hides_no_rule_on_the_others(
    valid: SpecModel, changes: dict[str, Any], expected: list[str]
) -> None:
    fields = {**vars(valid), **changes}
    assert kinds(type(valid), fields) == expected
    text = json.dumps(fields)
    with pytest.raises(ValidationError) as caught:
        type(valid).model_validate_json(text)
    assert [line["type"] for line in caught.value.errors()] == expected


@pytest.mark.parametrize("missing", ["vocab_size", "block_size"])
def test_a_missing_field_hides_no_rule_on_the_others(missing: str) -> None:
    fields = {**vars(DEPLOYMENT.drafter), "target_layer_ids": (2, 1)}
    del fields[missing]
    assert kinds(DSparkDrafterConfig, fields) == ["missing", "layers_not_increasing"]


def test_a_bad_part_hides_no_rule_between_the_others() -> None:
    fields: dict[str, Any] = json.loads(DEPLOYMENT.model_dump_json())
    fields["engine"]["dtype"] = "int8"
    fields["target"]["vocab_size"] = 512
    with pytest.raises(ValidationError) as caught:
        Deployment.model_validate_json(json.dumps(fields))
    assert [(line["type"], line["loc"]) for line in caught.value.errors()] == [
        ("literal_error", ("engine", "dtype")),
        ("vocab_size_differs", ("drafter", "vocab_size")),
    ]


def test_a_bad_override_hides_no_rule_between_the_parts() -> None:
    data = make_deployment("DSpark").model_dump()
    data["drafter"]["vocab_size"] += 1
    data["overrides"] = ({"rule": "", "reason": "measured"},)
    with pytest.raises(ValidationError) as caught:
        Deployment.model_validate(data)
    kinds = {error["type"] for error in caught.value.errors()}
    assert kinds == {"string_too_short", "vocab_size_differs"}


def test_nested_rows_of_an_invalid_batch_are_built_again() -> None:
    row = SamplingParams(temperature=0.5, seed=1).model_dump()
    fields = {**vars(METADATA), "hidden_size": 0, "sampling": (row,)}
    assert kinds(DSparkSpecMetadata, fields) == ["greater_than", "lengths_disagree"]


@pytest.mark.parametrize("bad", [bad for bad in ALL if "." not in bad.field], ids=lambda b: b.name)
def test_every_bad_input_is_also_found_beside_an_unknown_key(bad: Bad) -> None:
    with pytest.raises(ValidationError) as caught:
        bad.model(**fields_of(bad), surely_unknown=1)
    assert {"extra_forbidden", bad.kind} <= {line["type"] for line in caught.value.errors()}


@pytest.mark.parametrize("name", sorted({name for model in VALID for name in model.model_fields}))
def test_whichever_field_is_missing_the_rules_on_the_others_run(name: str) -> None:
    for model, valid in VALID.items():
        fields = {key: value for key, value in vars(valid).items() if key != name}
        field = model.model_fields.get(name)
        if field is not None and field.is_required():
            assert issubclass(model, SpecModel)
            assert kinds(model, fields) == ["missing"]


def test_unknown_keys_are_reported_one_by_one_up_to_a_limit() -> None:
    few = {f"key{index}": index for index in range(32)}
    assert kinds(EngineConfig, {**vars(DEPLOYMENT.engine), **few}) == ["extra_forbidden"] * 32
    many = {f"key{index}": index for index in range(400_000)}
    with pytest.raises(ValidationError) as caught:
        EngineConfig(**{**vars(DEPLOYMENT.engine), **many})
    *_, last, surplus = caught.value.errors()
    assert len(caught.value.errors()) == 33
    assert last["loc"] == ("key31",)
    assert surplus["msg"] == (
        "EngineConfig: 399968 more keys are unknown too; remove what EngineConfig does not have"
    )


def test_surplus_keys_hide_nothing_else() -> None:
    many = {f"key{index}": index for index in range(100)}
    found = kinds(DSparkDecodingConfig, {**many, "max_draft_len": 0, "steps_per_second": ()})
    assert found.count("extra_forbidden") == 33
    assert {*found} == {"extra_forbidden", "greater_than", "step_rates_not_increasing"}
