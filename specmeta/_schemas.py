"""JSON Schemas of the public models: generated here, checked in under ``schemas/``.

They state everything that JSON Schema can say about a model: types, bounds, closed names, and those
rules between fields that compare a field with a constant. What it cannot say (a sum, an order, one
number below another) is left to the models.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter

from . import testing
from ._decoding import (
    DecodingConfig,
    DFlashDecodingConfig,
    DSparkDecodingConfig,
    MTPDecodingConfig,
)
from ._deployment import Deployment
from ._drafter import DFlashDrafterConfig, DrafterConfig, DSparkDrafterConfig, MTPDrafterConfig
from ._engine import EngineConfig
from ._metadata import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata, SpecMetadata
from ._overrides import CompileKey, RuleOverride
from ._sampling import SamplingParams
from ._target import TargetConfig

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_MODELS: tuple[type[BaseModel], ...] = (
    TargetConfig,
    DSparkDrafterConfig,
    DFlashDrafterConfig,
    MTPDrafterConfig,
    DSparkDecodingConfig,
    DFlashDecodingConfig,
    MTPDecodingConfig,
    EngineConfig,
    RuleOverride,
    CompileKey,
    Deployment,
    SamplingParams,
    DSparkSpecMetadata,
    DFlashSpecMetadata,
    MTPSpecMetadata,
)
_UNIONS: dict[str, Any] = {
    "DrafterConfig": DrafterConfig,
    "DecodingConfig": DecodingConfig,
    "SpecMetadata": SpecMetadata,
}


def _when(field: str, condition: dict[str, Any], **consequences: dict[str, Any]) -> dict[str, Any]:
    """If `field` is given and meets `condition`, the other fields are as in `consequences`."""
    present = [name for name, rule in consequences.items() if "default" not in rule]
    return {
        "if": {"properties": {field: condition}, "required": [field]},
        "then": {"properties": consequences, "required": present},
    }


_NUMBER, _NULL = {"type": "number"}, {"type": "null"}
_BLOCK_RULES = [
    _when(
        "layer_id_convention",
        {"const": "input_of_layer"},
        target_layer_ids={"items": {"minimum": 0}},
    )
]
_GATE_RULES = [
    _when("acceptance_rate_window_size", _NUMBER, acceptance_rate_threshold=_NUMBER),
    _when("acceptance_rate_threshold", _NUMBER, acceptance_rate_window_size=_NUMBER),
]
_DSPARK_RULES = [
    _when("markov_rank", {"const": 0}, markov_head_type=_NULL),
    _when("markov_rank", {"minimum": 1}, markov_head_type={"type": "string"}),
    _when(
        "confidence_head_with_markov",
        {"const": True},
        enable_confidence_head={"const": True},
        markov_rank={"minimum": 1},
    ),
]
_CONFIDENCE_RULES = [
    _when(
        "decoding",
        {"properties": {field: {"type": kind}}, "required": [field]},
        drafter={"properties": {"enable_confidence_head": {"const": True}}},
    )
    for field, kind in (("confidence_threshold", "number"), ("steps_per_second", "array"))
]
_CONDITIONS: dict[str, list[dict[str, Any]]] = {
    "DSparkDrafterConfig": _BLOCK_RULES + _DSPARK_RULES,
    "DFlashDrafterConfig": _BLOCK_RULES,
    "DSparkDecodingConfig": _GATE_RULES,
    "DFlashDecodingConfig": _GATE_RULES,
    "MTPDecodingConfig": _GATE_RULES,
    "Deployment": _CONFIDENCE_RULES,
}


def generate() -> dict[str, dict[str, Any]]:
    """The JSON Schema of every public model and union, by its name."""
    examples = _examples()
    schemas: dict[str, dict[str, Any]] = {}
    for model in _MODELS:
        schemas[model.__name__] = _finish(model.model_json_schema(), examples[model.__name__])
    for name, union in _UNIONS.items():
        members = [member.__name__ for member in get_args(get_args(union)[0])]
        schema = {"title": name, **TypeAdapter(union).json_schema()}
        schemas[name] = _finish(schema, [examples[member][0] for member in members])
    return schemas


def _examples() -> dict[str, list[dict[str, Any]]]:
    """A valid instance of each model, from the factories that tests use."""
    found: dict[str, list[dict[str, Any]]] = {}
    deployments = [testing.make_deployment(kind) for kind in ("DSpark", "DFlash", "MTP")]
    metadata = [
        testing.make_dspark_metadata(num_contexts=1),
        testing.make_dflash_metadata(num_contexts=1),
        testing.make_mtp_metadata(num_contexts=1),
    ]
    parts = [part for d in deployments for part in (d, d.target, d.drafter, d.decoding, d.engine)]
    sampling = SamplingParams(temperature=0.8, seed=7, top_k=50, top_p=0.95)
    override = RuleOverride(
        rule="draft_beyond_block", reason="7 drafts of a block of 5 were measured: 4.4 a step"
    )
    beside = (override, *(d.compile_key for d in deployments[:1]))
    for instance in (*parts, *metadata, *beside, sampling):
        found.setdefault(type(instance).__name__, [instance.model_dump(mode="json")])
    return found


def _finish(schema: dict[str, Any], examples: list[dict[str, Any]]) -> dict[str, Any]:
    """Add the dialect, the examples, and what pydantic does not derive."""
    _complete(schema.get("title", ""), schema)
    for name, definition in schema.get("$defs", {}).items():
        _complete(name, definition)
        tagged = "decoding_type" in definition.get("properties", {})
        if tagged and "decoding_type" not in definition["required"]:  # here it tells a union apart
            definition["required"] = ["decoding_type", *definition["required"]]
    return {"$schema": DIALECT, **schema, "examples": examples}


def _complete(name: str, definition: dict[str, Any]) -> None:
    if "description" in definition:  # the model's own paragraphs, without the line breaks of code
        definition["description"] = " ".join(definition["description"].split())
    for field in definition.get("properties", {}).values():
        if "description" in field:
            field["description"] = " ".join(field["description"].split())
    if name in _CONDITIONS:
        definition["allOf"] = _CONDITIONS[name]


def texts() -> dict[str, str]:
    """File name and text of every schema."""
    return {
        f"{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in generate().items()
    }


def write(directory: Path) -> list[str]:
    """Write every schema to `directory`, made if absent; returns the files that changed.

    Files that are no schema of this package stay. Raises ``OSError`` where it cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    wanted = texts()
    changed = sorted(differences(directory, wanted).keys() & wanted.keys())
    for name in changed:
        (directory / name).write_text(wanted[name], encoding="utf-8")
    return changed


def differences(directory: Path, wanted: Mapping[str, str] | None = None) -> dict[str, str]:
    """Files of `directory` that are not as generated, each "missing", "out of date", "not a regular
    file" or "unknown".

    Raises ``OSError`` where a file cannot be read.
    """
    wanted = texts() if wanted is None else wanted
    found: dict[str, str] = {}
    for name, text in wanted.items():
        path = directory / name
        if not path.exists():
            found[name] = "missing"
        elif not path.is_file():  # a pipe would be waited for
            found[name] = "not a regular file"
        elif not _holds(path, text.encode()):
            found[name] = "out of date"
    for path in directory.glob("*.json"):
        if path.name not in wanted:
            found[path.name] = "unknown"
    return found


def _holds(path: Path, content: bytes) -> bool:
    """Whether a file, whatever its size, holds this and no more."""
    with path.open("rb") as file:
        return file.read(len(content) + 1) == content
