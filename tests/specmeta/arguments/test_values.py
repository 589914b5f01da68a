"""Values that an engine takes, and those that it refuses or ignores."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta import InputError, MTPDecodingConfig
from tests.specmeta.arguments.reading import engine, only, read, refused

SHARED = "max-running-requests and chunked-prefill-size"


@pytest.mark.parametrize(
    ("name", "value", "read_as"),
    [
        ("enforce-eager", True, ()),
        ("no-enforce-eager", True, (1,)),
        ("no-enforce-eager", False, (1,)),
        ("enforce-eager", False, (1,)),
    ],
)
def test_no_in_front_of_a_switch_turns_it_off(
    name: str, value: object, read_as: tuple[int, ...]
) -> None:
    arguments = read("vllm", **{name: value, "cudagraph-capture-sizes": [8]})
    assert arguments.engine.cuda_graph_batch_sizes == read_as


def test_no_in_front_of_anything_else_is_refused() -> None:
    assert only(refused("vllm", **{"no-max-num-seqs": True})) == (
        "argument_misspelt",
        "no-max-num-seqs",
        True,
        "is unknown to vLLM, which has 'max_num_seqs'",
    )
    both = {"enforce-eager": True, "no-enforce-eager": True}
    assert only(refused("vllm", **both))[::3] == (
        "arguments_disagree",
        "True although enforce-eager is True",
    )


@pytest.mark.parametrize(
    ("name", "top", "rule", "fact"),
    [
        ("vllm", {"tensor-parallel-size": "8k"}, "int_type", "'8k' is not an integer"),
        ("vllm", {"max-num-seqs": "8k"}, "int_type", "'8k' is not an integer"),
        ("vllm", {"max-num-batched-tokens": "٨k"}, "int_type", "'٨k' is not an integer"),
        ("sglang", {"context-length": "8k"}, "int_type", "'8k' is not an integer"),
        ("sglang", {"max-prefill-tokens": "8k"}, "argument_invalid",
         "'8k' is no positive whole number"),
        ("vllm", {"enforce-eager": "true"}, "argument_invalid", "'true' is neither true nor false"),
        ("sglang", {"disable-cuda-graph": "on"}, "argument_invalid",
         "'on' is neither true nor false"),
        ("sglang", {"enable-dp-attention": "true"}, "argument_invalid",
         "'true' is neither true nor false"),
        ("sglang", {"speculative-use-rejection-sampling": "true"}, "argument_invalid",
         "'true' is neither true nor false"),
        ("sglang", {"disaggregation-mode": "decod"}, "argument_invalid",
         "'decod' is none of null, prefill, decode"),
        ("tensorrt_llm", {"cache_transceiver_config": {"backend": "tcp"}}, "argument_invalid",
         "'tcp' is none of DEFAULT, UCX, NIXL, MOONCAKE, MPI"),
        ("tensorrt_llm", {"cache_transceiver_config": {"backend": True}}, "argument_invalid",
         "True is none of DEFAULT, UCX, NIXL, MOONCAKE, MPI"),
        ("tensorrt_llm", {"disable_overlap_scheduler": "yes"}, "argument_invalid",
         "'yes' is neither true nor false"),
    ],
)  # fmt: skip
def test_values_that_the_engine_refuses_are_refused(
    name: str, top: dict[str, Any], rule: str, fact: str
) -> None:
    assert only(refused(name, **top))[::3] == (rule, fact)


@pytest.mark.parametrize("backend", ["DEFAULT", "ucx", "NIXL", "mooncake", "MPI"])
def test_the_transports_are_known(backend: str) -> None:
    arguments = read("tensorrt_llm", cache_transceiver_config={"backend": backend})
    assert arguments.engine.num_seq_slots == 16


@pytest.mark.parametrize(
    ("top", "changes", "fact"),
    [
        ({}, {}, "does nothing without a dp-size above 1"),
        ({"dp-size": 1}, {}, "does nothing without a dp-size above 1"),
        (
            {"dp": 4, "chunked-prefill-size": 8192},
            {"max_num_requests": 2, "num_seq_slots": 2, "max_num_tokens": 2048},
            f"{SHARED} are for 4 ranks together, and read for one",
        ),
    ],
)
def test_sizes_of_dp_attention_are_read_for_one_rank(
    top: dict[str, Any], changes: dict[str, Any], fact: str
) -> None:
    arguments = read("sglang", **{"enable-dp-attention": True, **top})
    assert arguments.engine == engine(**changes)
    (found,) = arguments.findings
    assert (found.rule, found.field, found.fact) == (
        "argument_not_read",
        "enable-dp-attention",
        fact,
    )
    assert read("sglang", **{**top, "chunked-prefill-size": None}).engine == engine()


def test_requests_that_are_fewer_than_the_ranks_are_told_as_they_are_written() -> None:
    top = {"enable-dp-attention": True, "dp-size": 16, "chunked-prefill-size": 32768}
    with pytest.raises(InputError) as caught:
        read("sglang", **top)
    errors = [item for item in caught.value.findings if item.severity == "error"]
    (found,) = errors
    assert (found.rule, found.field, found.value) == (
        "arguments_disagree",
        "max-running-requests",
        8,
    )
    assert found.fact == "8 requests are fewer than the 16 ranks that share them"


@pytest.mark.parametrize("method", ["DSPARK", "DFLASH"])
def test_rejection_sampling_of_sglang_is_that_of_mtp(method: str) -> None:
    switch = {"speculative-use-rejection-sampling": True}
    arguments = read("sglang", {"speculative-algorithm": method, **switch})
    assert not arguments.decoding.use_rejection_sampling
    (found,) = arguments.findings
    assert found.fact == f"is for NEXTN and EAGLE, and not read with {method}"
    assert read("sglang", {"speculative-algorithm": "NEXTN", **switch}).decoding == (
        MTPDecodingConfig(max_draft_len=7, use_rejection_sampling=True)
    )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("vllm", "speculative-config.method"),
        ("tensorrt_llm", "speculative_config.decoding_type"),
        ("sglang", "speculative-algorithm"),
    ],
)
def test_the_method_is_found_under_the_engines_name(name: str, key: str) -> None:
    assert read(name).origins["decoding", "decoding_type"].key == key
