"""Keys that change the computation and that no canonical form holds are refused or told."""

from __future__ import annotations

import time
from typing import Any

import pytest

from specmeta._dialects import dialect_of, read_drafter, read_target
from specmeta._files import Document
from specmeta._findings import CheckpointError

from .reading import (
    QWEN,
    SPECULATORS,
    TARGET,
    ZLAB,
    changed,
    drafter,
    problems,
    published,
    refused,
    warnings,
    written,
)
from .test_gguf import gguf

_LFM2 = {"architectures": ["Lfm2DSparkDraftModel"], "sample_from_anchor": True, "is_causal": False}


def _gguf(key: str, value: object) -> Document:
    changes: dict[str, Any] = {key: value}
    return gguf(**changes)


@pytest.mark.parametrize("key", ["rope_is_neox_style", "is_neox_style"])
@pytest.mark.parametrize("folder", [QWEN, ZLAB])
def test_neighbouring_channels_that_turn_are_told(folder: str, key: str) -> None:
    document = changed(folder, {key: False})
    assert warnings(read_drafter(document)) == [("value_not_read", key, document.line_of((key,)))]
    assert read_drafter(changed(folder, {key: True})).findings == ()


def test_an_lfm2_drafter_is_read_with_its_facts_in_a_section() -> None:
    raw = {
        **_LFM2,
        "mask_token_id": ...,
        "target_layer_ids": ...,
        "num_target_layers": ...,
        "dflash_config": {
            "mask_token_id": 151669,
            "target_layer_ids": [1, 9, 17, 25, 33],
            "num_target_layers": 36,
        },
    }
    target = published(TARGET)
    assert drafter(changed(QWEN, raw), target=target) == drafter(published(QWEN))
    deeper = {**raw, "dflash_config": {**raw["dflash_config"], "num_target_layers": 30}}  # type: ignore[dict-item]
    (found, *_) = problems(changed(QWEN, deeper), target=target)
    assert (found.rule, found.field) == ("facts_disagree", "dflash_config.num_target_layers")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("DFlash2DraftModel", "candidate selector"),
        ("MuseGlimmerAssistantModel", "how its layers are counted"),
    ],
)
def test_drafters_that_cannot_be_read_are_refused_with_the_reason(name: str, why: str) -> None:
    document = changed(ZLAB, {"architectures": [name]})
    for read in (dialect_of, read_target):
        with pytest.raises(CheckpointError) as caught:
            read(document)
        assert name in str(caught.value)
    assert why in str(refused(lambda: dialect_of(document)))


@pytest.mark.parametrize("folder", [QWEN, ZLAB, SPECULATORS])
def test_a_drafter_is_no_target(folder: str) -> None:
    (found,) = refused(lambda: read_target(published(folder))).findings
    assert found.rule == "checkpoint_not_recognized"
    assert "is a drafter, and a target is needed here" in found.fact


@pytest.mark.parametrize("key", ["selector_top_k", "conv_kernel_size"])
def test_the_keys_of_dflash2_are_refused_wherever_they_are(key: str) -> None:
    for document in (
        changed(ZLAB, {key: 16}),
        changed(ZLAB, {"dflash_config": {key: 16}}),
        _gguf(f"dflash__{key}", 16),
    ):
        (found,) = refused(lambda document=document: read_drafter(document)).findings  # type: ignore[misc]
        assert (found.rule, found.field.rpartition(".")[2]) == ("value_not_supported", key)


@pytest.mark.parametrize(
    "changes", [{"markov_rank": 256}, {"dflash_config": {"enable_confidence_head": True}}]
)
def test_heads_in_the_file_of_a_dflash_drafter_are_not_ignored(changes: dict[str, Any]) -> None:
    assert [p.rule for p in problems(changed(ZLAB, changes))] == ["value_not_supported"]
    assert drafter(changed(ZLAB, {"markov_rank": 0})) == drafter(published(ZLAB))


def test_rotary_sections_of_gguf_are_told_where_there_are_several() -> None:
    key = "dflash__rope__dimension_sections"
    assert read_drafter(_gguf(key, [64, 0, 0, 0])).findings == ()
    (found,) = read_drafter(_gguf(key, [24, 20, 20, 0])).findings
    assert (found.rule, found.severity) == ("value_not_read", "warning")


@pytest.mark.parametrize(
    ("pattern", "window"), [([True] * 5, 2048), ([False] * 5, None), (None, 2048)]
)
def test_the_pattern_of_gguf_says_which_layers_have_the_window(
    pattern: object, window: int | None
) -> None:
    document = gguf(dflash__attention__sliding_window_pattern=pattern)
    assert drafter(document).sliding_window == window


@pytest.mark.parametrize("pattern", [[True, False], 6, [1, 1], []])
def test_a_pattern_of_both_kinds_of_layer_is_refused(pattern: object) -> None:
    document = gguf(dflash__attention__sliding_window_pattern=pattern)
    assert [p.rule for p in problems(document)] == ["value_not_supported"]


@pytest.mark.parametrize("size", [4, 7, 8])
def test_the_block_of_a_run_is_not_that_of_the_checkpoint(size: int) -> None:
    document = changed(QWEN, {"runtime_block_size": size})
    reading, line = read_drafter(document), document.line_of(("runtime_block_size",))
    assert reading.config == drafter(published(QWEN))
    expected = [] if size == 7 else [("value_not_read", "runtime_block_size", line)]
    assert warnings(reading) == expected


def test_a_number_of_captured_layers_is_that_of_the_ids() -> None:
    assert drafter(changed(QWEN, {"num_aux_hidden_states": 5})) == drafter(published(QWEN))
    document = changed(QWEN, {"num_aux_hidden_states": 3})
    (problem,) = problems(document)
    assert (problem.rule, problem.field) == ("facts_disagree", "num_aux_hidden_states")


@pytest.mark.parametrize(
    ("rotary", "longest"),
    [
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8192}, 40960),
        ({"type": "linear", "factor": 4}, 163840),
        ({"rope_type": "yarn", "factor": 2}, 81920),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 40960),
        ({"rope_type": "default"}, 40960),
    ],
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_scaled_positions_reach_as_far_as_they_are_scaled(
    key: str, rotary: dict[str, Any], longest: int
) -> None:
    assert drafter(changed(QWEN, {key: rotary})).max_position_embeddings == longest
    target = read_target(changed(TARGET, {key: rotary})).config
    assert target.max_position_embeddings == longest


@pytest.mark.parametrize("stated", [40960, 163840])
def test_positions_of_the_file_may_be_stated_as_written_or_as_scaled(stated: int) -> None:
    document = changed(QWEN, {"rope_scaling": {"type": "linear", "factor": 4}})
    facts = {"max_position_embeddings": stated}
    assert read_drafter(document, stated=facts).config.max_position_embeddings == 163840
    facts = {"max_position_embeddings": 81920}
    (problem,) = refused(lambda: read_drafter(document, stated=facts)).findings
    assert (problem.rule, problem.value) == ("facts_disagree", 81920)
    assert "40960" in problem.fact


@pytest.mark.parametrize("factor", ["4", -1, 0, True, 1e300, [4]])
def test_a_factor_that_is_none_is_refused(factor: object) -> None:
    document = changed(QWEN, {"rope_scaling": {"type": "yarn", "factor": factor}})
    assert [p.field for p in problems(document)] == ["rope_scaling.factor"]


def test_a_recurrent_head_that_fills_masks_starts_where_no_key_says() -> None:
    fills = {"markov_head_type": "rnn", "sample_from_anchor": False}
    document = changed(SPECULATORS, fills)
    line = document.line_of(("markov_head_type",))
    expected = [("markov_start_not_stated", "markov_head_type", line)]
    assert warnings(read_drafter(document)) == expected
    for changes in ({"markov_head_type": "rnn"}, {"sample_from_anchor": False}):
        assert read_drafter(changed(SPECULATORS, changes)).findings == ()


def test_many_misspelt_keys_are_counted() -> None:
    keys = {f"block_size{'_' * index}": 7 for index in range(1, 41)}
    found = refused(lambda: read_drafter(changed(QWEN, keys))).findings
    assert len(found) == 32
    assert found[-1].fact == "is no known key; did you mean 'block_size'?, and 8 more like it"


@pytest.mark.parametrize(
    ("count", "told"),
    [(4000, "more like it"), (400_000, "keys, and a configuration at most 4096; pass a model's")],
)
def test_any_number_of_nearly_known_keys_is_answered_soon(count: int, told: str) -> None:
    keys = {f"target_layer_ids{index}": 0 for index in range(count)}
    document = changed(QWEN, keys)
    start = time.process_time()
    with pytest.raises(CheckpointError, match=told):
        read_drafter(document)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("path", ["text_config", "language_config", "llm_config"])
def test_a_target_nests_its_text_model(path: str) -> None:
    sizes = {"hidden_size": 4096, "num_hidden_layers": 40, "vocab_size": 151936}
    target = written({"architectures": ["X"], path: sizes})
    assert read_target(target).config.num_layers == 40
    (found,) = refused(lambda: read_drafter(published(QWEN), target=target)).findings
    assert found.fact == f"36 although {path}.num_hidden_layers says 40"
