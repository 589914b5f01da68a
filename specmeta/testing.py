"""Factories for tests: valid by default, every override validated.

A test that needs metadata takes it from here rather than from a stub, so it sees each new rule and
field.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._decoding import DECODING_CONFIGS
from ._deployment import Deployment
from ._drafter import DRAFTER_CONFIGS
from ._engine import EngineConfig
from ._errors import show
from ._factory import static_fields
from ._metadata import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata
from ._sampling import SamplingParams
from ._target import TargetConfig
from ._types import DecodingType

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "deployments",
    "make_deployment",
    "make_dflash_metadata",
    "make_dspark_metadata",
    "make_mtp_metadata",
    "spec_metadata",
]

_SIZES = {"hidden_size": 64, "vocab_size": 256, "max_position_embeddings": 512}
_LAYERS = {
    "attention_kind": "grouped_query",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
}
_BLOCK = {
    **_LAYERS,
    "block_size": 7,
    "mask_token_id": 255,
    "target_layer_ids": (0, 2),
    "layer_id_convention": "output_of_layer",
    "window_causality": "non_causal",
    "sliding_window": 32,
}
_DRAFTERS: dict[str, dict[str, Any]] = {
    "DSpark": {
        **_SIZES,
        **_BLOCK,
        "num_layers": 2,
        "anchor_convention": "anchor_first",
        "markov_rank": 8,
        "markov_head_type": "vanilla",
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
    },
    "DFlash": {**_SIZES, **_BLOCK, "num_layers": 2, "anchor_convention": "mask_at_position"},
    "MTP": {
        **_SIZES,
        **_LAYERS,
        "num_layers": 1,
        "sliding_window": None,
        "target_hidden_state": "before_final_norm",
    },
}
_TARGET = {**_SIZES, "num_layers": 4}
_OWN = ("overrides", "compiled_for")  # fields of the deployment that no part has
_DRAFT_LEN = {"DSpark": 7, "DFlash": 6, "MTP": 3}


def make_deployment(decoding_type: DecodingType = "DSpark", **overrides: Any) -> Deployment:
    """A small valid deployment.

    Overrides are fields of any part (``num_seq_slots=4``; one that several parts share, like
    ``hidden_size``, goes to each of them), or a whole part: ``target=``, ``drafter=``,
    ``decoding=``, ``engine=`` take a model, or a mapping of overrides for that part alone;
    ``overrides=`` and ``compiled_for=`` are the deployment's own. Raises
    ``pydantic.ValidationError`` where the result is not valid, ``TypeError`` for a name that no
    part has.
    """
    if decoding_type not in tuple(_DRAFT_LEN):
        raise TypeError(
            f"make_deployment takes one of {', '.join(_DRAFT_LEN)}, not {show(decoding_type)}"
        )
    draft_len = _DRAFT_LEN[decoding_type]
    classes: dict[str, Any] = {
        "target": TargetConfig,
        "drafter": DRAFTER_CONFIGS[decoding_type],
        "decoding": DECODING_CONFIGS[decoding_type],
        "engine": EngineConfig,
    }
    defaults: dict[str, dict[str, Any]] = {
        "target": _TARGET,
        "drafter": _DRAFTERS[decoding_type],
        "decoding": {"max_draft_len": draft_len},
        "engine": {"dtype": "float32", "max_seq_len": 256},
    }
    given = {part: overrides.pop(part, {}) for part in classes}
    own = {name: overrides.pop(name) for name in _OWN if name in overrides}
    flat: dict[str, dict[str, Any]] = {part: {} for part in classes}
    for name, value in overrides.items():
        owners = [
            part
            for part, model in classes.items()
            if name in model.model_fields and name != "decoding_type"
        ]
        if not owners or name == "num_layers":
            hint = (
                "give it in target={...} or drafter={...}" if owners else "it is a field of no part"
            )
            raise TypeError(f"make_deployment got {name!r}: {hint}")
        for part in owners:
            flat[part][name] = value
    parts: dict[str, Any] = {}
    for part, model in classes.items():
        if not isinstance(given[part], Mapping):
            parts[part] = given[part]
            continue
        fields = {**defaults[part], **flat[part], **given[part]}
        if part == "drafter":  # as in most checkpoints: what is not given follows what is
            fields.setdefault("draft_vocab_size", fields["vocab_size"])
            if decoding_type != "MTP":
                fields.setdefault("target_hidden_size", fields["hidden_size"])
        if part == "engine":
            chosen = _count(getattr(parts["decoding"], "max_draft_len", None), draft_len)
            fields = {**_engine_defaults(fields, chosen), **fields}
        parts[part] = model(**fields)
    return Deployment(**parts, **own)


def _engine_defaults(fields: Mapping[str, Any], max_draft_len: int) -> dict[str, Any]:
    """Sizes that follow from those given, so that one override does not force the others."""
    requests = fields.get("max_num_requests", 8)
    if type(requests) is not int or requests < 1:
        requests = 8
    return {
        "max_num_requests": requests,
        "num_seq_slots": 2 * requests,
        "max_num_tokens": max(256, requests * (max_draft_len + 1)),
        "cuda_graph_batch_sizes": tuple(size for size in (1, 2, 4, 8, 16, 32) if size <= requests),
    }


def make_dspark_metadata(
    deployment: Deployment | None = None, **overrides: Any
) -> DSparkSpecMetadata:
    """A small valid `DSparkSpecMetadata`, of `deployment` where one is given.

    Overrides are its fields. Row fields that are not given follow from those that are: two
    generation rows with full drafts by default, contexts of 4 tokens at position 0 for
    ``num_contexts``, temperature 1 where the deployment uses rejection sampling. Raises
    ``pydantic.ValidationError`` where the result is not valid.
    """
    return DSparkSpecMetadata(**_metadata_fields("DSpark", deployment, overrides))


def make_dflash_metadata(
    deployment: Deployment | None = None, **overrides: Any
) -> DFlashSpecMetadata:
    """A small valid `DFlashSpecMetadata`; like `make_dspark_metadata`."""
    return DFlashSpecMetadata(**_metadata_fields("DFlash", deployment, overrides))


def make_mtp_metadata(deployment: Deployment | None = None, **overrides: Any) -> MTPSpecMetadata:
    """A small valid `MTPSpecMetadata`; like `make_dspark_metadata`."""
    return MTPSpecMetadata(**_metadata_fields("MTP", deployment, overrides))


def deployments(decoding_type: DecodingType | None = None) -> "SearchStrategy[Deployment]":
    """Hypothesis strategy of valid deployments, of one decoding type or of all."""
    from . import _strategies

    return _strategies.deployments(decoding_type)


def spec_metadata(
    decoding_type: DecodingType | None = None, *, deployment: Deployment | None = None
) -> "SearchStrategy[DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata]":
    """Hypothesis strategy of valid metadata: of `deployment`, or of any of that decoding type."""
    from . import _strategies

    return _strategies.spec_metadata(decoding_type, deployment)


def _metadata_fields(
    decoding_type: DecodingType, deployment: Deployment | None, overrides: dict[str, Any]
) -> dict[str, Any]:
    if deployment is None:
        deployment = make_deployment(decoding_type)
    elif type(deployment) is not Deployment:
        raise TypeError(f"the factories take a Deployment, not {show(deployment)}")
    elif deployment.decoding_type != decoding_type:
        raise TypeError(f"the deployment is for {deployment.decoding_type}, not {decoding_type}")
    fields = {**static_fields(deployment), **overrides}
    rows = min(2, _count(fields["max_num_requests"], 2))
    ids = fields.setdefault("request_ids", tuple(range(101, 101 + rows)))
    rows = len(ids) if isinstance(ids, tuple | list) else rows
    contexts = min(_count(fields.setdefault("num_contexts", 0), 0), rows)
    width = _count(fields["max_draft_len"], 1) + 1
    fields.setdefault("seq_lens", (4,) * contexts + (width,) * (rows - contexts))
    fields.setdefault("context_positions", (0,) * contexts)
    if deployment.decoding.use_rejection_sampling:
        params = tuple(SamplingParams(temperature=1.0, seed=row) for row in range(rows))
        fields.setdefault("sampling", params)
    if "num_seq_slots" not in overrides:  # a wider shape alone is not a mistake in a test
        fields["num_seq_slots"] = max(
            fields["num_seq_slots"], _count(fields["max_num_requests"], 1)
        )
    if "max_num_tokens" not in overrides:
        fields["max_num_tokens"] = max(fields["max_num_tokens"], (rows + 1) * width)
    return fields


def _count(value: object, default: int) -> int:
    """A count that defaults can be derived from; an invalid override is left for the validation to
    report.
    """
    return value if type(value) is int and value >= 0 else default
