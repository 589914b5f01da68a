"""There is no public way round validation: each either validates or does not exist."""

import copy
import pickle
from types import SimpleNamespace, new_class
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from pydantic import BaseModel, TypeAdapter

import specmeta
from specmeta import Deployment, DSparkSpecMetadata, EngineConfig, TargetConfig, ValidationError
from specmeta._base import SpecModel
from specmeta.testing import make_deployment, make_dspark_metadata

METADATA = make_dspark_metadata()
UNTYPED: Any = METADATA  # for what a checker already refuses
FIELDS: dict[str, Any] = dict(vars(METADATA))
BAD = {"request_ids": (0, 2)}

deprecated = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")


def test_assignment_is_refused_with_the_way_to_change() -> None:
    with pytest.raises(ValidationError, match=r"request_ids: .* immutable .*with_batch"):
        UNTYPED.request_ids = BAD["request_ids"]
    with pytest.raises(ValidationError, match="immutable"):
        UNTYPED.worker = object()  # nothing is attached from outside
    with pytest.raises(ValidationError, match="immutable"):
        UNTYPED._private = 1
    with pytest.raises(ValidationError, match="immutable"):
        del UNTYPED.request_ids
    assert dict(vars(METADATA)) == FIELDS


def test_a_second_init_cannot_change_an_object() -> None:
    with pytest.raises(ValidationError, match="immutable"):
        UNTYPED.__init__(**{**FIELDS, "request_ids": (5, 6)})
    assert METADATA.request_ids == FIELDS["request_ids"]


def test_a_copy_with_changes_is_validated() -> None:
    assert METADATA.model_copy(update={"request_ids": (8, 9)}).request_ids == (8, 9)
    for change in (BAD, {"request_ids": [1, 2]}, {"unknown": 1}, {"num_seq_slots": 0}):
        with pytest.raises(ValidationError):
            METADATA.model_copy(update=change)
        with pytest.raises(ValidationError):
            METADATA.__replace__(**change)


@deprecated
def test_the_old_copy_and_construct_are_validated() -> None:
    with pytest.raises(ValidationError, match="attention-DP"):
        UNTYPED.copy(update=BAD)
    with pytest.raises(ValidationError, match="attention-DP"):
        type(UNTYPED).construct(**{**FIELDS, **BAD})
    with pytest.raises(ValidationError, match="attention-DP"):
        type(UNTYPED).parse_obj({**FIELDS, **BAD})


def test_model_construct_validates() -> None:
    assert DSparkSpecMetadata.model_construct(**FIELDS) == METADATA
    with pytest.raises(ValidationError, match="attention-DP"):
        DSparkSpecMetadata.model_construct(**{**FIELDS, **BAD})
    with pytest.raises(ValidationError, match="is required"):
        type(UNTYPED).model_construct({"request_ids"}, request_ids=(1,))


def test_copies_are_the_object_itself() -> None:
    deployment = make_deployment()
    for model in (METADATA, deployment):
        assert copy.copy(model) is model
        assert copy.deepcopy(model) is model
        assert model.model_copy() is model
        assert model.model_copy(deep=True) is model
    assert copy.deepcopy([METADATA])[0] is METADATA


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_round_trip_and_are_validated(protocol: int) -> None:
    deployment = make_deployment()
    for model in (METADATA, deployment):
        text = pickle.dumps(model, protocol)
        again = pickle.loads(text)
        assert again == model
        assert type(again) is type(model)
    big = make_dspark_metadata(request_ids=(2**40, 2**41))
    text = pickle.dumps(big, protocol)
    altered = text.replace((2**40).to_bytes(6, "little"), (2**41).to_bytes(6, "little"))
    altered = altered.replace(str(2**40).encode(), str(2**41).encode())  # protocols 0 and 1
    assert altered != text
    with pytest.raises(ValidationError, match="repeats"):
        pickle.loads(altered)


def test_a_tampered_reduce_is_validated() -> None:
    rebuild, (model, fields) = METADATA.__reduce__()
    assert rebuild(model, fields) == METADATA
    with pytest.raises(ValidationError, match="attention-DP"):
        rebuild(model, {**fields, **BAD})


def test_setstate_validates_an_empty_object_and_refuses_a_built_one() -> None:
    with pytest.raises(ValidationError, match="immutable"):
        METADATA.__setstate__({"__dict__": {**FIELDS, "request_ids": (5, 6)}})
    empty = DSparkSpecMetadata.__new__(DSparkSpecMetadata)
    with pytest.raises(ValidationError, match="attention-DP"):
        empty.__setstate__({"__dict__": {**FIELDS, **BAD}})
    states: tuple[Any, ...] = (None, {}, 5, [1], {"__dict__": None})
    for state in states:
        with pytest.raises(ValidationError, match="is not a dictionary"):
            empty.__setstate__(state)
    empty.__setstate__(METADATA.__getstate__())
    assert empty == METADATA


@pytest.mark.parametrize(
    "options",
    [{"strict": False}, {"extra": "ignore"}, {"extra": "allow"}, {"from_attributes": True}],
)
def test_validation_cannot_be_loosened(options: dict[str, Any]) -> None:
    loose = {**FIELDS, "request_ids": ["1", True]}
    with pytest.raises(ValidationError, match="would loosen"):
        DSparkSpecMetadata.model_validate(loose, **options)
    if "from_attributes" not in options:
        with pytest.raises(ValidationError, match="would loosen"):
            DSparkSpecMetadata.model_validate_json(METADATA.model_dump_json(), **options)


def test_validation_of_strings_does_not_exist() -> None:
    with pytest.raises(ValidationError, match="would loosen"):
        EngineConfig.model_validate_strings({"max_num_requests": "1"})


def test_a_look_alike_is_not_validated_by_its_attributes() -> None:
    class Stub:
        def __init__(self) -> None:
            vars(self).update(FIELDS)

    with pytest.raises(ValidationError, match="an object of type"):
        DSparkSpecMetadata.model_validate(Stub())


@pytest.mark.parametrize("kind", [Mock, MagicMock])
def test_a_mock_of_a_model_is_not_the_model(kind: type[Mock]) -> None:
    deployment = make_deployment()
    for valid in (METADATA, deployment, deployment.target, deployment.engine):
        model = type(valid)
        mock = kind(spec=model, **vars(valid))
        mock.broken_rules = tuple  # as if it had been checked
        for validate in (model.model_validate, TypeAdapter(model).validate_python):
            with pytest.raises(ValidationError, match=r"mock\.\w+ is not a dictionary or instance"):
                validate(mock)
    with pytest.raises(ValidationError) as caught:
        Deployment(**{**vars(deployment), "target": kind(spec=TargetConfig)})
    (line,) = caught.value.errors()
    assert (line["type"], line["loc"]) == ("model_type", ("target",))


def test_an_object_read_by_its_attributes_is_not_the_model() -> None:
    with pytest.raises(ValidationError, match="SimpleNamespace is not a dictionary or instance"):
        TypeAdapter(DSparkSpecMetadata).validate_python(
            SimpleNamespace(**FIELDS), from_attributes=True
        )


def test_a_refused_init_leaves_nothing_behind() -> None:
    empty: Any = DSparkSpecMetadata.__new__(DSparkSpecMetadata)
    with pytest.raises(ValidationError, match="attention-DP"):
        empty.__init__(**{**FIELDS, **BAD})
    assert vars(empty) == {}
    empty.__init__(**FIELDS)
    assert empty == METADATA


def test_leaves_cannot_be_subclassed() -> None:
    for name in specmeta.__all__:
        model = getattr(specmeta, name)
        if isinstance(model, type) and issubclass(model, SpecModel):
            with pytest.raises(TypeError, match="is final"):
                type("Sub", (model,), {})


@pytest.mark.parametrize(
    "loose", [{"frozen": False}, {"strict": False}, {"extra": "allow"}, {"validate_default": False}]
)
def test_a_subclass_of_the_base_cannot_loosen_it(loose: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="cannot be loosened"):
        new_class("Loose", (SpecModel,), loose)
    with pytest.raises(TypeError, match="cannot be loosened"):
        type("Loose", (SpecModel,), {"__module__": __name__, "model_config": loose})


def test_equal_metadata_is_equal_and_hashes_alike() -> None:
    again = DSparkSpecMetadata(**FIELDS)
    assert again == METADATA
    assert again is not METADATA
    assert hash(again) == hash(METADATA)
    assert again != METADATA.model_copy(update={"request_ids": (8, 9)})
    assert len({again, METADATA}) == 1


def test_a_valid_nested_model_is_taken_as_it_is() -> None:
    deployment = make_deployment()
    again = type(deployment)(**dict(vars(deployment)))
    assert again.engine is deployment.engine
    assert type(deployment).model_validate(deployment) is deployment


def test_what_python_cannot_stop_is_documented() -> None:
    text = SpecModel.__doc__ or ""
    assert "object.__setattr__" in text
    assert "__dict__" in text


def test_fields_hold_only_immutable_values() -> None:
    def check(value: object) -> None:
        if isinstance(value, BaseModel):
            for inner in vars(value).values():
                check(inner)
        elif type(value) is tuple:
            for inner in value:
                check(inner)
        else:
            assert type(value) in (int, float, str, bool, type(None))

    check(METADATA)
    check(make_deployment())
