"""Deployment files: each part written out, each fault at its line, all of them at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from specmeta import InputError, read_deployment

from .running import DEPLOYMENT, PAIR, QWEN, check, write


def found(path: Path, *options: str) -> list[tuple[str, str, int | None]]:
    return check(path, "--json", *options).found


def test_a_valid_file_is_a_deployment(tmp_path: Path) -> None:
    deployment = read_deployment(write(tmp_path / "deployment.yaml"))
    assert deployment.drafter.target_layer_ids == (1, 4, 6)  # type: ignore[union-attr]
    assert deployment.decoding.max_draft_len == 5
    assert deployment.engine.num_seq_slots == 16
    result = check(tmp_path / "deployment.yaml")
    assert (result.code, result.err) == (0, "")
    assert result.lines[0] == f"{tmp_path}/deployment.yaml: deployment of a DSpark drafter"
    assert result.lines[-1] == "0 errors, 0 warnings in 1 input"


def test_json_and_yaml_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "deployment.json"
    path.write_text(json.dumps(yaml.safe_load(DEPLOYMENT)))
    assert read_deployment(path) == read_deployment(write(tmp_path / "deployment.yaml"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            ("max_draft_len: 5", "max_draft_len: 6"),
            ("draft_beyond_block", "decoding.max_draft_len", 34),
        ),
        (
            ("max_num_tokens: 256", "max_num_tokens: 47"),
            ("max_num_tokens_too_small", "engine.max_num_tokens", 38),
        ),
        (("block_size: 5", "block_size: 0"), ("block_size_out_of_range", "drafter.block_size", 22)),
        (("block_size: 5", "block_size: true"), ("int_type", "drafter.block_size", 22)),
        (
            ("mask_token_id: 511", "mask_token_id: 512"),
            ("mask_token_out_of_range", "drafter.mask_token_id", 23),
        ),
        (("[1, 4, 6]", "[1, 4, 8]"), ("layer_out_of_range", "drafter.target_layer_ids", 24)),
        (("  num_seq_slots: 16\n", ""), ("missing", "engine.num_seq_slots", 35)),
        (("max_draft_len: 5", "max_draft_length: 5"), ("missing", "decoding.max_draft_len", 32)),
        (
            ("decoding:\n  decoding_type: DSpark", "decoding:\n  decoding_type: Dspark"),
            ("union_tag_invalid", "decoding.decoding_type", 33),
        ),
        (
            ("decoding:\n  decoding_type: DSpark", "decoding:"),
            ("union_tag_not_found", "decoding.decoding_type", 32),
        ),
        (("engine:", "engines:"), ("missing", "engine", 1)),
    ],
)
def test_a_fault_is_found_at_its_line(
    tmp_path: Path, change: tuple[str, str], expected: tuple[str, str, int]
) -> None:
    path = write(tmp_path / "deployment.yaml", change)
    assert expected in found(path)
    assert check(path).code == 1


def test_a_misspelt_key_is_answered_with_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path / "deployment.yaml", ("engine:", "engines:"))
    assert check(path).lines[1:3] == [
        (
            f"{path}:35: error engines: is no key of a deployment file; did you mean 'engine'? "
            "[extra_forbidden]"
        ),
        (
            f"{path}:1: error engine: is required and was not given; give the fields of "
            "EngineConfig, or 'sized' with the arguments of EngineConfig.sized [missing]"
        ),
    ]


def test_every_fault_of_every_part_is_found_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path / "deployment.yaml",
        ("  num_layers: 8", "  num_layers: -8"),
        ("block_size: 5", "block_size: 4"),
        ("mask_token_id: 511", "mask_token_id: 511"),
        ("max_draft_len: 5", "max_draft_len: 5\n  confidence: 1"),
        ("max_num_tokens: 256", "max_num_tokens: 256.0"),
    )
    assert found(path) == [
        ("greater_than", "target.num_layers", 3),
        ("extra_forbidden", "decoding.confidence", 35),
        ("int_type", "engine.max_num_tokens", 39),
        ("draft_beyond_block", "decoding.max_draft_len", 34),
    ]


def test_what_is_wrong_in_a_part_hides_no_rule_on_its_other_fields(tmp_path: Path) -> None:
    path = write(
        tmp_path / "deployment.yaml",
        ("max_draft_len: 5", "max_draft_len: 6\n  confidence: 1"),
        ("num_seq_slots: 16", "num_seq_slots: 4"),
        ("max_num_tokens: 256", "max_num_tokens: 32"),
        ("max_seq_len: 2048", "max_seq_len: 9000"),
    )
    assert found(path) == [
        ("extra_forbidden", "decoding.confidence", 35),
        ("num_seq_slots_too_small", "engine.num_seq_slots", 38),
        ("draft_beyond_block", "decoding.max_draft_len", 34),
        ("max_seq_len_beyond_positions", "engine.max_seq_len", 40),
        ("max_seq_len_beyond_positions", "engine.max_seq_len", 40),
        ("max_num_tokens_too_small", "engine.max_num_tokens", 39),
    ]


def test_what_is_wrong_in_a_sized_engine_hides_no_rule_on_its_other_fields(tmp_path: Path) -> None:
    sized = (
        "engine:\n  sized:\n    overlap: true\n    max_num_requests: 8\n    max_num_tokens: 32\n"
        "    max_seq_len: 9000\n    dtype: int8\n"
    )
    path = tmp_path / "deployment.yaml"
    path.write_text(DEPLOYMENT[: DEPLOYMENT.index("engine:")] + sized)
    assert {rule for rule, _, _ in found(path)} == {
        "extra_forbidden",
        "missing",
        "literal_error",
        "max_seq_len_beyond_positions",
        "max_num_tokens_too_small",
    }


@pytest.mark.parametrize("tag", ["[1]", "{a: 1}", "7", "true"])
def test_a_method_of_another_type_is_told_once(tmp_path: Path, tag: str) -> None:
    (tmp_path / "models").symlink_to(QWEN)
    path = write(
        tmp_path / "deployment.yaml",
        ("decoding_type: DSpark, max_draft_len: 7", f"decoding_type: {tag}"),
        ("drafter: models/drafter", "drafter: bundled"),
        text=PAIR,
    )
    rules = [rule for rule, _, _ in check(path, "--root", QWEN, "--json").found]
    assert rules.count("union_tag_invalid") == 1


def test_the_largest_engine_is_answered(tmp_path: Path) -> None:
    path = write(
        tmp_path / "deployment.yaml",
        ("dtype: bfloat16", f"dtype: bfloat16\n  pipeline_parallel_size: {2**62}"),
    )
    result = check(path, "--json")
    assert (result.code, result.found) == (0, [])
    assert result.report["inputs"][0]["slots"]["disaggregated"] == 2**66


def test_rules_run_on_the_parts_that_can_be_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "deployment.yaml",
        ("max_draft_len: 5", "max_draft_len: 9"),
        ("vocab_size: 512\n  draft", "vocab_size: 600\n  draft"),
        ("dtype: bfloat16", "dtype: int8"),
    )
    assert found(path) == [
        ("literal_error", "engine.dtype", 40),
        ("vocab_size_differs", "drafter.vocab_size", 11),
        ("draft_beyond_block", "decoding.max_draft_len", 34),
    ]


def test_sized_engines_have_the_pool_of_the_formula(tmp_path: Path) -> None:
    sized = (
        "engine:\n  sized:\n    overlap_headroom: true\n    disaggregated: false\n"
        "    max_num_requests: 8\n    max_num_tokens: 256\n    max_seq_len: 2048\n"
        "    dtype: bfloat16\n    cuda_graph_batch_sizes: [1, 8]\n"
    )
    text = DEPLOYMENT[: DEPLOYMENT.index("engine:")] + sized
    path = write(tmp_path / "deployment.yaml", text=text)
    engine = read_deployment(path).engine
    assert (engine.num_seq_slots, engine.cuda_graph_batch_sizes) == (16, (1, 8))
    write(path, ("disaggregated: false", "disagregated: false"), text=text)
    assert found(path) == [
        ("extra_forbidden", "engine.sized.disagregated", 38),
        ("missing", "engine.sized.disaggregated", 36),
    ]
    write(path, ("max_num_tokens: 256", "max_num_tokens: 40"), text=text)
    assert found(path) == [("max_num_tokens_too_small", "engine.sized.max_num_tokens", 40)]
    write(path, ("overlap_headroom: true", "overlap_headroom: 1"), text=text)
    assert found(path) == [("bool_type", "engine.sized.overlap_headroom", 37)]
    write(path, ("[1, 8]", "[1, 9]"), text=text)
    assert found(path) == [("graph_size_out_of_range", "engine.sized.cuda_graph_batch_sizes", 43)]


def test_an_overridden_rule_is_shown_with_its_reason(tmp_path: Path) -> None:
    override = "overrides:\n  - {rule: draft_beyond_block, reason: measured}\n"
    text = DEPLOYMENT.replace("max_draft_len: 5", "max_draft_len: 7") + override
    path = write(tmp_path / "deployment.yaml", text=text)
    assert read_deployment(path).block_size == 7
    result = check(path)
    assert result.code == 0
    assert result.lines[1].startswith(
        f"{path}:34: overridden decoding.max_draft_len: 7 is above the 5 drafts of a block of 5"
    )
    assert "    reason: measured" in result.lines
    assert result.lines[-1] == "0 errors, 0 warnings in 1 input"
    (item,) = check(path, "--json").report["inputs"]
    assert (item["findings"][0]["severity"], item["findings"][0]["reason"]) == (
        "overridden",
        "measured",
    )


def test_an_override_that_is_not_needed_is_a_warning(tmp_path: Path) -> None:
    override = "overrides:\n  - {rule: draft_beyond_block, reason: measured}\n"
    path = write(tmp_path / "deployment.yaml", text=DEPLOYMENT + override)
    assert found(path) == [("override_unused", "overrides", 42)]
    assert check(path).lines[-1] == "0 errors, 1 warning in 1 input"
    assert [check(path).code, check(path, "--strict").code] == [0, 1]


def test_an_override_of_no_rule_is_an_error(tmp_path: Path) -> None:
    override = "overrides:\n  - {rule: vocab_size_differs, reason: because}\n  - {rule: x}\n  - 3\n"
    path = write(tmp_path / "deployment.yaml", text=DEPLOYMENT + override)
    assert found(path) == [
        ("missing", "overrides.reason", 43),
        ("model_type", "overrides", 44),
        ("override_invalid", "overrides", 42),
    ]


def test_what_was_compiled_is_compared(tmp_path: Path) -> None:
    deployment = read_deployment(write(tmp_path / "deployment.yaml"))
    key = deployment.compile_key.model_dump(mode="json")
    path = tmp_path / "deployment.yaml"
    path.write_text(DEPLOYMENT + yaml.safe_dump({"compiled_for": key}, sort_keys=False))
    assert check(path).code == 0
    key["block_size"] = 7
    path.write_text(DEPLOYMENT + yaml.safe_dump({"compiled_for": key}, sort_keys=False))
    (line,) = [
        number
        for number, text in enumerate(path.read_text().splitlines(), 1)
        if text == "  block_size: 7"
    ]
    assert found(path) == [("compiled_for_other", "compiled_for.block_size", line)]


def test_read_deployment_raises_every_error_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path / "deployment.yaml",
        ("max_draft_len: 5", "max_draft_len: 6"),
        ("max_num_tokens: 256", "max_num_tokens: 47"),
    )
    with pytest.raises(InputError) as raised:
        read_deployment(path)
    assert [(f.rule, f.line, f.value) for f in raised.value.findings] == [
        ("draft_beyond_block", 34, 6),
        ("max_num_tokens_too_small", 38, 47),
    ]
    assert len(str(raised.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            ("target:\n  hidden_size: 64", "target: [1]\nx:\n  hidden_size: 64"),
            ("model_type", "target", 1),
        ),
        (
            ("decoding:\n  decoding_type: DSpark\n  max_draft_len: 5", "decoding: DSpark"),
            ("dict_type", "decoding", 32),
        ),
        (("engine:", "overrides: {rule: x}\nengine:"), ("tuple_type", "overrides", 35)),
        (("engine:", "compiled_for: 3\nengine:"), ("model_type", "compiled_for", 35)),
        (("engine:", "arguments: [vllm]\nengine:"), ("dict_type", "arguments", 35)),
        (("engine:", "arguments: {vlm: {}}\nengine:"), ("extra_forbidden", "arguments.vlm", 35)),
        (("engine:", "arguments: {vllm: {}}\nengine:"), ("extra_forbidden", "engine", 36)),
    ],
)
def test_a_part_of_another_type_is_an_error(
    tmp_path: Path, change: tuple[str, str], expected: tuple[str, str, int]
) -> None:
    assert expected in found(write(tmp_path / "deployment.yaml", change))
