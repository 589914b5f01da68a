"""The published JSON Schemas: up to date, documented, and as strict as JSON Schema can be."""

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # ships no types
import pytest
from hypothesis import given
from pydantic import BaseModel, TypeAdapter

import specmeta
from specmeta import (
    DecodingConfig,
    Deployment,
    DrafterConfig,
    DSparkSpecMetadata,
    SpecMetadata,
    ValidationError,
)
from specmeta._base import SpecModel
from specmeta._schemas import differences, generate
from specmeta.testing import deployments, make_deployment, make_dspark_metadata, spec_metadata
from tests.specmeta.bad_inputs import ALL, NOT_JSON, ONE_ARRAY, VALID, Bad, fields_of

ROOT = Path(__file__).parents[2]
SCHEMAS = generate()
VALIDATORS = {name: jsonschema.Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
NAMES = sorted(SCHEMAS)


def as_json(fields: dict[str, Any]) -> Any:
    def plain(value: object) -> object:
        return value.model_dump(mode="json") if isinstance(value, BaseModel) else repr(value)

    return json.loads(json.dumps(fields, default=plain))


def test_the_checked_in_schemas_are_what_the_models_generate() -> None:
    assert differences(ROOT / "schemas") == {}, "run: specmeta schema"


def test_every_public_model_has_a_schema() -> None:
    models = {
        name
        for name in specmeta.__all__
        if isinstance(getattr(specmeta, name), type)
        and issubclass(getattr(specmeta, name), SpecModel)
    }
    assert set(NAMES) == models | {"DrafterConfig", "DecodingConfig", "SpecMetadata"}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_titled_described_and_has_valid_examples(name: str) -> None:
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == name
    assert schema["examples"]
    for example in schema["examples"]:
        VALIDATORS[name].validate(example)
        TypeAdapter(getattr(specmeta, name)).validate_json(json.dumps(example))
    for definition in (schema, *schema.get("$defs", {}).values()):
        for field, text in definition.get("properties", {}).items():
            described = text if "description" in text else definition["$defs"]
            assert described, f"{name}.{field} has no description"
            assert "\n" not in text.get("description", "")
        if "properties" in definition:
            assert definition["additionalProperties"] is False


@pytest.mark.parametrize("bad", ALL, ids=lambda bad: bad.name)
def test_the_schema_rejects_what_the_model_rejects_where_it_can(bad: Bad) -> None:
    if bad.beyond_schema in (NOT_JSON, ONE_ARRAY):
        return  # there is no such JSON to validate
    accepted = VALIDATORS[bad.model.__name__].is_valid(as_json(fields_of(bad)))
    # A row that claims to be beyond JSON Schema and is not would hide a schema's strength.
    assert accepted == bool(bad.beyond_schema)


@pytest.mark.parametrize("valid", VALID.values(), ids=lambda valid: type(valid).__name__)
def test_every_required_field_is_required_by_the_schema(valid: BaseModel) -> None:
    model = type(valid)
    fields = as_json(dict(vars(valid)))
    VALIDATORS[model.__name__].validate(fields)
    for name, field in model.model_fields.items():
        without = {key: value for key, value in fields.items() if key != name}
        assert VALIDATORS[model.__name__].is_valid(without) != field.is_required()


def test_a_union_needs_its_tag() -> None:
    for union, instance in (
        ("DrafterConfig", make_deployment().drafter),
        ("DecodingConfig", make_deployment().decoding),
        ("SpecMetadata", make_dspark_metadata()),
    ):
        fields = instance.model_dump(mode="json")
        VALIDATORS[union].validate(fields)
        del fields["decoding_type"]
        assert not VALIDATORS[union].is_valid(fields)
        with pytest.raises(ValidationError):
            TypeAdapter(getattr(specmeta, union)).validate_python(fields)


def test_the_rest_of_a_gate_is_optional_in_json() -> None:
    fields = {"max_draft_len": 3, "acceptance_rate_window_size": None}
    VALIDATORS["DSparkDecodingConfig"].validate(fields)


@given(deployments())
def test_deployments_and_their_parts_survive_json(deployment: Deployment) -> None:
    for part in (deployment, deployment.target, deployment.engine):
        _round_trip(part, type(part), type(part).__name__)
    members: tuple[tuple[BaseModel, Any, str], ...] = (
        (deployment.drafter, DrafterConfig, "DrafterConfig"),
        (deployment.decoding, DecodingConfig, "DecodingConfig"),
    )
    for member, union, name in members:
        _round_trip(member, union, name)
        _round_trip(member, type(member), type(member).__name__)


@given(spec_metadata())
def test_metadata_survives_json(metadata: BaseModel) -> None:
    _round_trip(metadata, SpecMetadata, "SpecMetadata")
    _round_trip(metadata, type(metadata), type(metadata).__name__)


def _round_trip(model: BaseModel, kind: Any, name: str) -> None:
    text = model.model_dump_json()
    VALIDATORS[name].validate(json.loads(text))
    again = TypeAdapter(kind).validate_json(text)
    assert again == model
    assert type(again) is type(model)
    assert TypeAdapter(kind).validate_python(model.model_dump()) == model


def test_ids_of_64_bits_survive_json() -> None:
    metadata = make_dspark_metadata(request_ids=(2**63 + 1, 2**64 - 18))
    assert DSparkSpecMetadata.model_validate_json(metadata.model_dump_json()) == metadata
