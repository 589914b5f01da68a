"""vLLM's configuration, as YAML."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta import (
    DFlashDecodingConfig,
    DSparkDecodingConfig,
    EngineConfig,
    InputError,
    MTPDecodingConfig,
)
from specmeta._arguments import read_arguments
from specmeta._files import parse_yaml
from tests.specmeta.arguments.reading import engine, only, read, refused

EVERYTHING = b"""\
model: Qwen/Qwen3-8B
dtype: half
max-num-seqs: 16
max_num_batched_tokens: 8192
max-model-len: 32k
tensor-parallel-size: 8
pipeline-parallel-size: 2
gpu-memory-utilization: 0.9
compilation-config:
  cudagraph_capture_sizes: [1, 2, 8, 9, 128, 129, 512]
speculative-config:
  method: dspark
  model: deepseek-ai/dspark_qwen3_8b_block7
  num_speculative_tokens: 7
  draft_sample_method: probabilistic
  quantization: null
"""


def test_everything_that_is_expressed_is_read_with_its_line() -> None:
    arguments = read_arguments(parse_yaml(EVERYTHING, "config.yaml"), "vllm")
    assert arguments.decoding == DSparkDecodingConfig(max_draft_len=7, use_rejection_sampling=True)
    assert arguments.engine == EngineConfig(
        max_num_requests=16,
        num_seq_slots=16,
        max_num_tokens=8192,
        max_seq_len=32000,
        dtype="float16",
        cuda_graph_batch_sizes=(1, 2, 16),
        tensor_parallel_size=8,
        pipeline_parallel_size=2,
    )
    assert arguments.stated == {}
    assert arguments.model == "Qwen/Qwen3-8B"
    assert arguments.draft_model == "deepseek-ai/dspark_qwen3_8b_block7"
    assert arguments.findings == ()
    lines = {path: origin.line for path, origin in arguments.origins.items()}
    assert lines["engine", "max_num_tokens"] == 4
    assert lines["engine", "cuda_graph_batch_sizes"] == 10
    assert lines["decoding", "max_draft_len"] == 14


@pytest.mark.parametrize(
    ("method", "decoding"),
    [
        ("dspark", DSparkDecodingConfig(max_draft_len=7)),
        ("dflash", DFlashDecodingConfig(max_draft_len=7)),
        ("mtp", MTPDecodingConfig(max_draft_len=7)),
        ("deepseek_mtp", MTPDecodingConfig(max_draft_len=7)),
    ],
)
def test_the_methods(method: str, decoding: object) -> None:
    assert read("vllm", {"method": method}).decoding == decoding


@pytest.mark.parametrize("method", ["draft_model", "eagle3", "ngram", "DSpark"])
def test_another_method_is_refused(method: str) -> None:
    (found,) = refused("vllm", {"method": method})
    assert (found.rule, found.field, found.line) == (
        "method_not_supported",
        "speculative-config.method",
        6,
    )
    assert found.fact == f"{method!r} is none of dspark, dflash, mtp"
    assert found.reports == ("vllm-project/vllm-ascend#13665",)


def test_speculation_as_json_text_is_read() -> None:
    content = '{"method": "dspark", "num_speculative_tokens": 7}'
    assert read("vllm", **{"speculative-config": content}).decoding.max_draft_len == 7


def test_speculation_as_broken_text_is_refused() -> None:
    rule, field, value, fact = only(refused("vllm", **{"speculative-config": "{method: dspark}"}))
    assert (rule, field, value) == ("argument_invalid", "speculative-config", "{method: dspark}")
    assert fact is not None
    assert fact.startswith("'{method: dspark}' is not valid JSON (")


def test_an_error_in_json_text_is_told_on_the_line_of_its_argument() -> None:
    content = '{"method": "mtp", "num_speculative_tokens": 0}'
    (found,) = refused("vllm", **{"speculative-config": content})
    assert (found.rule, found.field, found.line) == (
        "greater_than",
        "speculative-config.num_speculative_tokens",
        5,
    )


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("num_speculative_token", "num_speculative_tokens"),
        ("num-speculative-tokens-", "num_speculative_tokens"),
        ("methods", "method"),
        ("draft_sampl_method", "draft_sample_method"),
        ("enable_adaptive_verfication", "enable_adaptive_verification"),
        ("draft_tensor_parallel_sise", "draft_tensor_parallel_size"),
    ],
)
def test_misspelt_arguments_of_speculation_are_refused(key: str, near: str) -> None:
    assert only(refused("vllm", {key: 3})) == (
        "argument_misspelt",
        f"speculative-config.{key}",
        3,
        f"is unknown to vLLM, which has {near!r}",
    )


def test_the_short_name_of_the_object_that_nobody_has_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        read("vllm", **{"spec-config": {"method": "dspark"}})
    assert ("argument_misspelt", "spec-config") in [
        (found.rule, found.field) for found in caught.value.findings
    ]


def test_other_arguments_of_the_engine_are_fine() -> None:
    arguments = read(
        "vllm",
        {"quantization": "fp8", "draft_tensor_parallel_size": 1, "disable_padded_drafter_batch": 1},
        **{"trust-remote-code": True, "max-num-seq": 3, "served-model-name": ["a", "b"]},
    )
    assert arguments.findings == ()


def test_what_the_contracts_do_not_describe_is_said() -> None:
    arguments = read(
        "vllm",
        {
            "enable_adaptive_verification": True,
            "num_speculative_tokens_per_batch_size": [[1, 8, 7], [9, 64, 3]],
            "rejection_sample_method": "block",
            "use_heterogeneous_vocab": False,
            "acceptance_rate_threshold": 1.0,
        },
        config="more.yaml",
    )
    assert [(item.rule, item.severity, item.field, item.line) for item in arguments.findings] == [
        ("argument_not_read", "warning", "speculative-config.rejection_sample_method", 10),
        ("argument_not_read", "warning", "speculative-config.enable_adaptive_verification", 8),
        (
            "argument_not_read",
            "warning",
            "speculative-config.num_speculative_tokens_per_batch_size",
            9,
        ),
        ("argument_not_read", "warning", "speculative-config.acceptance_rate_threshold", 12),
        ("argument_not_read", "warning", "config", 13),
    ]


def test_a_heap_of_unknown_arguments_is_summed_up() -> None:
    findings = read("vllm", {f"unheard_of_{number}": 1 for number in range(50_000)}).findings
    assert len(findings) == 33
    assert findings[0].fact == "is not known here, and not read"
    assert findings[32].field == "speculative-config.unheard_of_32"
    assert findings[32].fact == "and 49967 more are not known here, and not read"


@pytest.mark.parametrize(
    ("drafts", "by_ratio"), [("greedy", False), ("probabilistic", True), (None, False)]
)
def test_rejection_sampling_is_by_ratio_where_drafts_are_sampled(
    drafts: str | None, by_ratio: bool
) -> None:
    arguments = read("vllm", {"draft_sample_method": drafts, "rejection_sample_method": "standard"})
    assert arguments.decoding.use_rejection_sampling is by_ratio
    assert arguments.findings == ()


def test_an_unknown_way_to_sample_is_refused() -> None:
    assert only(refused("vllm", {"draft_sample_method": "gumbel"})) == (
        "argument_invalid",
        "speculative-config.draft_sample_method",
        "gumbel",
        "'gumbel' is none of greedy, probabilistic",
    )


def test_two_spellings_of_one_argument_may_not_disagree() -> None:
    assert only(refused("vllm", max_num_seqs=9)) == (
        "arguments_disagree",
        "max_num_seqs",
        9,
        "9 although max-num-seqs is 8",
    )
    assert read("vllm", max_num_seqs=8).engine == engine()


def test_all_that_is_absent_is_asked_for_at_once() -> None:
    nothing: dict[str, Any] = dict.fromkeys(
        ("max-num-seqs", "max-num-batched-tokens", "max-model-len", "dtype", "speculative-config")
    )
    nothing["port"] = 8000
    assert [(found.rule, found.field) for found in refused("vllm", **nothing)] == [
        ("argument_required", "speculative-config"),
        ("argument_required", "max-num-seqs"),
        ("argument_required", "max-num-batched-tokens"),
        ("argument_required", "max-model-len"),
        ("argument_required", "dtype"),
    ]
    found = refused("vllm", {"method": None, "num_speculative_tokens": None, "revision": "main"})
    assert [(item.rule, item.field, item.line) for item in found] == [
        ("argument_required", "speculative-config.method", 5),
        ("argument_required", "speculative-config.num_speculative_tokens", 5),
    ]
