"""Every published configuration loads, to exact canonical values."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta import (
    DFlashDrafterConfig,
    DSparkDrafterConfig,
    MTPDrafterConfig,
    read_drafter_config,
    read_target_config,
)
from specmeta._dialects import dialect_of

from .reading import (
    BUNDLED,
    CHECKPOINTS,
    NO_MARKOV,
    Problem,
    drafter,
    problems,
    published,
    refused,
)

_QWEN_BODY: dict[str, Any] = {
    "num_layers": 5,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "attention_kind": "grouped_query",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "sliding_window": None,
    "mask_token_id": 151669,
    "window_causality": "non_causal",
}
_NOT_STATED: dict[str, Any] = dict.fromkeys(
    (
        "max_position_embeddings",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "rms_norm_eps",
        "rope_theta",
    )
)
_MARKOV: dict[str, Any] = {
    "markov_rank": 256,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}
_BLOCK7: dict[str, Any] = {
    **_QWEN_BODY,
    "draft_vocab_size": 151936,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "block_size": 7,
    "target_layer_ids": (1, 9, 17, 25, 33),
    "layer_id_convention": "output_of_layer",
    "anchor_convention": "anchor_first",
}
_QWEN_8B: dict[str, Any] = {
    "hidden_size": 4096,
    "target_hidden_size": 4096,
    "intermediate_size": 12288,
}
_SPECULATORS: dict[str, Any] = {
    **_QWEN_BODY,
    **_NOT_STATED,
    "head_dim": None,
    "hidden_size": 4096,
    "target_hidden_size": 4096,
    "draft_vocab_size": 32000,
    "block_size": 8,
    "layer_id_convention": "input_of_layer",
}
_V4: dict[str, Any] = {
    **_NOT_STATED,
    **_MARKOV,
    "num_layers": 3,
    "vocab_size": 129280,
    "draft_vocab_size": 129280,
    "attention_kind": "latent",
    "head_dim": 512,
    "sliding_window": 128,
    "block_size": 5,
    "mask_token_id": 128799,
    "layer_id_convention": "output_of_layer",
    "anchor_convention": "anchor_first",
    "window_causality": "non_causal",
}

DRAFTERS = {
    "dspark_qwen3_4b_block7/drafter": (
        "deepspec",
        DSparkDrafterConfig(
            **_BLOCK7,
            **_MARKOV,
            hidden_size=2560,
            target_hidden_size=2560,
            intermediate_size=9728,
        ),
    ),
    "dspark_qwen3_8b_block7/drafter": (
        "deepspec",
        DSparkDrafterConfig(**_BLOCK7, **_MARKOV, **_QWEN_8B),
    ),
    "zlab_qwen3_8b_dflash_b16/drafter": (
        "zlab",
        DFlashDrafterConfig(
            **{
                **_BLOCK7,
                **_QWEN_8B,
                "block_size": 16,
                "anchor_convention": "mask_at_position",
                "rms_norm_eps": None,
                "rope_theta": None,
            }
        ),
    ),
    "speculators_dflash_qwen3_8b/drafter": (
        "speculators",
        DFlashDrafterConfig(
            **_SPECULATORS, target_layer_ids=(2, 18, 33), anchor_convention="mask_at_position"
        ),
    ),
    "speculators_dspark_qwen3_8b/drafter": (
        "speculators",
        DSparkDrafterConfig(
            **_SPECULATORS,
            **_MARKOV,
            target_layer_ids=(2, 10, 18, 26, 34),
            anchor_convention="anchor_first",
        ),
    ),
    "deepseek_v4_flash_dspark/target": (
        "deepseek_v4",
        DSparkDrafterConfig(
            **_V4, hidden_size=4096, target_hidden_size=4096, target_layer_ids=(40, 41, 42)
        ),
    ),
    "deepseek_v4_1_flash_dspark/target": (
        "deepseek_v4",
        DSparkDrafterConfig(
            **_V4, hidden_size=5120, target_hidden_size=5120, target_layer_ids=(37, 38, 39)
        ),
    ),
}


def test_every_published_folder_is_pinned() -> None:
    folders = {path.name for path in CHECKPOINTS.iterdir() if path.is_dir()}
    pinned = {name.partition("/")[0] for name in DRAFTERS}
    assert folders - pinned == {NO_MARKOV.partition("/")[0]}


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_published_drafter_has_these_values(name: str) -> None:
    dialect, expected = DRAFTERS[name]
    assert dialect_of(published(name)) == dialect
    assert drafter(published(name)) == expected
    assert read_drafter_config(CHECKPOINTS / name) == expected


@pytest.mark.parametrize("name", [name for name in DRAFTERS if name.endswith("/drafter")])
def test_no_published_drafter_is_warned_of_beside_its_target(name: str) -> None:
    target = published(f"{name.partition('/')[0]}/target")
    assert drafter(published(name), target=target) == DRAFTERS[name][1]


def test_the_anchor_convention_of_deepspecs_dflash_is_asked_for() -> None:
    document = published(NO_MARKOV)
    assert problems(document) == [Problem("fact_not_stated", "anchor_convention", None, 1)]
    (found,) = refused(lambda: drafter(document)).findings
    assert found.file == str(CHECKPOINTS / NO_MARKOV / "config.json")
    assert "slot k predicts position anchor + k + 1 (anchor_first)" in found.fact
    for way in (
        "--state anchor_convention=anchor_first",
        "`stated: {anchor_convention: anchor_first}` in a deployment file",
        "stated={...} in Python",
    ):
        assert way in found.remedy


@pytest.mark.parametrize("convention", ["anchor_first", "mask_at_position"])
def test_deepspecs_dflash_loads_with_its_anchor_convention_stated(convention: str) -> None:
    config = read_drafter_config(CHECKPOINTS / NO_MARKOV, stated={"anchor_convention": convention})
    headless = {
        "markov_rank": 0,
        "markov_head_type": None,
        "enable_confidence_head": False,
        "confidence_head_with_markov": False,
    }
    assert config == DSparkDrafterConfig(
        **{**_BLOCK7, **_QWEN_8B, **headless, "anchor_convention": convention}
    )


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("dspark", DSparkDrafterConfig),
        ("dflash", DFlashDrafterConfig),
        ("mtp", MTPDrafterConfig),
    ],
)
def test_a_bundled_checkpoint_loads(name: str, model: type) -> None:
    config = read_drafter_config(BUNDLED / name)
    assert isinstance(config, model)
    assert (config.hidden_size, config.vocab_size) == (256, 512)
    target = read_target_config(BUNDLED / "target")
    assert (target.hidden_size, target.num_layers, target.vocab_size) == (256, 4, 512)
