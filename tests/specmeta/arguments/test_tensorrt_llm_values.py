"""Values of TensorRT-LLM's arguments that are refused, or not read."""

from __future__ import annotations

import pytest

from tests.specmeta.arguments.reading import read, refused


def test_what_the_contracts_do_not_describe_is_said() -> None:
    arguments = read(
        "tensorrt_llm",
        {
            "draft_len_schedule": {"1": 7},
            "max_concurrency": 4,
            "use_relaxed_acceptance_for_thinking": False,
            "enable_confidence_scheduling": True,
            "something_new": 1,
        },
        cuda_graph_config={"max_batch_size": 8},
    )
    assert [(item.rule, item.severity, item.field) for item in arguments.findings] == [
        ("argument_not_read", "warning", "speculative_config.draft_len_schedule"),
        ("argument_not_read", "warning", "speculative_config.max_concurrency"),
        ("argument_not_read", "warning", "speculative_config.enable_confidence_scheduling"),
        ("argument_not_read", "warning", "speculative_config.something_new"),
        ("argument_not_read", "warning", "cuda_graph_config.max_batch_size"),
    ]
    assert arguments.engine.cuda_graph_batch_sizes == ()


def test_bounds_of_the_models_are_told_with_the_engines_names() -> None:
    found = refused(
        "tensorrt_llm",
        {"acceptance_rate_window_size": 4, "max_draft_len": "7"},
        max_batch_size=True,
        cuda_graph_config={"batch_sizes": [4, 2]},
    )
    assert [(item.rule, item.field, item.index, item.line) for item in found] == [
        ("int_type", "speculative_config.max_draft_len", None, 7),
        ("acceptance_gate_incomplete", "speculative_config.acceptance_rate_threshold", None, 5),
        ("int_type", "max_batch_size", None, 1),
        ("graph_sizes_not_increasing", "cuda_graph_config.batch_sizes", 1, 10),
    ]


def test_a_rule_of_the_models_names_the_engines_argument() -> None:
    (found,) = refused("tensorrt_llm", cuda_graph_config={"batch_sizes": [4, 2]})
    assert (found.rule, found.field, found.index, found.value, found.line) == (
        "graph_sizes_not_increasing",
        "cuda_graph_config.batch_sizes",
        1,
        2,
        9,
    )
    (found,) = refused("tensorrt_llm", {"acceptance_rate_window_size": 4})
    assert (found.rule, found.field, found.line) == (
        "acceptance_gate_incomplete",
        "speculative_config.acceptance_rate_threshold",
        5,
    )


@pytest.mark.parametrize(
    ("top", "rule", "field", "fact"),
    [
        ({"speculative_config": 7}, "argument_invalid", "speculative_config", "7 is not an object"),
        (
            {"cuda_graph_config": [1]},
            "argument_invalid",
            "cuda_graph_config",
            "a list of 1 is not an object",
        ),
        ({"model": 7}, "argument_invalid", "model", "7 is not text"),
        (
            {"enable_attention_dp": 1},
            "argument_invalid",
            "enable_attention_dp",
            "1 is neither true nor false",
        ),
    ],
)
def test_values_of_another_kind_are_refused(
    top: dict[str, object], rule: str, field: str, fact: str
) -> None:
    found = refused("tensorrt_llm", **top)
    assert (found[0].rule, found[0].field, found[0].fact) == (rule, field, fact)
