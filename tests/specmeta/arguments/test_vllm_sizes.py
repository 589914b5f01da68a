"""Sizes and graphs of vLLM."""

from __future__ import annotations

import pytest

from tests.specmeta.arguments.reading import engine, only, read, refused


@pytest.mark.parametrize(
    ("written", "tokens"),
    [(8192, 8192), ("8k", 8000), ("8K", 8192), ("1.5m", 1_500_000), ("1M", 2**20)],
)
def test_sizes_may_have_a_unit(written: object, tokens: int) -> None:
    assert read("vllm", **{"max-num-batched-tokens": written}).engine.max_num_tokens == tokens


@pytest.mark.parametrize("written", ["1.5K", "8 k", "8kk", "k", "$TOKENS", "8192"])
def test_other_texts_are_no_sizes(written: str) -> None:
    (found,) = refused("vllm", **{"max-num-batched-tokens": written})
    assert (found.rule, found.field, found.value) == ("int_type", "max-num-batched-tokens", written)


@pytest.mark.parametrize("written", ["auto", -1, None])
def test_a_length_that_the_engine_takes_from_the_target_is_asked_for(written: object) -> None:
    assert only(refused("vllm", **{"max-model-len": written}))[:2] == (
        "argument_required",
        "max-model-len",
    )


@pytest.mark.parametrize(
    ("top", "sizes"),
    [
        ({"cudagraph-capture-sizes": [8, 16, 64]}, (1, 2, 8)),
        ({"cuda-graph-sizes": [1, 64]}, (1, 8)),  # a size is rounded up to whole rows
        ({"cudagraph-capture-sizes": [65, 512]}, ()),  # for steps with prompts
        ({"cudagraph-capture-sizes": 8}, (1,)),
        ({"cudagraph-capture-sizes": [8], "enforce-eager": True}, ()),
    ],
)
def test_graphs_of_tokens_are_those_of_rows(top: dict[str, object], sizes: tuple[int, ...]) -> None:
    assert read("vllm", **top).engine == engine(cuda_graph_batch_sizes=sizes)


def test_graph_sizes_that_are_no_numbers_are_refused() -> None:
    (found,) = refused("vllm", **{"cudagraph-capture-sizes": [8, "16"]})
    assert (found.rule, found.field, found.index, found.value) == (
        "argument_invalid",
        "cudagraph-capture-sizes",
        1,
        "16",
    )


def test_graph_sizes_that_the_engine_chooses_are_said() -> None:
    (found,) = read("vllm", **{"max-cudagraph-capture-size": 64}).findings
    assert (found.rule, found.field) == ("argument_not_read", "max-cudagraph-capture-size")


def test_stages_share_one_pool() -> None:
    arguments = read("vllm", **{"pipeline-parallel-size": 4, "tp": 2})
    assert arguments.engine == engine(pipeline_parallel_size=4, tensor_parallel_size=2)
