"""Targets: their sizes, and whether a drafter is described in their file."""

from __future__ import annotations

import pytest

from specmeta import TargetConfig, read_target_config
from specmeta._dialects import has_bundled_drafter, read_bundled, read_target

from .reading import CHECKPOINTS, QWEN, TARGET, V4, changed, published, refused

_QWEN_TARGET = TargetConfig(
    hidden_size=4096, num_layers=36, vocab_size=151936, max_position_embeddings=40960
)
TARGETS = {
    "dspark_qwen3_4b_block7": _QWEN_TARGET.model_copy(update={"hidden_size": 2560}),
    "dspark_qwen3_8b_block7": _QWEN_TARGET,
    "deepspec_dflash_qwen3_8b_block7": _QWEN_TARGET,
    "zlab_qwen3_8b_dflash_b16": _QWEN_TARGET,
    "speculators_dflash_qwen3_8b": _QWEN_TARGET,
    "speculators_dspark_qwen3_8b": _QWEN_TARGET,
    "deepseek_v4_flash_dspark": TargetConfig(
        hidden_size=4096, num_layers=43, vocab_size=129280, max_position_embeddings=None, hc_mult=4
    ),
    "deepseek_v4_1_flash_dspark": TargetConfig(
        hidden_size=5120, num_layers=40, vocab_size=129280, max_position_embeddings=None, hc_mult=4
    ),
}


def test_every_published_target_is_pinned() -> None:
    assert {path.name for path in CHECKPOINTS.iterdir() if path.is_dir()} == TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_a_published_target_has_these_values(name: str) -> None:
    assert read_target(published(f"{name}/target")).config == TARGETS[name]
    assert read_target_config(CHECKPOINTS / name / "target" / "config.json") == TARGETS[name]


def test_only_a_target_with_a_drafter_in_it_has_a_bundled_one() -> None:
    assert has_bundled_drafter(published(V4))
    assert not has_bundled_drafter(published(QWEN))
    assert not has_bundled_drafter(published(TARGET))


def test_a_target_without_a_drafter_holds_none() -> None:
    document = published(TARGET)
    error = refused(lambda: read_bundled(document))
    (found,) = error.findings
    assert (found.rule, found.field, found.line) == (
        "checkpoint_not_recognized",
        "architectures",
        2,
    )
    assert "['Qwen3ForCausalLM'] is no drafter that is read" in str(error)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size"])
def test_a_target_without_a_size_is_refused(key: str) -> None:
    document = changed(TARGET, {key: ...})
    (found,) = refused(lambda: read_target(document)).findings
    assert found.rule == "fact_not_stated"
    assert found.field == {"num_hidden_layers": "num_layers"}.get(key, key)


def test_a_target_with_a_vision_part_nests_its_sizes() -> None:
    raw = {"hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 16}
    document = changed(TARGET, {"text_config": raw, "hidden_size": 1})
    assert read_target(document).config == TargetConfig(
        hidden_size=8, num_layers=2, vocab_size=16, max_position_embeddings=None
    )
