"""Every spelling in the table of aliases is read to the value that it means."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta._dialects._aliases import ALIASES, GGUF_ALIASES, Alias
from specmeta._dialects._facts import Facts
from specmeta._dialects._values import Found
from specmeta._files import Document

from .reading import QWEN, changed, drafter, refused

# Fact to what a file holds and what is read from it, for keys that hold the fact itself.
_VALUES: dict[str, tuple[Any, Any]] = {
    "target_layer_ids": ([1, 9], (1, 9)),
    "markov_head_type": ("gated", "gated"),
    "enable_confidence_head": (True, True),
    "confidence_head_with_markov": (False, False),
    "target_hidden_state": ("before_final_norm", "before_final_norm"),
    "rms_norm_eps": (1e-6, 1e-6),
    "rope_theta": (10000, 10000.0),
    **dict.fromkeys(
        (
            "block_size",
            "mask_token_id",
            "markov_rank",
            "draft_vocab_size",
            "target_hidden_size",
            "num_target_layers",
            "num_stages",
            "num_mtp_layers",
            "hidden_size",
            "num_layers",
            "vocab_size",
            "max_position_embeddings",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "intermediate_size",
            "sliding_window",
        ),
        (8, 8),
    ),
}
# What true and false mean where a key is a switch, by its last part.
_SWITCHES = {
    "sample_from_anchor": ("anchor_first", "mask_at_position"),
    "query_zero_predicts_next": ("anchor_first", "mask_at_position"),
    "shift_label": ("anchor_first", "mask_at_position"),
    "dspark_bonus_anchor": ("mask_at_position", "anchor_first"),
    "sliding_window_non_causal": ("non_causal", "causal"),
    "causal": ("causal", "non_causal"),
    "is_causal": ("causal", "non_causal"),
    "full_attention_causal": ("causal", "non_causal"),
}
_INPUTS = (
    "aux_hidden_state_layer_ids",
    "eagle_aux_hidden_state_layer_ids",
    "{arch}.target_layers",
    "{arch}.target_layer_ids",
)
_ALL = [
    (table, fact, alias)
    for table in (ALIASES, GGUF_ALIASES)
    for fact, spelt in table.items()
    for alias in spelt
]


def _read(table: Any, fact: str, alias: Alias, value: object) -> Found:
    data: Any = value
    for key in reversed(alias.path):
        data = {key: data}
    found = Facts(Document("f", data), data, {}, {}, table).get(fact)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("table", "fact", "alias"), _ALL, ids=[f"{f}-{'.'.join(a.path)}" for _, f, a in _ALL]
)
def test_each_spelling_has_its_meaning(table: Any, fact: str, alias: Alias) -> None:
    name = alias.path[-1]
    if alias.true is None:
        written, meant = _VALUES[fact]
        found = _read(table, fact, alias, written)
        assert (found.value, found.origin.path) == (meant, alias.path)
        counted = "input_of_layer" if name in _INPUTS else "output_of_layer"
        assert found.convention == (counted if fact == "target_layer_ids" else None)
        return
    true, false = _SWITCHES[name.rpartition(".")[2]]
    assert _read(table, fact, alias, value=True).value == true
    assert _read(table, fact, alias, value=False).value == false


def test_a_spelling_is_in_one_place_of_a_table() -> None:
    for table in (ALIASES, GGUF_ALIASES):
        paths = [alias.path for spelt in table.values() for alias in spelt]
        doubled = {path for path in paths if paths.count(path) > 1}
        assert doubled <= {("n_mtp_layers",)}  # DSpark's stages, or MTP layers without DSpark


@pytest.mark.parametrize("key", ["pard_token", "ptd_token_id"])
def test_a_fallback_is_read_where_no_other_spelling_is_there(key: str) -> None:
    assert drafter(changed(QWEN, {"mask_token_id": ..., key: 5})).mask_token_id == 5
    assert drafter(changed(QWEN, {key: 5})).mask_token_id == 151669


def test_a_key_with_a_dot_in_its_name_is_no_path() -> None:
    document = changed(QWEN, {"dflash_config.block_size": 3, "dspark_block_size": 5})
    (found,) = refused(lambda: drafter(document)).findings
    assert (found.rule, found.field) == ("facts_disagree", "dspark_block_size")
