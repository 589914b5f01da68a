"""The YAML of TensorRT-LLM's LLM API."""

from __future__ import annotations

import pytest

from specmeta import DFlashDecodingConfig, DSparkDecodingConfig, EngineConfig, MTPDecodingConfig
from specmeta._arguments import read_arguments
from specmeta._files import parse_yaml
from tests.specmeta.arguments.reading import engine, only, read, refused

EVERYTHING = b"""\
model: Qwen/Qwen3-8B
dtype: float16
backend: pytorch
max_batch_size: 16
max_num_tokens: 8192
max_seq_len: 4096
tensor_parallel_size: 8
pipeline_parallel_size: 2
cuda_graph_config:
  enable_padding: true
  batch_sizes: [1, 2, 16]
speculative_config:
  decoding_type: DSpark
  max_draft_len: 7
  speculative_model: deepseek-ai/dspark_qwen3_8b_block7
  use_rejection_sampling: true
  acceptance_rate_window_size: 64
  acceptance_rate_threshold: 1.0
  block_size: 7
  mask_token_id: 151669
  target_layer_ids: [1, 9, 17, 25, 33]
  markov_rank: 256
  markov_head_type: vanilla
  attention_backend: VANILLA
"""


def test_everything_that_is_expressed_is_read_with_its_line() -> None:
    document = parse_yaml(EVERYTHING, "config.yaml")
    arguments = read_arguments(document, "tensorrt_llm")
    assert arguments.decoding == DSparkDecodingConfig(
        max_draft_len=7,
        use_rejection_sampling=True,
        acceptance_rate_window_size=64,
        acceptance_rate_threshold=1.0,
    )
    assert arguments.engine == EngineConfig(
        max_num_requests=16,
        num_seq_slots=32,
        max_num_tokens=8192,
        max_seq_len=4096,
        dtype="float16",
        cuda_graph_batch_sizes=(1, 2, 16),
        tensor_parallel_size=8,
        pipeline_parallel_size=2,
    )
    assert arguments.stated == {
        "block_size": 7,
        "mask_token_id": 151669,
        "target_layer_ids": [1, 9, 17, 25, 33],
        "markov_rank": 256,
        "markov_head_type": "vanilla",
    }
    assert arguments.model == "Qwen/Qwen3-8B"
    assert arguments.draft_model == "deepseek-ai/dspark_qwen3_8b_block7"
    assert arguments.findings == ()
    lines = {path: origin.line for path, origin in arguments.origins.items()}
    assert lines["engine", "max_num_requests"] == 4
    assert lines["engine", "cuda_graph_batch_sizes"] == 11
    assert lines["decoding", "max_draft_len"] == 14
    assert lines["stated", "target_layer_ids"] == 21
    assert arguments.origins["decoding", "max_draft_len"].key == "speculative_config.max_draft_len"


def test_the_methods() -> None:
    assert read("tensorrt_llm", {"decoding_type": "DFlash"}).decoding == DFlashDecodingConfig(
        max_draft_len=7
    )
    assert read("tensorrt_llm", {"decoding_type": "MTP"}).decoding == MTPDecodingConfig(
        max_draft_len=7
    )


@pytest.mark.parametrize(
    ("arguments", "slots"),
    [
        ({}, 8),
        ({"enable_attention_dp": True}, 16),
        ({"enable_attention_dp": True, "disable_overlap_scheduler": True}, 8),
        ({"cache_transceiver_config": {"backend": "DEFAULT"}}, 16),
        ({"cache_transceiver_config": {"max_tokens_in_buffer": 4096}}, 8),
        ({"pipeline_parallel_size": 4}, 32),
        ({"pipeline_parallel_size": 4, "enable_attention_dp": True}, 40),
        ({"pp_size": 4, "cache_transceiver_config": {"backend": "UCX"}}, 64),
    ],
)
def test_the_slot_pool_is_sized_as_the_engine_does(
    arguments: dict[str, object], slots: int
) -> None:
    assert read("tensorrt_llm", **arguments).engine.num_seq_slots == slots


def test_the_deprecated_name_of_the_draft_length_is_read() -> None:
    arguments = read(
        "tensorrt_llm",
        {"decoding_type": "MTP", "max_draft_len": None, "num_nextn_predict_layers": 3},
    )
    assert arguments.decoding == MTPDecodingConfig(max_draft_len=3)
    assert read("tensorrt_llm", {"max_total_draft_tokens": 7}).decoding.max_draft_len == 7


@pytest.mark.parametrize("name", ["num_nextn_predict_layers", "max_total_draft_tokens"])
def test_draft_lengths_that_disagree_are_refused(name: str) -> None:
    (found,) = refused("tensorrt_llm", {name: 5})
    assert found.rule == "draft_tokens_disagree"
    assert found.field == f"speculative_config.{name}"
    assert found.fact == "5 although speculative_config.max_draft_len is 7"
    assert (found.value, found.line) == (5, 8)
    assert found.reports == ("NVIDIA/Model-Optimizer#2247",)


def test_another_method_is_refused() -> None:
    assert only(refused("tensorrt_llm", {"decoding_type": "Eagle3"})) == (
        "method_not_supported",
        "speculative_config.decoding_type",
        "Eagle3",
        "'Eagle3' is none of DSpark, DFlash, MTP",
    )


def test_a_method_in_another_case_is_refused_as_the_engine_does() -> None:
    assert only(refused("tensorrt_llm", {"decoding_type": "dspark"}))[0] == "method_not_supported"


def test_all_that_is_absent_is_asked_for_at_once() -> None:
    found = refused(
        "tensorrt_llm",
        {"max_draft_len": None, "decoding_type": None},
        max_batch_size=None,
        max_num_tokens=None,
        max_seq_len=None,
        dtype="auto",
        pipeline_parallel_size=0,
    )
    assert [(item.rule, item.field) for item in found] == [
        ("argument_required", "speculative_config.decoding_type"),
        ("argument_required", "speculative_config.max_draft_len"),
        ("argument_required", "max_batch_size"),
        ("argument_required", "max_num_tokens"),
        ("argument_required", "max_seq_len"),
        ("argument_required", "dtype"),
        ("greater_than", "pipeline_parallel_size"),
    ]
    assert found[2].fact.startswith("is not given (rows of one forward batch")


def test_no_speculation_at_all_is_refused() -> None:
    assert only(refused("tensorrt_llm", speculative_config=None)) == (
        "argument_required",
        "speculative_config",
        None,
        "is not given, so nothing is speculated",
    )


def test_what_the_caller_knows_is_not_asked_for() -> None:
    content = b"max_batch_size: 8\nmax_num_tokens: 4096\ndtype: auto\n"
    content += b"speculative_config: {decoding_type: DSpark, max_draft_len: 7}\n"
    arguments = read_arguments(
        parse_yaml(content, "config.yaml"),
        "tensorrt_llm",
        defaults={"dtype": "bfloat16", "max_seq_len": 2048},
    )
    assert arguments.engine == engine()
