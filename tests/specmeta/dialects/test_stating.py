"""Facts that are absent are asked for, and may be stated; ordinary keys are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from .reading import NO_MARKOV, QWEN, Problem, at, changed, drafter, problems, published

_STATED = {"anchor_convention": "anchor_first"}


@pytest.mark.parametrize(
    "key",
    [
        "block_size",
        "mask_token_id",
        "target_layer_ids",
        "markov_rank",
        "markov_head_type",
        "enable_confidence_head",
        "confidence_head_with_markov",
    ],
)
@pytest.mark.parametrize("value", [..., None], ids=["absent", "null"])
def test_a_fact_that_is_absent_or_null_is_asked_for(key: str, value: object) -> None:
    assert problems(changed(QWEN, {key: value}))[0] == Problem("fact_not_stated", key, None, 1)


@pytest.mark.parametrize(
    ("facts", "changes"),
    [
        ({"block_size": 7}, {"block_size": ...}),
        ({"mask_token_id": 151669}, {"mask_token_id": None}),
        ({"markov_head_type": "vanilla"}, {"markov_head_type": ...}),
        ({"markov_rank": 256}, {"markov_rank": ...}),
    ],
)
def test_an_absent_fact_may_be_stated(facts: dict[str, Any], changes: dict[str, Any]) -> None:
    assert drafter(changed(QWEN, changes), stated=facts) == drafter(changed(QWEN, {}))


def test_every_problem_is_found_at_once() -> None:
    document = changed(
        QWEN, {"block_size": 0, "mask_token_id": -1, "markov_rank": True, "blocksize": 3}
    )
    assert sorted(problems(document)) == sorted(
        [
            at(document, "block_size_out_of_range", "block_size"),
            at(document, "mask_token_out_of_range", "mask_token_id"),
            at(document, "int_type", "markov_rank"),
            at(document, "key_misspelt", "blocksize"),
        ]
    )


def test_a_stated_fact_may_not_contradict_the_file() -> None:
    (found,) = problems(changed(QWEN, {}), stated={"block_size": 5})
    assert (found.rule, found.field) == ("facts_disagree", "block_size")


def test_a_stated_fact_may_repeat_the_file() -> None:
    expected = drafter(changed(QWEN, {}))
    assert drafter(changed(QWEN, {}), stated={"block_size": 7, "hidden_size": 4096}) == expected


@pytest.mark.parametrize(
    ("rank", "confidence"), [(0, True), (256, False)], ids=["confidence", "Markov"]
)
def test_one_head_is_enough_for_deepspecs_anchor_convention(rank: int, confidence: bool) -> None:
    document = changed(
        QWEN,
        {
            "markov_rank": rank,
            "enable_confidence_head": confidence,
            "confidence_head_with_markov": False,
        },
    )
    config = drafter(document)
    assert config.anchor_convention == "anchor_first"
    assert config.markov_head_type == ("vanilla" if rank else None)


def test_a_disabled_confidence_head_reads_nothing_whatever_its_file_keeps() -> None:
    document = changed(NO_MARKOV, {"confidence_head_with_markov": True})
    assert drafter(document, stated=_STATED).confidence_head_with_markov is False


_ORDINARY = (
    "architectures attention_bias attention_dropout auto_map bos_token_id dtype eos_token_id "
    "first_k_dense_replace head_dim hidden_act hidden_size image_token_id index_topk "
    "initializer_range intermediate_size kv_lora_rank layer_norm_eps layer_types "
    "max_position_embeddings max_window_layers mlp_bias model_type moe_intermediate_size n_group "
    "n_routed_experts n_shared_experts norm_topk_prob num_anchors num_attention_heads "
    "num_experts num_experts_per_tok num_hidden_layers num_key_value_heads num_target_layers "
    "o_lora_rank pad_token_id pretraining_tp q_lora_rank qk_nope_head_dim qk_rope_head_dim "
    "quantization_config rms_norm_eps rope_parameters rope_scaling rope_theta "
    "routed_scaling_factor runtime_block_size scoring_func sep_token_id sliding_window "
    "sliding_window_pattern target_model_type target_text_model_type tie_word_embeddings "
    "tokenizer_class topk_group topk_method torch_dtype transformers_version use_cache "
    "use_sliding_window v_head_dim video_token_id vision_config vision_start_token_id vocab_size "
    "dspark_n_routed_experts dspark_n_activated_experts num_aux_hidden_states pard_token "
    "ptd_token_id decoder_start_token_id audio_token_id cls_token_id query_pre_attn_scalar"
)


def test_no_ordinary_key_is_taken_for_a_misspelt_one() -> None:
    stated = published(QWEN).data
    assert isinstance(stated, dict)
    ordinary = {key: None for key in _ORDINARY.split() if key not in stated}
    assert drafter(changed(QWEN, ordinary)) == drafter(published(QWEN))
