"""What each published form fixes, what it states, and what it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta import DSparkDrafterConfig
from specmeta._dialects import dialect_of, read_bundled, read_drafter
from specmeta._files import Document
from specmeta._findings import CheckpointError

from .reading import (
    QWEN,
    SPECULATORS,
    TARGET,
    V4,
    ZLAB,
    Problem,
    at,
    changed,
    drafter,
    problems,
    published,
    refused,
    warnings,
    written,
)

_STATE = {"target_hidden_state": "after_final_norm"}
_WINDOWED = {"layer_types": ["sliding_attention"] * 5, "sliding_window": 128}


@pytest.mark.parametrize(
    ("kind", "told"),
    [("eagle3", "'eagle3' is no block drafter"), ("peagle", "'peagle' is no block drafter")],
)
def test_another_algorithm_of_speculators_is_refused_by_name(kind: str, told: str) -> None:
    document = changed(
        SPECULATORS, {"speculators_model_type": kind, "speculators_config": {"algorithm": kind}}
    )
    error = refused(lambda: read_drafter(document))
    assert told in str(error)
    assert "dflash, dspark and mtp are read" in str(error)
    assert problems(document) == [
        at(document, "checkpoint_not_recognized", "speculators_model_type")
    ]


def test_two_algorithms_in_one_speculators_file_disagree() -> None:
    document = changed(SPECULATORS, {"speculators_model_type": "dflash"})
    assert problems(document) == [at(document, "facts_disagree", "speculators_config.algorithm")]


@pytest.mark.parametrize(
    ("key", "fact"),
    [
        ("sample_from_anchor", "anchor_convention"),
        ("block_size", "block_size"),
        ("aux_hidden_state_layer_ids", "target_layer_ids"),
        ("mask_token_id", "mask_token_id"),
        ("draft_vocab_size", "draft_vocab_size"),
    ],
)
def test_speculators_is_asked_for_what_its_releases_default(key: str, fact: str) -> None:
    document = changed(SPECULATORS, {key: ...})
    assert problems(document) == [Problem("fact_not_stated", fact, None, 1)]


def test_dspark_may_fill_in_masks() -> None:
    config = drafter(changed(SPECULATORS, {"sample_from_anchor": False}))
    assert config.decoding_type == "DSpark"
    assert (config.anchor_convention, config.max_block_drafts) == ("mask_at_position", 7)


def test_a_speculators_drafter_has_its_own_width_unless_it_states_the_targets() -> None:
    assert drafter(changed(SPECULATORS, {"target_hidden_size": None})).target_hidden_size == 4096
    config = drafter(changed(SPECULATORS, {"target_hidden_size": 2048}))
    assert (config.hidden_size, config.target_hidden_size) == (4096, 2048)


@pytest.mark.parametrize(
    ("key", "expected"), [(True, "non_causal"), (False, "causal")], ids=["whole", "past"]
)
def test_a_windowed_speculators_drafter_states_its_causality(key: bool, expected: str) -> None:
    windowed = {"transformer_layer_config": {**_WINDOWED}}
    document = changed(SPECULATORS, windowed)
    assert problems(document) == [Problem("fact_not_stated", "window_causality", None, 1)]
    config = drafter(changed(SPECULATORS, {**windowed, "sliding_window_non_causal": key}))
    assert (config.sliding_window, config.window_causality) == (128, expected)


def test_the_causality_of_a_window_says_nothing_where_there_is_none() -> None:
    assert drafter(changed(SPECULATORS, {"sliding_window_non_causal": False})) == drafter(
        published(SPECULATORS)
    )


def test_a_sparse_layer_configuration_is_enough() -> None:
    config = drafter(published(SPECULATORS))
    assert (config.num_attention_heads, config.head_dim, config.context_channels) == (
        None,
        None,
        None,
    )


def test_speculators_mtp_has_one_layer_of_the_stated_sizes() -> None:
    raw = {
        "speculators_model_type": "mtp",
        "transformer_layer_config": {"hidden_size": 8, "vocab_size": 9, "num_hidden_layers": 1},
    }
    assert problems(written(raw)) == [Problem("fact_not_stated", "target_hidden_state", None, 1)]
    config = drafter(written(raw), stated=_STATE)
    assert (config.decoding_type, config.num_layers, config.hidden_size) == ("MTP", 1, 8)
    assert config.target_hidden_state == "after_final_norm"


@pytest.mark.parametrize(
    ("changes", "convention"),
    [
        ({}, "mask_at_position"),
        ({"sample_from_anchor": True}, "anchor_first"),
        ({"dflash_config": {"sample_from_anchor": True}}, "anchor_first"),
        ({"query_zero_predicts_next": True}, "anchor_first"),
        ({"shift_label": False}, "mask_at_position"),
    ],
)
def test_a_zlab_drafter_fills_masks_unless_a_key_says_otherwise(
    changes: dict[str, Any], convention: str
) -> None:
    assert drafter(changed(ZLAB, changes)).anchor_convention == convention


@pytest.mark.parametrize("key", ["block_size", "dflash_config.block_size"])
def test_the_block_of_a_zlab_drafter_is_in_either_place(key: str) -> None:
    section, _, name = key.rpartition(".")
    changes: dict[str, Any] = {"block_size": ...}
    changes[section or name] = {name: 16} if section else 16
    document = changed(ZLAB, changes)
    assert drafter(document).block_size == 16
    origin = read_drafter(document).origins[("block_size",)]
    assert (origin.key, origin.line) == (key, document.line_of(tuple(key.split("."))))


@pytest.mark.parametrize("key", ["mask_token_id", "target_layer_ids"])
def test_a_zlab_drafter_is_asked_for_what_its_code_defaults(key: str) -> None:
    document = changed(ZLAB, {"dflash_config": {key: ...}})
    assert problems(document) == [Problem("fact_not_stated", key, None, 1)]


def test_the_mask_of_minimax_lies_behind_its_tokenizer_and_inside_its_embedding() -> None:
    document = changed(ZLAB, {"vocab_size": 200064, "dflash_config": {"mask_token_id": 200054}})
    assert drafter(document).mask_token_id == 200054


def test_more_ids_than_layers_and_the_last_layer_are_captured() -> None:
    layers = [1, 5, 9, 13, 17, 21, 25, 35]
    config = drafter(changed(ZLAB, {"dflash_config": {"target_layer_ids": layers}}))
    assert (config.num_layers, list(config.layers_to_capture)) == (5, layers)


def test_v4_has_a_stage_for_each_captured_layer_unless_it_counts_them() -> None:
    assert drafter(changed(V4, {"num_nextn_predict_layers": 7})).num_layers == 3
    assert drafter(changed(V4, {"n_mtp_layers": 2})).num_layers == 2


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"dspark_markov_head_type": "gated"}, "markov_head_type", "gated"),
        ({"dspark_markov_rank": 0}, "markov_head_type", None),
        ({"dspark_markov_rank": 0}, "confidence_head_with_markov", False),
        ({"dspark_bonus_anchor": True}, "anchor_convention", "mask_at_position"),
        ({"sliding_window": 64}, "sliding_window", 64),
    ],
)
def test_a_key_of_v4_changes_what_its_code_fixes(
    changes: dict[str, Any], field: str, value: object
) -> None:
    assert getattr(drafter(changed(V4, changes)), field) == value


@pytest.mark.parametrize(
    "changes",
    [
        {"num_nextn_predict_layers": 2},
        {"mtp_num_hidden_layers": 2},
        {"text_config": {"mtp_num_hidden_layers": 2}},
    ],
)
def test_a_target_counts_its_mtp_layers_under_any_of_these_keys(changes: dict[str, Any]) -> None:
    if "text_config" in changes:
        sizes = {"hidden_size": 4096, "vocab_size": 151936, "num_hidden_layers": 36}
        changes = {"text_config": sizes | changes["text_config"]}
    document = changed(TARGET, changes)
    assert dialect_of(document) == "mtp"
    assert problems(document) == [Problem("fact_not_stated", "target_hidden_state", None, 1)]
    reading = read_bundled(document, stated=_STATE)
    assert reading.dialect == "mtp"
    assert (reading.config.num_layers, reading.config.hidden_size) == (2, 4096)


def test_latent_mtp_keeps_the_vector_and_its_rotary_part() -> None:
    latent = {"num_nextn_predict_layers": 1, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    config = drafter(changed(TARGET, latent), stated=_STATE)
    assert (config.attention_kind, config.head_dim, config.context_channels) == ("latent", 576, 576)


@pytest.mark.parametrize(
    ("folder", "key", "shifted", "usual"),
    [
        (QWEN, "target_layer_ids", [2, 10, 18, 26, 34], [1, 9, 17, 25, 33]),
        (QWEN, "target_layer_ids", [2, 18, 34], [1, 17, 33]),
        (SPECULATORS, "aux_hidden_state_layer_ids", [1, 9, 17, 25, 33], [2, 10, 18, 26, 34]),
    ],
)
def test_ids_that_are_usual_in_the_other_convention_are_warned_of(
    folder: str, key: str, shifted: list[int], usual: list[int]
) -> None:
    target = published(f"{folder.partition('/')[0]}/target")
    document = changed(folder, {key: shifted})
    reading = read_drafter(document, target=target)
    assert warnings(reading) == [("layer_ids_look_shifted", key, document.line_of((key,)))]
    assert isinstance(reading.config, DSparkDrafterConfig)
    assert reading.config.target_layer_ids == tuple(shifted)
    assert read_drafter(changed(folder, {key: usual}), target=target).findings == ()


def test_ids_are_not_judged_where_the_targets_layers_are_not_known() -> None:
    document = changed(SPECULATORS, {"aux_hidden_state_layer_ids": [1, 9, 17, 25, 33]})
    assert read_drafter(document).findings == ()


@pytest.mark.parametrize("raw", [[], "text", 3])
def test_a_file_that_is_no_object_is_refused(raw: object) -> None:
    with pytest.raises(CheckpointError, match=f"holds a {type(raw).__name__}; expected an object"):
        read_drafter(Document("config.json", raw))


def test_an_architecture_is_shown_as_it_is_written_and_cut() -> None:
    nested = {"architectures": [["Qwen3DSparkModel"], "x" * 1000]}
    told = str(refused(lambda: dialect_of(changed(QWEN, nested))))
    assert "[['Qwen3DSparkModel'], 'xxx" in told
    assert len(told) < 300
