"""GGUF metadata of block drafters, in canonical form."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta._dialects import read_drafter
from specmeta._files import Document

from .reading import drafter, problems, refused

_GGUF: dict[str, Any] = {
    "general.architecture": "dflash",
    "dflash.block_size": 16,
    "dflash.target_layers": [2, 10, 18, 26, 34],
    "dflash.sample_from_anchor": False,
    "dflash.attention.causal": False,
    "dflash.attention.head_count": 32,
    "dflash.attention.head_count_kv": 8,
    "dflash.attention.key_length": 128,
    "dflash.attention.layer_norm_rms_epsilon": 1e-6,
    "dflash.attention.sliding_window": 2048,
    "dflash.block_count": 5,
    "dflash.context_length": 40960,
    "dflash.embedding_length": 4096,
    "dflash.embedding_length_out": 2560,
    "dflash.feed_forward_length": 12288,
    "dflash.rope.freq_base": 1e6,
    "tokenizer.ggml.mask_token_id": 151669,
    "tokenizer.ggml.tokens": {"length": 151936},
}
_MARKOV_TENSOR = "markov_w1.weight"


def gguf(tensors: tuple[str, ...] = (), **changes: Any) -> Document:
    """A GGUF header with other keys, their dots written as two underscores."""
    metadata = _GGUF | {key.replace("__", "."): value for key, value in changes.items()}
    left = {key: value for key, value in metadata.items() if value is not ...}
    return Document("m.gguf", {"metadata": left, "tensors": {name: [1] for name in tensors}})


def test_a_gguf_drafter_has_these_values() -> None:
    config = drafter(gguf())
    assert config.decoding_type == "DFlash"
    assert (config.hidden_size, config.target_hidden_size, config.num_layers) == (4096, 2560, 5)
    assert (config.vocab_size, config.draft_vocab_size) == (151936, 151936)
    assert (config.block_size, config.mask_token_id) == (16, 151669)
    assert (config.target_layer_ids, config.layers_to_capture) == (
        (2, 10, 18, 26, 34),
        (1, 9, 17, 25, 33),
    )
    assert config.layer_id_convention == "input_of_layer"
    assert (config.anchor_convention, config.window_causality) == ("mask_at_position", "non_causal")
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (32, 8, 128)
    assert (config.rms_norm_eps, config.rope_theta, config.sliding_window) == (1e-6, 1e6, 2048)
    assert (config.intermediate_size, config.max_position_embeddings) == (12288, 40960)


@pytest.mark.parametrize(
    ("key", "fact"),
    [
        ("dflash__block_size", "block_size"),
        ("dflash__target_layers", "target_layer_ids"),
        ("tokenizer__ggml__mask_token_id", "mask_token_id"),
        ("dflash__sample_from_anchor", "anchor_convention"),
        ("dflash__attention__causal", "window_causality"),
    ],
)
def test_a_gguf_drafter_is_asked_for_what_llama_cpp_defaults(key: str, fact: str) -> None:
    changes: dict[str, Any] = {key: ...}
    found = refused(lambda: read_drafter(gguf(**changes))).findings
    assert [(f.rule, f.line) for f in found] == [("fact_not_stated", None)]
    assert found[0].field.endswith(fact)


def test_a_gguf_drafter_with_markov_tensors_is_dspark() -> None:
    heads = {"markov_rank": 256, "markov_head_type": "vanilla", "enable_confidence_head": False}
    document = gguf((_MARKOV_TENSOR,))
    asked = problems(document, stated={"markov_rank": 256})
    assert {p.rule for p in asked} == {"fact_not_stated"}
    assert {p.field.rpartition(".")[2] for p in asked} == heads.keys() - {"markov_rank"}
    config = drafter(document, stated=heads)
    assert (config.decoding_type, config.markov_rank) == ("DSpark", 256)


def test_another_gguf_architecture_is_refused_by_name() -> None:
    document = gguf(general__architecture="llama")
    error = refused(lambda: read_drafter(document))
    assert [f.rule for f in error.findings] == ["checkpoint_not_recognized"]
    assert "'llama' is no drafter that is read" in str(error)
