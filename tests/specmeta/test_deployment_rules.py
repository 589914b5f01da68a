"""Rules between the parts of a deployment: what each refuses, in which words, and lets pass."""

from typing import Any

import pytest

from specmeta import ValidationError
from specmeta._rules import RULES
from specmeta.testing import make_deployment

LONG = {"target": {"max_position_embeddings": 4096}, "drafter": {"max_position_embeddings": 4096}}
# Overrides of make_deployment, and rule, location and fact of the one violation.
REFUSED: list[tuple[str, dict[str, Any], str, tuple[str | int, ...], str]] = [
    (
        "DSpark",
        {"drafter": {"target_hidden_size": 32}},
        "hidden_size_differs",
        ("drafter", "target_hidden_size"),
        "32 is not the target's hidden_size (64)",
    ),
    (
        "MTP",
        {"drafter": {"hidden_size": 32}},
        "hidden_size_differs",
        ("drafter", "hidden_size"),
        "32 is not the target's hidden_size (64)",
    ),
    (
        "DFlash",
        {"target": {"vocab_size": 300}},
        "vocab_size_differs",
        ("drafter", "vocab_size"),
        "256 is not the target's vocab_size (300)",
    ),
    (
        "DFlash",
        {"target_layer_ids": (0, 4)},
        "layer_out_of_range",
        ("drafter", "target_layer_ids", 1),
        "4 (output_of_layer) is beyond the target's 4 layers",
    ),
    (
        "DFlash",
        {"target_layer_ids": (0, 5), "layer_id_convention": "input_of_layer"},
        "layer_out_of_range",
        ("drafter", "target_layer_ids", 1),
        "5 (input_of_layer) is beyond the target's 4 layers",
    ),
    (
        "DSpark",
        {"block_size": 5},
        "draft_beyond_block",
        ("decoding", "max_draft_len"),
        "7 is above the 5 drafts of a block of 5 (anchor_first)",
    ),
    (
        "DSpark",
        {"anchor_convention": "mask_at_position"},
        "draft_beyond_block",
        ("decoding", "max_draft_len"),
        "7 is above the 6 drafts of a block of 7 (mask_at_position)",
    ),
    (
        "MTP",
        {"drafter": {"num_layers": 2}},
        "draft_beyond_mtp_layers",
        ("decoding", "max_draft_len"),
        "3 is above num_layers (2) and no multiple of it",
    ),
    (
        "DSpark",
        {"sliding_window": 7},
        "window_too_small",
        ("drafter", "sliding_window"),
        "7 is below max_draft_len + 1 (8)",
    ),
    (
        "DSpark",
        {"sliding_window": None, "max_seq_len": 7},
        "window_too_small",
        ("engine", "max_seq_len"),
        "7 is below max_draft_len + 1 (8)",
    ),
    (
        "DSpark",
        {"supported_window_sizes": (64, 128)},
        "window_not_supported",
        ("drafter", "sliding_window"),
        "32 is not one of engine.supported_window_sizes (64, 128)",
    ),
    (
        "DSpark",
        {"max_seq_len": 513, "drafter": {"max_position_embeddings": 1024}},
        "max_seq_len_beyond_positions",
        ("engine", "max_seq_len"),
        "513 is above the target's max_position_embeddings (512)",
    ),
    (
        "DSpark",
        {"max_seq_len": 513, "target": {"max_position_embeddings": None}},
        "max_seq_len_beyond_positions",
        ("engine", "max_seq_len"),
        "513 is above the drafter's max_position_embeddings (512)",
    ),
    (
        "DSpark",
        {"max_num_tokens": 63},
        "max_num_tokens_too_small",
        ("engine", "max_num_tokens"),
        "63 is below max_num_requests * (max_draft_len + 1) (64)",
    ),
    (
        "DSpark",
        {"max_kv_tokens_per_request": 263},
        "kv_row_too_small",
        ("engine", "max_kv_tokens_per_request"),
        "263 is below max_seq_len + 1 * (max_draft_len + 1) (264)",
    ),
    (
        "DSpark",
        {"max_kv_tokens_per_request": 271, "kv_reserved_steps": 2},
        "kv_row_too_small",
        ("engine", "max_kv_tokens_per_request"),
        "271 is below max_seq_len + 2 * (max_draft_len + 1) (272)",
    ),
    (
        "DSpark",
        {"state_memory_limit": 409_888},
        "state_beyond_memory_limit",
        ("engine", "state_memory_limit"),
        "409888 bytes are below the 409889 that the buffers take",
    ),
]


@pytest.mark.parametrize(
    ("kind", "overrides", "rule", "loc", "fact"), REFUSED, ids=lambda value: str(value)[:40]
)
def test_one_violation_is_one_line_with_both_numbers(
    kind: Any, overrides: dict[str, Any], rule: str, loc: tuple[str | int, ...], fact: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        make_deployment(kind, **overrides)
    (line,) = caught.value.errors()
    assert (line["type"], line["loc"]) == (rule, loc)
    place = line["ctx"]["field"] + ("" if len(loc) == 2 else f"[{loc[2]}]")
    assert line["msg"] == f"{place}: {fact}; {RULES[rule].remedy}"


@pytest.mark.parametrize(
    ("kind", "overrides"),
    [
        # Fewer drafts than the block has (vllm-project/vllm#50012), and any number of ids.
        ("DSpark", {"max_draft_len": 5}),
        ("DFlash", {"target_layer_ids": (0, 1, 2, 3), "drafter": {"num_layers": 1}}),
        ("DFlash", {"target_layer_ids": (3,), "drafter": {"num_layers": 5}}),
        # The last layer and the embedding are captured by published checkpoints.
        ("DFlash", {"target_layer_ids": (-1, 3)}),
        ("DFlash", {"target_layer_ids": (0, 4), "layer_id_convention": "input_of_layer"}),
        # The mask token lies behind the tokenizer's, in the embedding.
        ("DFlash", {"mask_token_id": 255}),
        # A head of fewer rows, a drafter of another width.
        ("DSpark", {"draft_vocab_size": 100}),
        ("DSpark", {"drafter": {"hidden_size": 32, "target_hidden_size": 64}}),
        # What a checkpoint does not state is no violation.
        ("DSpark", {"drafter": {"max_position_embeddings": None}}),
        (
            "DSpark",
            {"num_key_value_heads": None, "head_dim": None, "state_memory_limit": 131_072},
        ),
        ("DSpark", {"sliding_window": None, "supported_window_sizes": (64, 128)}),
        ("DSpark", {"sliding_window": 32, "supported_window_sizes": (32, 128)}),
        ("MTP", {"drafter": {"num_layers": 5}}),
        ("MTP", {"drafter": {"num_layers": 3}, "max_draft_len": 6}),
        ("DSpark", {"max_kv_tokens_per_request": 264}),
        ("DSpark", {"max_kv_tokens_per_request": 272, "kv_reserved_steps": 2}),
        ("DSpark", {"state_memory_limit": 409_889}),
        # One short window for the longest sequences that both models have.
        ("DSpark", {**LONG, "max_seq_len": 4096}),
    ],
    ids=str,
)
def test_what_published_deployments_do_is_accepted(kind: Any, overrides: dict[str, Any]) -> None:
    rules = {finding.rule for finding in make_deployment(kind, **overrides).findings()}
    assert rules <= {"positions_not_stated"}


def test_every_violation_of_a_deployment_is_reported_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        make_deployment(
            target={"hidden_size": 32, "vocab_size": 300},
            drafter={"target_hidden_size": 64, "vocab_size": 256, "target_layer_ids": (0, 9)},
            block_size=5,
            sliding_window=4,
            supported_window_sizes=(128,),
            max_seq_len=600,
            max_num_tokens=10,
            max_kv_tokens_per_request=10,
            state_memory_limit=10,
            enable_confidence_head=False,
            confidence_head_with_markov=False,
            confidence_threshold=0.5,
            compiled_for=make_deployment(max_draft_len=3).compile_key,
        )
    assert [line["type"] for line in caught.value.errors()] == [
        "hidden_size_differs",
        "vocab_size_differs",
        "layer_out_of_range",
        "confidence_head_absent",
        "draft_beyond_block",
        "window_too_small",
        "window_not_supported",
        "max_seq_len_beyond_positions",
        "max_seq_len_beyond_positions",
        "max_num_tokens_too_small",
        "kv_row_too_small",
        "state_beyond_memory_limit",
        "compiled_for_other",
        "compiled_for_other",
        "compiled_for_other",
    ]


def test_a_deployment_whose_files_say_all_has_no_finding() -> None:
    assert make_deployment().findings() == ()


def test_positions_that_no_file_states_are_a_warning_each() -> None:
    deployment = make_deployment(max_position_embeddings=None)
    assert [(f.rule, f.severity, f.field, f.value) for f in deployment.findings()] == [
        ("positions_not_stated", "warning", "target.max_position_embeddings", None),
        ("positions_not_stated", "warning", "drafter.max_position_embeddings", None),
    ]
    assert str(deployment.findings()[1]) == (
        "drafter.max_position_embeddings: is not stated by the checkpoint; look it up in the "
        "model card and add it to that config.json; a drafter's can be stated instead: stated: "
        "{max_position_embeddings: N}, or --state max_position_embeddings=N [positions_not_stated]"
    )
