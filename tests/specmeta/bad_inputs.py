"""Bad inputs of every model: what the model must report, and whether JSON Schema can say it too.

Each row changes one thing in a valid object. `beyond_schema` is empty where the published JSON
Schema must reject the same object, and otherwise says why JSON Schema cannot.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel

from specmeta import (
    Deployment,
    DFlashDrafterConfig,
    DSparkDecodingConfig,
    DSparkDrafterConfig,
    DSparkSpecMetadata,
    EngineConfig,
    MTPDrafterConfig,
    MTPSpecMetadata,
    RuleOverride,
    SamplingParams,
    TargetConfig,
)
from specmeta.testing import (
    make_deployment,
    make_dspark_metadata,
    make_mtp_metadata,
)

FLOOR = 2**64 - 1 - (2 * 7 + 1)  # first reserved id at max_draft_len 7

NOT_JSON = "JSON has no such value"
ONE_ARRAY = "JSON has one kind of array"
TWO_FIELDS = "compares two fields"
ORDER = "JSON Schema has no order of items"
EQUAL = "JSON Schema cannot say that items are equal"
SUM = "JSON Schema cannot add"
LENGTH = "compares a length with another field"


@dataclass(frozen=True)
class Bad:
    """One bad input: `changes` (dotted names) to a valid `model`, and the error it must give."""

    name: str
    model: type[BaseModel]
    changes: dict[str, Any]
    kind: str
    field: str
    index: int | None = None
    beyond_schema: str = ""


_FLOAT32 = np.float32(1e-6)  # has a __float__, of another value
_DEPLOYMENT = make_deployment()
_MTP = make_deployment("MTP")
_SAMPLING = SamplingParams(temperature=0.7, seed=3)
VALID: dict[type[BaseModel], BaseModel] = {
    TargetConfig: _DEPLOYMENT.target,
    DSparkDrafterConfig: _DEPLOYMENT.drafter,
    DFlashDrafterConfig: make_deployment("DFlash").drafter,
    MTPDrafterConfig: _MTP.drafter,
    DSparkDecodingConfig: _DEPLOYMENT.decoding,
    EngineConfig: _DEPLOYMENT.engine,
    Deployment: _DEPLOYMENT,
    SamplingParams: _SAMPLING,
    DSparkSpecMetadata: make_dspark_metadata(
        request_ids=(11, 12, 13), num_contexts=1, seq_lens=(5, 8, 1), context_positions=(0,)
    ),
    MTPSpecMetadata: make_mtp_metadata(),
}


def _ids(name: str, ids: object, kind: str, index: int | None, beyond: str = "") -> Bad:
    changes = {"request_ids": ids}
    return Bad(name, DSparkSpecMetadata, changes, kind, "request_ids", index, beyond)


def _rows(
    name: str, kind: str, field: str, index: int | None, beyond: str = "", **changes: Any
) -> Bad:
    return Bad(name, DSparkSpecMetadata, changes, kind, field, index, beyond)


METADATA = [
    _ids("id zero", (11, 0, 13), "request_id_not_positive", 1),
    _ids("id negative", (11, 12, -3), "request_id_not_positive", 2),
    _ids("id bool", (True, 12, 13), "int_type", 0),
    _ids("id numpy", (11, np.int64(12), 13), "int_type", 1, NOT_JSON),
    _ids("id string", (11, "12", 13), "int_type", 1),
    _ids("id float", (11, 12.5, 13), "int_type", 1),
    _ids("id none", (11, None, 13), "int_type", 1),
    _ids("id repeated", (11, 12, 11), "request_id_repeated", 2),
    _ids("id first reserved", (11, FLOOR, 13), "request_id_reserved", 1, TWO_FIELDS),
    _ids("id of a graph dummy", (11, 2**64 - 1, 13), "request_id_reserved", 1),
    _ids("id beyond 64 bits", (11, 2**80, 13), "request_id_reserved", 1),
    _ids("ids in a list", [11, 12, 13], "tuple_type", None, ONE_ARRAY),
    _ids("ids in an array", np.array([11, 12, 13]), "tuple_type", None, NOT_JSON),
    _ids("ids none", None, "tuple_type", None),
    _rows("ids too few", "lengths_disagree", "seq_lens", None, LENGTH, request_ids=(11, 12)),
    _rows("lengths too few", "lengths_disagree", "seq_lens", None, LENGTH, seq_lens=(5, 8)),
    _rows("lengths too many", "lengths_disagree", "seq_lens", None, LENGTH, seq_lens=(5, 8, 1, 1)),
    _rows("length zero", "seq_len_not_positive", "seq_lens", 2, seq_lens=(5, 8, 0)),
    _rows("context length zero", "seq_len_not_positive", "seq_lens", 0, seq_lens=(0, 8, 1)),
    _rows("length bool", "int_type", "seq_lens", 2, seq_lens=(5, 8, True)),
    _rows("context last", "generation_row_too_long", "seq_lens", 2, TWO_FIELDS, seq_lens=(5, 8, 9)),
    _rows(
        "positions too few",
        "lengths_disagree",
        "context_positions",
        None,
        LENGTH,
        context_positions=(),
    ),
    _rows(
        "positions too many",
        "lengths_disagree",
        "context_positions",
        None,
        LENGTH,
        context_positions=(0, 0),
    ),
    _rows(
        "position negative",
        "context_position_negative",
        "context_positions",
        0,
        context_positions=(-1,),
    ),
    _rows(
        "contexts beyond rows",
        "num_contexts_beyond_rows",
        "num_contexts",
        None,
        LENGTH,
        num_contexts=4,
        context_positions=(0, 0, 0, 0),
    ),
    _rows("contexts negative", "greater_than_equal", "num_contexts", None, num_contexts=-1),
    _rows("slots zero", "greater_than", "num_seq_slots", None, num_seq_slots=0),
    _rows("slots bool", "int_type", "num_seq_slots", None, num_seq_slots=True),
    _rows("slots none", "int_type", "num_seq_slots", None, num_seq_slots=None),
    _rows(
        "slots too few",
        "num_seq_slots_too_small",
        "num_seq_slots",
        None,
        TWO_FIELDS,
        num_seq_slots=7,
    ),
    _rows(
        "rows beyond shape",
        "rows_beyond_max_num_requests",
        "request_ids",
        None,
        LENGTH,
        max_num_requests=2,
    ),
    _rows(
        "padding beyond shape",
        "rows_beyond_max_num_requests",
        "num_padding",
        None,
        LENGTH,
        num_padding=6,
    ),
    _rows(
        "no rows",
        "rows_absent",
        "request_ids",
        None,
        LENGTH,
        request_ids=(),
        num_contexts=0,
        seq_lens=(),
        context_positions=(),
    ),
    _rows(
        "tokens beyond shape",
        "tokens_beyond_max_num_tokens",
        "max_num_tokens",
        None,
        SUM,
        max_num_tokens=13,
    ),
    _rows(
        "padding tokens beyond shape",
        "tokens_beyond_max_num_tokens",
        "max_num_tokens",
        None,
        SUM,
        max_num_tokens=21,
        num_padding=1,
    ),
    _rows("padding negative", "greater_than_equal", "num_padding", None, num_padding=-1),
    _rows(
        "finished in batch",
        "finished_request_in_batch",
        "finished_request_ids",
        1,
        TWO_FIELDS,
        finished_request_ids=(99, 12),
    ),
    _rows(
        "finished zero",
        "request_id_not_positive",
        "finished_request_ids",
        0,
        finished_request_ids=(0,),
    ),
    _rows(
        "finished twice",
        "request_id_repeated",
        "finished_request_ids",
        1,
        finished_request_ids=(9, 9),
    ),
    _rows(
        "rank count negative",
        "rank_counts_invalid",
        "all_rank_num_generations",
        1,
        all_rank_num_generations=(2, -1),
    ),
    _rows(
        "rank counts empty",
        "rank_counts_invalid",
        "all_rank_num_generations",
        None,
        all_rank_num_generations=(),
    ),
    _rows(
        "sampling too short",
        "lengths_disagree",
        "sampling",
        None,
        LENGTH,
        sampling=(_SAMPLING,) * 2,
    ),
    _rows(
        "sampling too long", "lengths_disagree", "sampling", None, LENGTH, sampling=(_SAMPLING,) * 4
    ),
    _rows("sampling empty", "lengths_disagree", "sampling", None, LENGTH, sampling=()),
    _rows(
        "sampling of a row none",
        "model_type",
        "sampling",
        1,
        sampling=(_SAMPLING, None, _SAMPLING),
    ),
    _rows("sampling shared", "tuple_type", "sampling", None, sampling=_SAMPLING),
    _rows(
        "sampling in a list", "tuple_type", "sampling", None, ONE_ARRAY, sampling=[_SAMPLING] * 3
    ),
    _rows("layers none", "layers_not_increasing", "layers_to_capture", None, layers_to_capture=()),
    _rows(
        "layers repeated", "layers_not_increasing", "layers_to_capture", 1, layers_to_capture=(2, 2)
    ),
    _rows(
        "layers falling",
        "layers_not_increasing",
        "layers_to_capture",
        2,
        ORDER,
        layers_to_capture=(0, 3, 2),
    ),
    _rows(
        "layer below the embedding",
        "layer_out_of_range",
        "layers_to_capture",
        0,
        layers_to_capture=(-2, 1),
    ),
    _rows(
        "draft beyond block", "draft_beyond_block", "max_draft_len", None, TWO_FIELDS, block_size=6
    ),
    _rows("draft absurd", "less_than_equal", "max_draft_len", None, max_draft_len=10**12),
    _rows("draft zero", "greater_than", "max_draft_len", None, max_draft_len=0),
    _rows("window too small", "window_too_small", "window_size", None, TWO_FIELDS, window_size=7),
    _rows("hidden size zero", "greater_than", "hidden_size", None, hidden_size=0),
    _rows("stages zero", "greater_than", "num_stages", None, num_stages=0),
    _rows("rows of two lengths", "rows_not_uniform", "seq_lens", 1, EQUAL, uniform_rows=True),
    _rows("dtype unknown", "literal_error", "dtype", None, dtype="float31"),
    _rows("graph flag int", "bool_type", "is_cuda_graph", None, is_cuda_graph=1),
    _rows("other method", "literal_error", "decoding_type", None, decoding_type="MTP"),
    _rows("typo", "extra_forbidden", "reqest_ids", None, reqest_ids=(1,)),
    Bad(
        "MTP id zero",
        MTPSpecMetadata,
        {"request_ids": (0, 2)},
        "request_id_not_positive",
        "request_ids",
        0,
    ),
    Bad("MTP has no window", MTPSpecMetadata, {"window_size": 8}, "extra_forbidden", "window_size"),
]


def _draft(
    name: str, kind: str, field: str, index: int | None, beyond: str = "", **changes: Any
) -> Bad:
    return Bad(name, DSparkDrafterConfig, changes, kind, field, index, beyond)


def _sample(name: str, kind: str, field: str, value: object, beyond: str = "") -> Bad:
    return Bad(name, SamplingParams, {field: value}, kind, field, None, beyond)


def _rates(name: str, kind: str, value: object, index: int | None, beyond: str = "") -> Bad:
    field = "steps_per_second"
    return Bad(name, DSparkDecodingConfig, {field: value}, kind, field, index, beyond)


CONFIGS = [
    Bad("no width", TargetConfig, {"hidden_size": 0}, "greater_than", "hidden_size"),
    Bad("no streams", TargetConfig, {"hc_mult": 0}, "greater_than", "hc_mult"),
    Bad("layers as text", TargetConfig, {"num_layers": "4"}, "int_type", "num_layers"),
    _draft("ids empty", "layers_not_increasing", "target_layer_ids", None, target_layer_ids=()),
    _draft(
        "ids repeated", "layers_not_increasing", "target_layer_ids", 2, target_layer_ids=(0, 1, 1)
    ),
    _draft(
        "ids falling",
        "layers_not_increasing",
        "target_layer_ids",
        1,
        ORDER,
        target_layer_ids=(2, 0),
    ),
    _draft(
        "id below the embedding",
        "layer_out_of_range",
        "target_layer_ids",
        0,
        target_layer_ids=(-2, 0),
    ),
    _draft(
        "input of layer -1",
        "layer_out_of_range",
        "target_layer_ids",
        0,
        target_layer_ids=(-1, 0),
        layer_id_convention="input_of_layer",
    ),
    _draft(
        "mask beyond embedding",
        "mask_token_out_of_range",
        "mask_token_id",
        None,
        TWO_FIELDS,
        mask_token_id=256,
    ),
    _draft("mask negative", "mask_token_out_of_range", "mask_token_id", None, mask_token_id=-1),
    _draft("block of 0", "block_size_out_of_range", "block_size", None, block_size=0),
    _draft("block of 1026", "block_size_out_of_range", "block_size", None, block_size=1026),
    *(
        Bad(f"{name} of 10**15", DSparkDrafterConfig, {name: 10**15}, "less_than_equal", name)
        for name in ("hidden_size", "num_layers", "vocab_size", "num_key_value_heads", "head_dim")
    ),
    _draft("mask none", "int_type", "mask_token_id", None, mask_token_id=None),
    _draft(
        "heads do not divide",
        "heads_not_divisible",
        "num_key_value_heads",
        None,
        TWO_FIELDS,
        num_key_value_heads=3,
    ),
    _draft("odd head", "head_dim_odd", "head_dim", None, head_dim=15),
    _draft(
        "rank without head",
        "markov_head_inconsistent",
        "markov_head_type",
        None,
        markov_head_type=None,
    ),
    _draft(
        "head without rank",
        "markov_head_inconsistent",
        "markov_head_type",
        None,
        markov_rank=0,
        confidence_head_with_markov=False,
    ),
    _draft("unknown head", "literal_error", "markov_head_type", None, markov_head_type="lstm"),
    _draft(
        "confidence absent",
        "confidence_head_inconsistent",
        "confidence_head_with_markov",
        None,
        enable_confidence_head=False,
    ),
    _draft(
        "confidence without Markov",
        "confidence_head_inconsistent",
        "confidence_head_with_markov",
        None,
        markov_rank=0,
        markov_head_type=None,
    ),
    _draft("anchor unknown", "literal_error", "anchor_convention", None, anchor_convention="first"),
    _draft(
        "head beyond the vocabulary",
        "draft_vocab_size_too_large",
        "draft_vocab_size",
        None,
        TWO_FIELDS,
        draft_vocab_size=257,
    ),
    _draft("window zero", "greater_than", "sliding_window", None, sliding_window=0),
    _draft(
        "theta infinite", "finite_number", "rope_theta", None, NOT_JSON, rope_theta=float("inf")
    ),
    _draft("epsilon zero", "greater_than", "rms_norm_eps", None, rms_norm_eps=0.0),
    _draft("epsilon bool", "float_type", "rms_norm_eps", None, rms_norm_eps=True),
    _draft(
        "epsilon of 32 bits", "float_type", "rms_norm_eps", None, NOT_JSON, rms_norm_eps=_FLOAT32
    ),
    _draft("head beyond 64 bits", "less_than_equal", "head_dim", None, head_dim=2**63),
    Bad(
        "MTP heads do not divide",
        MTPDrafterConfig,
        {"num_key_value_heads": 3},
        "heads_not_divisible",
        "num_key_value_heads",
        None,
        TWO_FIELDS,
    ),
    Bad("MTP odd head", MTPDrafterConfig, {"head_dim": 15}, "head_dim_odd", "head_dim"),
    Bad("MTP block", MTPDrafterConfig, {"block_size": 7}, "extra_forbidden", "block_size"),
    Bad(
        "MTP state unknown",
        MTPDrafterConfig,
        {"target_hidden_state": "last"},
        "literal_error",
        "target_hidden_state",
    ),
    _sample("temperature negative", "greater_than_equal", "temperature", -0.1),
    _sample("temperature infinite", "finite_number", "temperature", float("inf"), NOT_JSON),
    _sample("temperature NaN", "finite_number", "temperature", float("nan"), NOT_JSON),
    _sample("temperature of 32 bits", "float_type", "temperature", _FLOAT32, NOT_JSON),
    _sample("temperature none", "float_type", "temperature", None),
    _sample("seed negative", "greater_than_equal", "seed", -1),
    _sample("seed beyond 63 bits", "less_than_equal", "seed", 2**63),
    _sample("seed none", "int_type", "seed", None),
    _sample("seed bool", "int_type", "seed", True),
    _sample("top-k zero", "greater_than", "top_k", 0),
    _sample("top-p zero", "greater_than", "top_p", 0.0),
    _sample("top-p above one", "less_than_equal", "top_p", 1.5),
    _sample("top-p NaN", "less_than_equal", "top_p", float("nan"), NOT_JSON),
    _rates("rates absent", "step_rates_not_increasing", (), None),
    _rates("rates falling", "step_rates_not_increasing", ((1, 9.0), (8, 7.0), (4, 8.0)), 2, ORDER),
    _rates("rates of one count", "step_rates_not_increasing", ((4, 9.0), (4, 8.0)), 1, ORDER),
    Bad(
        "confidence above one",
        DSparkDecodingConfig,
        {"confidence_threshold": 1.1},
        "less_than_equal",
        "confidence_threshold",
    ),
    Bad("DFlash Markov", DFlashDrafterConfig, {"markov_rank": 8}, "extra_forbidden", "markov_rank"),
    Bad(
        "gate without threshold",
        DSparkDecodingConfig,
        {"acceptance_rate_window_size": 10},
        "acceptance_gate_incomplete",
        "acceptance_rate_threshold",
    ),
    Bad(
        "gate without window",
        DSparkDecodingConfig,
        {"acceptance_rate_threshold": 0.5},
        "acceptance_gate_incomplete",
        "acceptance_rate_window_size",
    ),
    Bad(
        "threshold above one",
        DSparkDecodingConfig,
        {"acceptance_rate_threshold": 1.5, "acceptance_rate_window_size": 10},
        "less_than_equal",
        "acceptance_rate_threshold",
    ),
    Bad("draft bool", DSparkDecodingConfig, {"max_draft_len": True}, "int_type", "max_draft_len"),
    Bad("slots zero", EngineConfig, {"num_seq_slots": 0}, "greater_than", "num_seq_slots"),
    Bad(
        "slots too few",
        EngineConfig,
        {"num_seq_slots": 7},
        "num_seq_slots_too_small",
        "num_seq_slots",
        None,
        TWO_FIELDS,
    ),
    Bad(
        "graph beyond batch",
        EngineConfig,
        {"cuda_graph_batch_sizes": (1, 9)},
        "graph_size_out_of_range",
        "cuda_graph_batch_sizes",
        1,
        TWO_FIELDS,
    ),
    Bad(
        "graph of zero",
        EngineConfig,
        {"cuda_graph_batch_sizes": (0, 1)},
        "graph_size_out_of_range",
        "cuda_graph_batch_sizes",
        0,
    ),
    Bad(
        "graphs falling",
        EngineConfig,
        {"cuda_graph_batch_sizes": (4, 2)},
        "graph_sizes_not_increasing",
        "cuda_graph_batch_sizes",
        1,
        ORDER,
    ),
    Bad(
        "graph twice",
        EngineConfig,
        {"cuda_graph_batch_sizes": (4, 4)},
        "graph_sizes_not_increasing",
        "cuda_graph_batch_sizes",
        1,
    ),
]


def _deploy(name: str, kind: str, field: str, index: int | None = None, **changes: Any) -> Bad:
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return Bad(name, Deployment, dotted, kind, field, index, TWO_FIELDS)


def _no_confidence(name: str, field: str, value: object) -> Bad:
    head = {"enable_confidence_head": False, "confidence_head_with_markov": False}
    changes = {f"drafter.{key}": off for key, off in head.items()}
    where = f"decoding.{field}"
    return Bad(name, Deployment, {**changes, where: value}, "confidence_head_absent", where)


DEPLOYMENTS = [
    _no_confidence("threshold without a head", "confidence_threshold", 0.5),
    _no_confidence("rates without a head", "steps_per_second", ((1, 90.0), (16, 60.0))),
    _deploy(
        "methods differ", "decoding_type_differs", "decoding.decoding_type", decoding=_MTP.decoding
    ),
    _deploy(
        "widths differ",
        "hidden_size_differs",
        "drafter.target_hidden_size",
        drafter__target_hidden_size=32,
    ),
    Bad(
        "MTP widths differ",
        Deployment,
        {
            "drafter": _MTP.drafter.model_copy(update={"hidden_size": 32}),
            "decoding": _MTP.decoding,
        },
        "hidden_size_differs",
        "drafter.hidden_size",
        None,
        TWO_FIELDS,
    ),
    _deploy(
        "vocabularies differ", "vocab_size_differs", "drafter.vocab_size", target__vocab_size=300
    ),
    _deploy(
        "layer beyond target",
        "layer_out_of_range",
        "drafter.target_layer_ids",
        1,
        drafter__target_layer_ids=(0, 4),
    ),
    _deploy(
        "input beyond target",
        "layer_out_of_range",
        "drafter.target_layer_ids",
        1,
        drafter__target_layer_ids=(0, 5),
        drafter__layer_id_convention="input_of_layer",
    ),
    _deploy(
        "draft beyond block",
        "draft_beyond_block",
        "decoding.max_draft_len",
        decoding__max_draft_len=8,
    ),
    _deploy(
        "draft beyond masks",
        "draft_beyond_block",
        "decoding.max_draft_len",
        drafter__anchor_convention="mask_at_position",
    ),
    _deploy(
        "MTP round cut",
        "draft_beyond_mtp_layers",
        "decoding.max_draft_len",
        drafter=_MTP.drafter.model_copy(update={"num_layers": 2}),
        decoding=_MTP.decoding,
    ),
    _deploy(
        "window too small", "window_too_small", "drafter.sliding_window", drafter__sliding_window=7
    ),
    _deploy(
        "context too small",
        "window_too_small",
        "engine.max_seq_len",
        drafter__sliding_window=None,
        engine__max_seq_len=7,
    ),
    _deploy(
        "beyond target positions",
        "max_seq_len_beyond_positions",
        "engine.max_seq_len",
        target__max_position_embeddings=255,
    ),
    _deploy(
        "beyond drafter positions",
        "max_seq_len_beyond_positions",
        "engine.max_seq_len",
        drafter__max_position_embeddings=255,
    ),
    _deploy(
        "token budget too small",
        "max_num_tokens_too_small",
        "engine.max_num_tokens",
        engine__max_num_tokens=63,
    ),
    _deploy(
        "no kernel for the window",
        "window_not_supported",
        "drafter.sliding_window",
        engine__supported_window_sizes=(16, 64),
    ),
    _deploy(
        "row of the KV map too small",
        "kv_row_too_small",
        "engine.max_kv_tokens_per_request",
        engine__max_kv_tokens_per_request=263,
    ),
    _deploy(
        "buffers beyond memory",
        "state_beyond_memory_limit",
        "engine.state_memory_limit",
        engine__state_memory_limit=1,
    ),
    _deploy(
        "compiled for other drafts",
        "compiled_for_other",
        "compiled_for.max_draft_len",
        compiled_for=_DEPLOYMENT.compile_key.model_copy(update={"max_draft_len": 6}),
    ),
    _deploy(
        "override of no rule",
        "override_invalid",
        "overrides",
        0,
        overrides=(RuleOverride(rule="draft_beyond_blok", reason="measured"),),
    ),
    _deploy(
        "overridden twice",
        "override_repeated",
        "overrides",
        1,
        overrides=(RuleOverride(rule="draft_beyond_block", reason="measured"),) * 2,
    ),
]

ALL = METADATA + CONFIGS + DEPLOYMENTS


def fields_of(bad: Bad) -> dict[str, Any]:
    """The fields of the bad object, nested models as mappings where one of their fields changes."""
    fields = dict(vars(VALID[bad.model]))
    for name, value in bad.changes.items():
        part, _, inner = name.partition(".")
        if not inner:
            fields[part] = value
            continue
        if isinstance(fields[part], BaseModel):
            fields[part] = dict(vars(fields[part]))
        fields[part][inner] = value
    return fields
