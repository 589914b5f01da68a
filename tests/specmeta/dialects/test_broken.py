"""A DSpark configuration that is broken is refused by a named rule on its line; its twin is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from .reading import QWEN, V4, at, changed, drafter, problems


class Case(NamedTuple):
    """A change that breaks one rule, and one beside it that does not."""

    rule: str
    key: str
    broken: Mapping[str, Any]
    twin: Mapping[str, Any]
    element: int | None = None
    folder: str = QWEN


def _block(value: object, rule: str = "int_type") -> Case:
    return Case(rule, "block_size", {"block_size": value}, {"block_size": 8})


def _mask(value: object, rule: str) -> Case:
    return Case(rule, "mask_token_id", {"mask_token_id": value}, {"mask_token_id": 151935})


def _layers(value: object, rule: str, index: int | None, twin: list[int]) -> Case:
    key = "target_layer_ids"
    return Case(rule, key, {key: value}, {key: twin}, index)


CASES = {
    "block below 1": _block(-3, "block_size_out_of_range"),
    "block of 0": _block(0, "block_size_out_of_range"),
    "block of true": _block(value=True),
    "block as text": _block("7"),
    "block as a float": _block(7.0, "int_type"),
    "mask beyond the embedding": _mask(151936, "mask_token_out_of_range"),
    "mask of -1": _mask(-1, "mask_token_out_of_range"),
    "mask of false": _mask(value=False, rule="int_type"),
    "layers repeated": _layers([1, 9, 9], "layers_not_increasing", 2, [1, 9, 10]),
    "layers unsorted": _layers([9, 1, 17], "layers_not_increasing", 1, [1, 9, 17]),
    "no layers": _layers([], "layers_not_increasing", None, [-1]),
    "a layer below the embedding": _layers([-2, 9], "layer_out_of_range", 0, [-1, 9]),
    "a layer as a float": _layers([1, 9.0], "int_type", 1, [1, 9]),
    "a layer of true": _layers([True, 9], "int_type", 0, [1, 9]),
    "layers as a number": _layers(3, "tuple_type", None, [3]),
    "unknown head": Case(
        "literal_error",
        "markov_head_type",
        {"markov_head_type": "lstm"},
        {"markov_head_type": "gated"},
    ),
    "rank below 0": Case(
        "greater_than_equal", "markov_rank", {"markov_rank": -1}, {"markov_rank": 1}
    ),
    "rank of true": Case("int_type", "markov_rank", {"markov_rank": True}, {"markov_rank": 1}),
    "confidence that reads no Markov head": Case(
        "confidence_head_inconsistent",
        "confidence_head_with_markov",
        {"markov_rank": 0},
        {"markov_rank": 0, "confidence_head_with_markov": False},
    ),
    "confidence of 1": Case(
        "bool_type",
        "enable_confidence_head",
        {"enable_confidence_head": 1},
        {"enable_confidence_head": True},
    ),
    "blocksize": Case("key_misspelt", "blocksize", {"blocksize": 7}, {"runtime_block_size": 7}),
    "Block_Size": Case("key_misspelt", "Block_Size", {"Block_Size": 7}, {"batch_size": 7}),
    "mask_tokenid": Case(
        "key_misspelt", "mask_tokenid", {"mask_tokenid": 151669}, {"pad_token_id": 151669}
    ),
    "sample_from_anchors": Case(
        "key_misspelt",
        "sample_from_anchors",
        {"sample_from_anchors": True},
        {"sample_from_anchor": True},
    ),
    "two blocks": Case(
        "facts_disagree",
        "dspark_block_size",
        {"dspark_block_size": 5},
        {"dspark_block_size": 7},
    ),
    "two masks": Case(
        "facts_disagree",
        "dspark_noise_token_id",
        {"dspark_noise_token_id": 4},
        {"dspark_noise_token_id": 151669},
    ),
    "two ranks": Case(
        "facts_disagree",
        "dspark_markov_rank",
        {"dspark_markov_rank": 8},
        {"dspark_markov_rank": 256},
    ),
    "two anchors": Case(
        "facts_disagree",
        "dspark_bonus_anchor",
        {"sample_from_anchor": True, "dspark_bonus_anchor": True},
        {"sample_from_anchor": True, "dspark_bonus_anchor": False},
    ),
    "anchor that is no bool": Case(
        "value_not_supported",
        "sample_from_anchor",
        {"sample_from_anchor": "yes"},
        {"sample_from_anchor": True},
    ),
    "window of -1": Case(
        "greater_than",
        "sliding_window",
        {"layer_types": ["sliding_attention"] * 5, "sliding_window": -1},
        {"layer_types": ["sliding_attention"] * 5, "sliding_window": 128},
    ),
    "layers of two kinds": Case(
        "value_not_supported",
        "layer_types",
        {"layer_types": [*["full_attention"] * 4, "sliding_attention"], "sliding_window": 128},
        {"layer_types": ["full_attention"] * 5, "sliding_window": 128},
    ),
    "kinds of fewer layers": Case(
        "value_not_supported",
        "layer_types",
        {"layer_types": ["full_attention"] * 4},
        {"layer_types": ["full_attention"] * 5},
    ),
    "two rotary bases": Case(
        "facts_disagree",
        "rope_parameters.rope_theta",
        {"rope_parameters": {"rope_theta": 10000.0}},
        {"rope_parameters": {"rope_theta": 1000000.0}},
    ),
    "heads that do not divide": Case(
        "heads_not_divisible",
        "num_key_value_heads",
        {"num_key_value_heads": 6},
        {"num_key_value_heads": 4},
    ),
    "an odd head": Case("head_dim_odd", "head_dim", {"head_dim": 127}, {"head_dim": 126}),
    "more draft tokens than tokens": Case(
        "draft_vocab_size_too_large",
        "draft_vocab_size",
        {"draft_vocab_size": 151937},
        {"draft_vocab_size": 32000},
    ),
    "no layers at all": Case(
        "greater_than",
        "num_hidden_layers",
        {"num_hidden_layers": 0, "layer_types": ...},
        {"num_hidden_layers": 1, "layer_types": ...},
    ),
    "bundled: block of 0": Case(
        "block_size_out_of_range",
        "dspark_block_size",
        {"dspark_block_size": 0},
        {"dspark_block_size": 7},
        None,
        V4,
    ),
    "bundled: mask beyond the embedding": Case(
        "mask_token_out_of_range",
        "dspark_noise_token_id",
        {"dspark_noise_token_id": 129280},
        {"dspark_noise_token_id": 129279},
        None,
        V4,
    ),
    "bundled: layers unsorted": Case(
        "layers_not_increasing",
        "dspark_target_layer_ids",
        {"dspark_target_layer_ids": [40, 42, 41]},
        {"dspark_target_layer_ids": [40, 41, 42]},
        2,
        V4,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_broken_configuration_is_refused_by_its_rule_on_its_line(name: str) -> None:
    case = CASES[name]
    document = changed(case.folder, case.broken)
    expected = at(document, case.rule, case.key, case.element)
    assert expected.line not in (None, 1)
    assert problems(document) == [expected]


@pytest.mark.parametrize("name", CASES)
def test_its_twin_is_accepted(name: str) -> None:
    case = CASES[name]
    drafter(changed(case.folder, case.twin))
