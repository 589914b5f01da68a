"""What a reader compares, refuses, and reports at its place."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta._dialects import (
    check_weights,
    dialect_of,
    expected_tensors,
    read_bundled,
    read_drafter,
    read_target,
)
from specmeta._files import Document

from .reading import (
    NO_MARKOV,
    QWEN,
    SPECULATORS,
    TARGET,
    V4,
    ZLAB,
    changed,
    drafter,
    problems,
    published,
    refused,
    typed,
    written,
)

MTP = {"target_hidden_state": "after_final_norm"}


def rules(doc: Document, **options: Any) -> list[str]:
    return [problem.rule for problem in problems(doc, **options)]


def test_gguf_tensors_no_object() -> None:
    refused(
        lambda: read_drafter(
            written({"metadata": {"general.architecture": "dflash"}, "tensors": 5})
        )
    )


def test_stated_layer_ids_get_the_forms_convention() -> None:
    assert (
        drafter(
            changed(QWEN, {"target_layer_ids": ...}), stated={"target_layer_ids": [1, 9]}
        ).layer_id_convention
        == "output_of_layer"
    )


def test_stated_ids_equal_to_the_files() -> None:
    drafter(published(SPECULATORS), stated={"target_layer_ids": [2, 10, 18, 26, 34]})


def test_unknown_stated_fact() -> None:
    assert len(problems(published(QWEN), stated={"anchr_convention": "anchor_first"})) == 1


@pytest.mark.parametrize(
    ("folder", "fact", "value"),
    [
        (QWEN, "anchor_convention", "mask_at_position"),
        (V4, "anchor_convention", "mask_at_position"),
        (ZLAB, "anchor_convention", "anchor_first"),
        (QWEN, "layer_id_convention", "input_of_layer"),
        (V4, "num_layers", 5),
    ],
)
def test_stated_against_what_the_form_fixes(folder: str, fact: str, value: object) -> None:
    assert rules(published(folder), stated={fact: value}) == ["facts_disagree"]


def test_disagreement_is_told_once() -> None:
    assert rules(changed(QWEN, {"aux_hidden_state_layer_ids": [1, 9, 17, 25, 33]})) == [
        "facts_disagree"
    ]


@pytest.mark.parametrize(("a", "b"), [(7, 7.0), (1, True)])
def test_equal_numbers_of_other_types_disagree(a: object, b: object) -> None:
    assert rules(changed(QWEN, {"block_size": a, "dspark_block_size": b})) == ["facts_disagree"]


def test_mtp_of_a_hybrid_target() -> None:
    assert (
        drafter(
            changed(
                TARGET,
                {
                    "mtp_num_hidden_layers": 1,
                    "layer_types": ["linear_attention"] * 27 + ["full_attention"] * 9,
                },
            ),
            stated=MTP,
        ).sliding_window
        is None
    )


def test_mtp_asked_for_as_dspark() -> None:
    refused(
        lambda: read_bundled(
            changed(TARGET, {"num_nextn_predict_layers": 1}), stated=MTP, decoding_type="DSpark"
        )
    )


def test_section_that_is_no_object() -> None:
    assert rules(changed(QWEN, {"dspark_config": 5})) == ["value_not_supported"]


def test_ids_beyond_num_target_layers() -> None:
    assert rules(changed(QWEN, {"target_layer_ids": [1, 99]})) == ["layer_out_of_range"]


def test_num_target_layers_against_the_target() -> None:
    assert rules(changed(QWEN, {"num_target_layers": 40}), target=published(TARGET)) == [
        "facts_disagree"
    ]


def test_all_at_once_beside_an_absent_fact() -> None:
    assert set(rules(changed(NO_MARKOV, {"mask_token_id": 151936}))) == {
        "fact_not_stated",
        "mask_token_out_of_range",
    }


def test_a_misspelt_key_alone() -> None:
    assert rules(changed(QWEN, {"block_size": ..., "blocksize": 7})) == ["key_misspelt"]


def test_speculators_mtp_count_has_its_line() -> None:
    raw = {
        "speculators_model_type": "mtp",
        "num_nextn_predict_layers": 0,
        "transformer_layer_config": {"hidden_size": 8, "vocab_size": 9, "num_hidden_layers": 2},
        "target_hidden_state": "after_final_norm",
    }
    assert problems(written(raw))[0].field == "num_nextn_predict_layers"


def test_v4_stages_have_their_line() -> None:
    assert problems(changed(V4, {"n_mtp_layers": 0}))[0].field == "n_mtp_layers"


def test_dspark_in_text_config() -> None:
    assert (
        dialect_of(written({"architectures": ["X"], "text_config": {"dspark_block_size": 5}}))
        == "deepseek_v4"
    )


def test_full_attention_causal_of_windowed_layers() -> None:
    assert (
        drafter(
            changed(
                QWEN,
                {
                    "layer_types": ["sliding_attention"] * 5,
                    "sliding_window": 128,
                    "full_attention_causal": True,
                },
            )
        ).window_causality
        == "non_causal"
    )


def test_a_targets_remedy_offers_no_state() -> None:
    assert "--state" not in str(refused(lambda: read_target(changed(TARGET, {"vocab_size": ...}))))


def test_gguf_without_vocabulary() -> None:
    meta = {
        "general.architecture": "dflash",
        "dflash.block_size": 8,
        "dflash.target_layers": [2],
        "dflash.sample_from_anchor": False,
        "dflash.attention.causal": False,
        "dflash.block_count": 1,
        "dflash.embedding_length": 8,
        "tokenizer.ggml.mask_token_id": 0,
    }
    assert rules(Document("m.gguf", {"metadata": meta, "tensors": {}})) == ["fact_not_stated"]


def test_selector_of_dflash2() -> None:
    assert rules(changed(ZLAB, {"selector_rank": 256})) == ["value_not_supported"]


def test_latent_v4_mtp() -> None:
    assert drafter(published(V4), stated=MTP, decoding_type="MTP").attention_kind == "latent"


def weights(
    folder: str,
    other: dict[str, tuple[int, ...]] | None = None,
    absent: tuple[str, ...] = (),
    changes: dict[str, Any] | None = None,
) -> list[str]:
    r = read_drafter(changed(folder, changes or {}))
    s = {
        n: tuple(x or 1 for x in v)
        for n, v in expected_tensors(r).items()
        if not n.startswith(absent)
    }
    return [
        f.rule
        for f in check_weights(
            r, {n: typed(n, v) for n, v in {**s, **(other or {})}.items()}, target=None
        )
    ]


@pytest.mark.parametrize(
    ("name", "shape", "rule"),
    [
        ("embed_tokens.weight", (100, 4096), "tensor_shape_differs"),
        ("lm_head.weight", (32000, 4096), "draft_head_differs"),
        ("d2t", (32000,), "d2t_length_differs"),
    ],
)
def test_borrowed_tensors_are_compared(name: str, shape: tuple[int, ...], rule: str) -> None:
    assert weights(QWEN, {name: shape}) == [rule]


def test_missing_map() -> None:
    assert weights(SPECULATORS, absent=("d2t",)) == ["tensor_missing"]


def test_gemma_norms() -> None:
    assert (
        weights(
            QWEN,
            {"layers.0.pre_feedforward_layernorm.weight": (4096,)},
            changes={"architectures": ["Gemma4DSparkModel"]},
        )
        == []
    )


def test_layer_names_of_speculators_are_not_facts() -> None:
    assert weights(SPECULATORS, absent=("layers.",)) == []


def test_attention_bias_false() -> None:
    assert weights(
        QWEN, {"layers.0.self_attn.q_proj.bias": (4096,)}, changes={"attention_bias": False}
    ) == ["tensor_unclaimed"]
