"""The bound of each rule on configurations: the nearest value that must pass, and one beyond it.

Forms are those of docs/faults.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from specmeta.testing import make_deployment

from .fault_cases import Form


class Bound(NamedTuple):
    """A rule with the form that must pass and the one that it refuses."""

    rule: str
    passes: Form
    refused: Form
    base: str | None = "DSpark"
    checkpoint: str | None = None


def _at(rule: str, path: str, passes: object, refused: object, **start: Any) -> Bound:
    """A bound of one field of a deployment."""
    part, name = path.split(".")
    forms: list[Form] = []
    for value in (passes, refused):
        given: Form = {key: dict(fields) for key, fields in start.get("given", {}).items()}
        given.setdefault(part, {})[name] = value
        forms.append({"deployment": given})
    return Bound(rule, forms[0], forms[1], start.get("base", "DSpark"))


def _file(
    rule: str, passes: Form, refused: Form, checkpoint: str = "dspark_qwen3_8b_block7"
) -> Bound:
    """A bound of a published configuration, or of its weights."""
    return Bound(rule, passes, refused, None, checkpoint)


def _config(name: str, value: object) -> Form:
    return {"files": {"drafter/config.json": {name: value}}}


_KEY = make_deployment().compile_key.model_dump(mode="json")
_REASON = {"rule": "draft_beyond_block", "reason": "measured"}
_LONGER = {"decoding": {"max_draft_len": 8}, "engine": {"max_num_tokens": 256}}
_SERVED = {"max-num-seqs": 8, "max-num-batched-tokens": 4096, "max-model-len": 4096}
_METHOD = {"method": "dspark", "num_speculative_tokens": 7}


def _vllm(speculation: Form = _METHOD, extra: Form | None = None) -> Form:
    served = {**_SERVED, "dtype": "bfloat16", "speculative-config": speculation}
    return {"deployment": {"arguments": {"vllm": {**served, **(extra or {})}}}}


def _sglang(tokens: int = 8, topk: int = 1) -> Form:
    served = {"max-running-requests": 8, "max-prefill-tokens": 4096, "context-length": 4096}
    drafts = {"speculative-algorithm": "DSPARK", "speculative-num-draft-tokens": tokens}
    tree = {"speculative-eagle-topk": topk, "dtype": "bfloat16"}
    return {"deployment": {"arguments": {"sglang": {**served, **drafts, **tree}}}}


BOUNDS = [
    _at("layers_not_increasing", "drafter.target_layer_ids", [0, 1], [1, 1]),
    _at("layer_out_of_range", "drafter.target_layer_ids", [-1, 3], [-1, 4]),
    _at(
        "layer_out_of_range",
        "drafter.target_layer_ids",
        [0, 4],
        [0, 5],
        given={"drafter": {"layer_id_convention": "input_of_layer"}},
    ),
    _at("mask_token_out_of_range", "drafter.mask_token_id", 255, 256),
    _at("mask_token_out_of_range", "drafter.mask_token_id", 0, -1),
    _at(
        "block_size_out_of_range",
        "drafter.block_size",
        1,
        0,
        given={"decoding": {"max_draft_len": 1}},
    ),
    _at("heads_not_divisible", "drafter.num_key_value_heads", 4, 3),
    _at("head_dim_odd", "drafter.head_dim", 18, 17),
    _at(
        "markov_head_inconsistent",
        "drafter.markov_head_type",
        None,
        "vanilla",
        given={"drafter": {"markov_rank": 0, "confidence_head_with_markov": False}},
    ),
    _at(
        "confidence_head_inconsistent",
        "drafter.confidence_head_with_markov",
        False,
        True,
        given={"drafter": {"enable_confidence_head": False}},
    ),
    _at("draft_vocab_size_too_large", "drafter.draft_vocab_size", 256, 257),
    _at("num_seq_slots_too_small", "engine.num_seq_slots", 8, 7),
    _at(
        "acceptance_gate_incomplete",
        "decoding.acceptance_rate_threshold",
        0.5,
        None,
        given={"decoding": {"acceptance_rate_window_size": 1}},
    ),
    _at("step_rates_not_increasing", "decoding.steps_per_second", [[1, 9.0], [2, 9.0]], []),
    _at(
        "confidence_head_absent",
        "decoding.confidence_threshold",
        None,
        0.0,
        given={"drafter": {"enable_confidence_head": False, "confidence_head_with_markov": False}},
    ),
    _at("decoding_type_differs", "decoding.decoding_type", "DFlash", "DSpark", base="DFlash"),
    _at("hidden_size_differs", "drafter.target_hidden_size", 64, 65),
    _at("vocab_size_differs", "target.vocab_size", 256, 257),
    _at("draft_beyond_block", "drafter.block_size", 7, 6),
    _at("draft_beyond_block", "drafter.block_size", 7, 6, base="DFlash"),
    _at("draft_beyond_mtp_layers", "drafter.num_layers", 3, 2, base="MTP"),
    _at("max_seq_len_beyond_positions", "engine.max_seq_len", 512, 513),
    _at("window_too_small", "drafter.sliding_window", 8, 7),
    _at("max_num_tokens_too_small", "engine.max_num_tokens", 64, 63),
    _at("graph_sizes_not_increasing", "engine.cuda_graph_batch_sizes", [1, 2], [2, 2]),
    _at("graph_size_out_of_range", "engine.cuda_graph_batch_sizes", [1, 8], [1, 9]),
    _at("window_not_supported", "engine.supported_window_sizes", [32, 64], [64]),
    _at("kv_row_too_small", "engine.max_kv_tokens_per_request", 264, 263),
    _at("state_beyond_memory_limit", "engine.state_memory_limit", 409_889, 409_888),
    Bound(
        "compiled_for_other",
        {"deployment": {"compiled_for": _KEY}},
        {"deployment": {"compiled_for": {**_KEY, "max_draft_len": 6}}},
    ),
    Bound(
        "override_invalid",
        {"deployment": {**_LONGER, "overrides": [_REASON]}},
        {"deployment": {"overrides": [{**_REASON, "rule": "head_dim_odd"}]}},
    ),
    Bound(
        "override_repeated",
        {"deployment": {**_LONGER, "overrides": [_REASON]}},
        {"deployment": {**_LONGER, "overrides": [_REASON, _REASON]}},
    ),
    _file(
        "checkpoint_not_recognized",
        _config("architectures", ["Qwen3DSparkModel"]),
        _config("architectures", ["LlamaForCausalLM"]),
    ),
    _file(
        "fact_not_stated",
        {"stated": {"anchor_convention": "anchor_first"}},
        {},
        "deepspec_dflash_qwen3_8b_block7",
    ),
    _file("facts_disagree", {"stated": {"block_size": 7}}, {"stated": {"block_size": 6}}),
    _file("key_misspelt", _config("a_key_of_another_tool", 1), _config("blok_size", 7)),
    _file(
        "value_not_supported",
        _config("a_key_of_another_tool", 1),
        _config("selector_rank", 256),
        "zlab_qwen3_8b_dflash_b16",
    ),
    _file(
        "projection_width_differs",
        {"weights": {"fc.weight": [4096, 20480]}},
        {"weights": {"fc.weight": [4096, 16384]}},
    ),
    _file(
        "markov_rows_differ",
        {"weights": {"markov_head.markov_w1.weight": [151936, 256]}},
        {"weights": {"markov_head.markov_w1.weight": [151935, 256]}},
    ),
    _file(
        "d2t_length_differs",
        {"weights": {"d2t": [32000]}},
        {"weights": {"d2t": [31999]}},
        "speculators_dspark_qwen3_8b",
    ),
    _file(
        "d2t_type_differs",
        {"weights": {"d2t": ["I32", 32000]}},
        {"weights": {"d2t": ["F16", 32000]}},
        "speculators_dspark_qwen3_8b",
    ),
    _file(
        "draft_head_differs",
        {"weights": {"lm_head.weight": [32000, 4096]}},
        {"weights": {"lm_head.weight": [32001, 4096]}},
        "speculators_dspark_qwen3_8b",
    ),
    # The embedding and the head of a full vocabulary are the target's.
    _file(
        "tensor_missing",
        {"weights": {"embed_tokens.weight": None, "lm_head.weight": None}},
        {"weights": {"norm.weight": None}},
    ),
    _file(
        "tensor_unclaimed",
        {"weights": {"lm_head.weight": [151936, 4096]}},
        {"weights": {"aux_norm.weight": [4096]}},
    ),
    _file(
        "tensor_shape_differs",
        {"weights": {"norm.weight": [4096]}},
        {"weights": {"norm.weight": [4095]}},
    ),
    _file("method_not_supported", _vllm(), _vllm({**_METHOD, "method": "eagle"})),
    _file("argument_required", _vllm(), _vllm({"method": "dspark"})),
    _file("argument_invalid", _sglang(tokens=2), _sglang(tokens=1)),
    _file(
        "argument_misspelt",
        _vllm(extra={"gpu-memory-utilization": 0.9}),
        _vllm({**_METHOD, "num_speculative_tokns": 7}),
    ),
    _file("argument_not_supported", _sglang(topk=1), _sglang(topk=2)),
    _file(
        "arguments_disagree",
        _vllm(extra={"tensor-parallel-size": 2, "tp": 2}),
        _vllm(extra={"tensor-parallel-size": 2, "tp": 4}),
    ),
]
"""Every rule on configurations but those of paths, which test_deployment_paths.py covers."""
