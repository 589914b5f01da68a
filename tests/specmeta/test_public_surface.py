"""What `import specmeta` offers, costs and holds to."""

import subprocess
import sys
import types
import typing
from pathlib import Path
from typing import Any

import pytest

import specmeta
from benchmarks.import_time import measure
from specmeta import RequestId, SeqSlot
from specmeta._base import SpecModel

ROOT = Path(__file__).parents[2]


def _subclasses(model: type[SpecModel]) -> set[type[SpecModel]]:
    return {model}.union(*(_subclasses(child) for child in model.__subclasses__()))


MODELS = sorted(
    {m for m in _subclasses(SpecModel) if m.__module__.startswith("specmeta")},
    key=lambda model: model.__name__,
)
LEAVES = [model for model in MODELS if model.__dict__.get("__final__")]


def test_all_is_sorted_and_is_every_public_name() -> None:
    public = {
        name
        for name, value in vars(specmeta).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(specmeta.__all__) == public
    assert specmeta.__all__ == sorted(specmeta.__all__)


def test_public_names_show_the_public_path() -> None:
    for name in specmeta.__all__:
        module = getattr(getattr(specmeta, name), "__module__", "")
        assert not module.startswith("specmeta."), name
    assert repr(specmeta.DSparkSpecMetadata) == "<class 'specmeta.DSparkSpecMetadata'>"


def test_every_leaf_is_public_and_final_and_every_other_model_private() -> None:
    assert {model.__name__ for model in LEAVES} == {
        name
        for name in specmeta.__all__
        if isinstance(getattr(specmeta, name), type)
        and issubclass(getattr(specmeta, name), SpecModel)
    }
    for model in MODELS:
        assert model in LEAVES or model is SpecModel or model.__name__.startswith("_")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_model_is_frozen_strict_closed_and_documented(model: type[SpecModel]) -> None:
    config = model.model_config
    assert config["frozen"]
    assert config["strict"]
    assert config["extra"] == "forbid"
    assert config["validate_default"]
    assert model.__doc__
    for name in model.model_fields:
        assert model.field_docs().get(name), f"{model.__name__}.{name} has no docstring"


def _immutable(annotation: Any) -> bool:
    if annotation in (int, float, str, bool, type(None), ...):
        return True
    if isinstance(annotation, typing.NewType):
        return _immutable(annotation.__supertype__)
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return True
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return all(isinstance(value, str) for value in arguments)
    if origin is typing.Annotated:
        return _immutable(arguments[0])
    if origin in (tuple, typing.Union, types.UnionType):
        return all(_immutable(argument) for argument in arguments)
    return False


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_fields_have_immutable_types_only(model: type[SpecModel]) -> None:
    for name, field in model.model_fields.items():
        assert _immutable(field.annotation), f"{model.__name__}.{name}: {field.annotation}"
    assert not _immutable(list[int])
    assert not _immutable(dict[str, int])


def test_ids_and_slots_are_distinct_names_of_int() -> None:
    assert RequestId(5) == 5
    assert (RequestId.__name__, SeqSlot.__name__) == ("RequestId", "SeqSlot")


def test_importing_specmeta_imports_nothing_heavy() -> None:
    code = (
        "import sys, specmeta, specmeta.testing\n"
        "heavy = 'torch numpy transformers attr typer rich hypothesis specmeta_workers'\n"
        "print([name for name in heavy.split() if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_importing_specmeta_costs_at_most_two_and_a_half_times_pydantic() -> None:
    medians = measure(rounds=3)
    assert medians["specmeta"] <= 2.5 * medians["pydantic"]
