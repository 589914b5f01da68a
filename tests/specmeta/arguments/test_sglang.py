"""SGLang's arguments, as YAML."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta import DFlashDecodingConfig, DSparkDecodingConfig, EngineConfig, MTPDecodingConfig
from specmeta._arguments import read_arguments
from specmeta._files import parse_yaml
from tests.specmeta.arguments.reading import engine, only, read, refused

EVERYTHING = b"""\
model-path: Qwen/Qwen3-8B
dtype: bfloat16
max-running-requests: 16
max-prefill-tokens: 16384
chunked-prefill-size: 8192
context-length: 32768
tp: 8
pp-size: 2
cuda-graph-bs: [1, 2, 16]
speculative-algorithm: NEXTN
speculative-draft-model-path: deepseek-ai/DeepSeek-R1-NextN
speculative-num-steps: 3
speculative-eagle-topk: 1
speculative-num-draft-tokens: 4
speculative-use-rejection-sampling: true
speculative-draft-model-quantization: fp8
"""


def test_everything_that_is_expressed_is_read_with_its_line() -> None:
    arguments = read_arguments(parse_yaml(EVERYTHING, "config.yaml"), "sglang")
    assert arguments.decoding == MTPDecodingConfig(max_draft_len=3, use_rejection_sampling=True)
    assert arguments.engine == EngineConfig(
        max_num_requests=16,
        num_seq_slots=16,
        max_num_tokens=8192,
        max_seq_len=32768,
        dtype="bfloat16",
        cuda_graph_batch_sizes=(1, 2, 16),
        tensor_parallel_size=8,
        pipeline_parallel_size=2,
    )
    assert arguments.stated == {}
    assert arguments.model == "Qwen/Qwen3-8B"
    assert arguments.draft_model == "deepseek-ai/DeepSeek-R1-NextN"
    assert arguments.findings == ()
    lines = {path: origin.line for path, origin in arguments.origins.items()}
    assert lines["engine", "max_num_tokens"] == 5
    assert lines["decoding", "max_draft_len"] == 14


@pytest.mark.parametrize(
    ("algorithm", "decoding"),
    [
        ("DSPARK", DSparkDecodingConfig(max_draft_len=7)),
        ("dspark", DSparkDecodingConfig(max_draft_len=7)),
        ("DFLASH", DFlashDecodingConfig(max_draft_len=7)),
        ("NEXTN", MTPDecodingConfig(max_draft_len=7)),
        ("EAGLE", MTPDecodingConfig(max_draft_len=7)),
    ],
)
def test_the_methods(algorithm: str, decoding: object) -> None:
    assert read("sglang", {"speculative-algorithm": algorithm}).decoding == decoding


@pytest.mark.parametrize("algorithm", ["EAGLE3", "STANDALONE", "NGRAM"])
def test_another_method_is_refused(algorithm: str) -> None:
    assert only(refused("sglang", {"speculative-algorithm": algorithm})) == (
        "method_not_supported",
        "speculative-algorithm",
        algorithm,
        f"{algorithm!r} is none of DSPARK, DFLASH, NEXTN, EAGLE",
    )


@pytest.mark.parametrize(
    ("top", "tokens"),
    [
        ({"chunked-prefill-size": 2048}, 2048),
        ({"chunked-prefill-size": 8192}, 4096),
        ({"chunked-prefill-size": -1}, 4096),
        ({"chunked-prefill-size": 2048, "max-prefill-tokens": None}, 2048),
        ({"chunked-prefill-size": 32}, 64),  # a full batch of drafts is verified all the same
    ],
)
def test_tokens_are_those_of_the_smaller_budget(top: dict[str, Any], tokens: int) -> None:
    assert read("sglang", **top).engine == engine(max_num_tokens=tokens)


@pytest.mark.parametrize(
    ("top", "sizes", "warned"),
    [
        ({"cuda-graph-bs": [1, 8]}, (1, 8), []),
        ({"cuda-graph-bs-decode": [1, 8], "cuda-graph-max-bs": 8}, (1, 8), []),
        ({"cuda-graph-max-bs": 8}, (), ["cuda-graph-max-bs"]),
        ({"cuda-graph-bs": [1, 8], "disable-cuda-graph": True}, (), []),
    ],
)
def test_graphs_are_of_rows(top: dict[str, Any], sizes: tuple[int, ...], warned: list[str]) -> None:
    arguments = read("sglang", **top)
    assert arguments.engine == engine(cuda_graph_batch_sizes=sizes)
    assert [found.field for found in arguments.findings] == warned


def test_a_disaggregated_server_has_seats_for_requests_under_transfer() -> None:
    assert read("sglang", **{"disaggregation-mode": "decode"}).engine == engine(num_seq_slots=16)
    assert read("sglang", **{"disaggregation-mode": "null"}).engine == engine()


def test_what_the_contracts_do_not_describe_is_said() -> None:
    arguments = read(
        "sglang",
        {
            "speculative-accept-threshold-single": 0.9,
            "speculative-accept-threshold-acc": 1.0,
            "speculative-draft-window-size": 2048,
            "speculative-adaptive": True,
            "speculative-new-thing": 3,
            "speculative-token-map": "map.pt",
        },
        **{"enable-dp-attention": True, "mem-fraction-static": 0.8},
    )
    assert [(found.rule, found.severity, found.field) for found in arguments.findings] == [
        ("argument_not_read", "warning", "enable-dp-attention"),
        ("argument_not_read", "warning", "speculative-accept-threshold-single"),
        ("argument_not_read", "warning", "speculative-draft-window-size"),
        ("argument_not_read", "warning", "speculative-adaptive"),
        ("argument_not_read", "warning", "speculative-new-thing"),
    ]


def test_misspelt_arguments_of_speculation_are_refused() -> None:
    rule, field, value, fact = only(refused("sglang", {"speculative-num-draft-token": 8}))
    assert (rule, field, value) == ("argument_misspelt", "speculative-num-draft-token", 8)
    assert fact == "is unknown to SGLang, which has 'speculative_num_draft_tokens'"


def test_all_that_is_absent_is_asked_for_at_once() -> None:
    nothing: dict[str, Any] = dict.fromkeys(
        ("max-running-requests", "max-prefill-tokens", "context-length", "dtype")
    )
    nothing |= dict.fromkeys(("speculative-algorithm", "speculative-num-draft-tokens"))
    found = refused("sglang", port=30000, **nothing)
    assert [(item.rule, item.field) for item in found] == [
        ("argument_required", "speculative-algorithm"),
        ("argument_required", "speculative-num-draft-tokens"),
        ("argument_required", "max-running-requests"),
        ("argument_required", "max-prefill-tokens"),
        ("argument_required", "context-length"),
        ("argument_required", "dtype"),
    ]
