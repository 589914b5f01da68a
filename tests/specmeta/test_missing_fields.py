"""A required field that is absent is an error of its own, in every model and on every path."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from specmeta import RuleOverride, SamplingParams, ValidationError
from specmeta.testing import (
    make_deployment,
    make_dflash_metadata,
    make_dspark_metadata,
    make_mtp_metadata,
)

_DEPLOYMENTS = [make_deployment("DSpark"), make_deployment("DFlash"), make_deployment("MTP")]
INSTANCES: list[BaseModel] = [
    _DEPLOYMENTS[0],
    _DEPLOYMENTS[0].target,
    _DEPLOYMENTS[0].engine,
    *(part for d in _DEPLOYMENTS for part in (d.drafter, d.decoding)),
    make_dspark_metadata(),
    make_dflash_metadata(),
    make_mtp_metadata(),
    SamplingParams(temperature=0.0, seed=0),
    RuleOverride(rule="draft_beyond_block", reason="measured"),
    _DEPLOYMENTS[0].compile_key,
]
REQUIRED = [
    pytest.param(instance, name, id=f"{type(instance).__name__}-{name}")
    for instance in INSTANCES
    for name, field in type(instance).model_fields.items()
    if field.is_required()
]


def _missing(error: ValidationError, name: str) -> None:
    (line,) = error.errors()
    assert line["type"] == "missing"
    assert line["loc"] == (name,)
    assert line["msg"].startswith(f"{name}: is required and was not given; ")
    assert len(line["ctx"]["remedy"]) > 20


@pytest.mark.parametrize(("instance", "name"), REQUIRED)
def test_a_missing_field_is_named(instance: BaseModel, name: str) -> None:
    model = type(instance)
    fields: dict[str, Any] = dict(vars(instance))
    del fields[name]
    with pytest.raises(ValidationError) as caught:
        model(**fields)
    _missing(caught.value, name)
    text = json.loads(instance.model_dump_json())
    del text[name]
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(json.dumps(text))
    _missing(caught.value, name)


def test_the_batch_and_the_slot_pool_are_required_facts() -> None:
    required = {n for n, f in type(make_dspark_metadata()).model_fields.items() if f.is_required()}
    assert required == {
        "request_ids",
        "num_contexts",
        "seq_lens",
        "context_positions",
        "num_seq_slots",
        "max_num_requests",
        "max_num_tokens",
        "max_draft_len",
        "layers_to_capture",
        "hidden_size",
        "dtype",
        "window_size",
        "num_stages",
        "block_size",
    }


def test_conventions_have_no_default() -> None:
    fields = type(_DEPLOYMENTS[0].drafter).model_fields
    for name in ("anchor_convention", "layer_id_convention", "window_causality", "sliding_window"):
        assert fields[name].is_required()
    mtp = type(_DEPLOYMENTS[2].drafter).model_fields
    for name in ("target_hidden_state", "sliding_window"):
        assert mtp[name].is_required()


def test_a_seed_has_no_default() -> None:
    """Requests without one would share a stream of random numbers."""
    assert SamplingParams.model_fields["seed"].is_required()


def test_a_missing_metadata_field_points_to_the_factory() -> None:
    with pytest.raises(ValidationError, match=r"num_seq_slots: is required.*get_spec_metadata"):
        type(make_dspark_metadata())(
            **{n: v for n, v in vars(make_dspark_metadata()).items() if n != "num_seq_slots"}
        )


def test_a_missing_tag_inside_a_deployment_is_told_the_choices() -> None:
    fields = _DEPLOYMENTS[0].model_dump()
    del fields["drafter"]["decoding_type"]
    with pytest.raises(ValidationError, match='add decoding_type: "DSpark", "DFlash" or "MTP"'):
        type(_DEPLOYMENTS[0]).model_validate(fields)


def test_a_missing_field_inside_a_deployment_is_located() -> None:
    fields = _DEPLOYMENTS[0].model_dump()
    del fields["engine"]["num_seq_slots"]
    with pytest.raises(ValidationError) as caught:
        type(_DEPLOYMENTS[0]).model_validate(fields)
    (line,) = caught.value.errors()
    assert line["loc"] == ("engine", "num_seq_slots")
    assert "EngineConfig.sized" in line["ctx"]["remedy"]
