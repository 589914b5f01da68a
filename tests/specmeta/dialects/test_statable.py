"""Every fact that a file lacks can be stated, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta import DSparkDrafterConfig
from specmeta._dialects import read_drafter

from .reading import QWEN, SPECULATORS, ZLAB, changed, drafter, problems, published, refused
from .test_gguf import gguf

_SIZES: dict[str, Any] = {
    "max_position_embeddings": 40960,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "hidden_size": 4096,
    "vocab_size": 151936,
}
_GGUF_KEYS = {
    "max_position_embeddings": "dflash__context_length",
    "num_layers": "dflash__block_count",
    "num_attention_heads": "dflash__attention__head_count",
    "num_key_value_heads": "dflash__attention__head_count_kv",
    "head_dim": "dflash__attention__key_length",
    "intermediate_size": "dflash__feed_forward_length",
    "rms_norm_eps": "dflash__attention__layer_norm_rms_epsilon",
    "rope_theta": "dflash__rope__freq_base",
    "sliding_window": "dflash__attention__sliding_window",
    "hidden_size": "dflash__embedding_length",
    "target_hidden_size": "dflash__embedding_length_out",
    "vocab_size": "tokenizer__ggml__tokens",
    "block_size": "dflash__block_size",
    "mask_token_id": "tokenizer__ggml__mask_token_id",
    "target_layer_ids": "dflash__target_layers",
    "anchor_convention": "dflash__sample_from_anchor",
    "window_causality": "dflash__attention__causal",
}


@pytest.mark.parametrize("folder", [QWEN, ZLAB])
@pytest.mark.parametrize("fact", _SIZES)
def test_a_size_that_a_file_lacks_may_be_stated(folder: str, fact: str) -> None:
    stated = {fact: _SIZES[fact]}
    assert drafter(changed(folder, {fact: ...}), stated=stated) == drafter(published(folder))


@pytest.mark.parametrize("fact", ["max_position_embeddings", "num_key_value_heads", "head_dim"])
def test_a_size_that_speculators_nests_may_be_stated(fact: str) -> None:
    config = drafter(published(SPECULATORS), stated={fact: _SIZES[fact]})
    assert getattr(config, fact) == _SIZES[fact]


@pytest.mark.parametrize("fact", _GGUF_KEYS)
def test_every_fact_of_gguf_may_be_stated(fact: str) -> None:
    whole = drafter(gguf())
    stated = {fact: getattr(whole, fact)}
    changes: dict[str, Any] = {_GGUF_KEYS[fact]: ...}
    assert drafter(gguf(**changes), stated=stated) == whole


def test_the_number_of_layers_may_be_stated() -> None:
    document = changed(QWEN, {"num_hidden_layers": ..., "layer_types": ...})
    assert drafter(document, stated={"num_layers": 5}).num_layers == 5


@pytest.mark.parametrize("theta", [1000000, 1e6])
def test_a_real_number_may_be_stated_as_an_integer(theta: float) -> None:
    assert drafter(published(QWEN), stated={"rope_theta": theta}).rope_theta == 1e6
    nested = {"rope_theta": ..., "rope_parameters": {"rope_theta": 1000000.0}}
    assert drafter(changed(QWEN, nested), stated={"rope_theta": theta}).rope_theta == 1e6


def test_an_unknown_fact_is_refused_with_the_list_of_those_that_there_are() -> None:
    (found,) = refused(lambda: read_drafter(published(QWEN), stated={"num_kv_heads": 8})).findings
    assert found.rule == "key_misspelt"
    for name in DSparkDrafterConfig.model_fields:
        assert (name in found.fact) == (name != "decoding_type")


def test_many_unknown_facts_are_counted() -> None:
    many = {f"x{index}": 1 for index in range(50_000)}
    found = refused(lambda: read_drafter(published(QWEN), stated=many)).findings
    assert len(found) == 32
    assert found[-1].fact.endswith(", and 49968 more like it")
    few = refused(lambda: read_drafter(published(QWEN), stated={"a": 1, "b": 1}))
    assert [found.field for found in few.findings] == ["a", "b"]
    assert "more like it" not in str(few)


def test_a_fact_that_a_drafter_has_not_is_told() -> None:
    (found,) = refused(
        lambda: read_drafter(published(QWEN), stated={"sliding_window": 2048})
    ).findings
    assert (found.rule, found.field) == ("facts_disagree", "sliding_window")
    assert found.fact == "2048 although this drafter has none"


def test_what_is_stated_as_nothing_is_asked_for() -> None:
    document = changed(QWEN, {"block_size": ...})
    assert problems(document, stated={"block_size": None})[0].rule == "fact_not_stated"
    assert problems(published(QWEN), stated={"block_size": None})[0].rule == "facts_disagree"
