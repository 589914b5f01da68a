"""What a deployment accepts: the borders of its rules, and the sizes that follow from it."""

from typing import Any

import pytest

from specmeta import Deployment, EngineConfig, ValidationError
from specmeta.testing import make_deployment


@pytest.mark.parametrize(
    "overrides",
    [
        {"drafter": {"target_layer_ids": (-1, 3)}},  # embedding output to the last layer
        {"drafter": {"target_layer_ids": (0, 4), "layer_id_convention": "input_of_layer"}},
        {"drafter": {"target_layer_ids": (0, 1, 2, 3), "num_layers": 1}},  # more ids than layers
        {"drafter": {"target_layer_ids": (1,), "num_layers": 3}},
        {"max_draft_len": 1},
        {"max_draft_len": 7},  # the whole block, anchor first
        {"max_draft_len": 6, "anchor_convention": "mask_at_position"},
        {"mask_token_id": 255, "vocab_size": 256},  # the last row of the embedding
        {"sliding_window": 8},  # exactly max_draft_len + 1
        {"sliding_window": 4096},  # longer than any sequence
        {"sliding_window": None, "max_seq_len": 8},
        {"max_seq_len": 512},  # exactly the positions of both models
        {"max_num_requests": 8, "max_num_tokens": 64},
        {"max_num_requests": 3, "num_seq_slots": 3, "cuda_graph_batch_sizes": (1, 2, 3)},
        {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 128},
        {"markov_rank": 0, "markov_head_type": None, "confidence_head_with_markov": False},
        {"acceptance_rate_window_size": 10, "acceptance_rate_threshold": 1},
        {"confidence_threshold": 0},
        {"confidence_threshold": 1.0, "steps_per_second": ((1, 20),)},
        {"steps_per_second": ((1, 20.0), (2, 25.0), (64, 1.5))},  # a rate may rise
        {"enable_confidence_head": False, "confidence_head_with_markov": False},
    ],
    ids=str,
)
def test_what_lies_on_the_border_is_valid(overrides: dict[str, Any]) -> None:
    make_deployment(**overrides)


@pytest.mark.parametrize(("layers", "draft_len"), [(1, 1), (1, 5), (3, 1), (3, 2), (3, 3), (3, 6)])
def test_mtp_drafts_up_to_its_layers_or_whole_rounds(layers: int, draft_len: int) -> None:
    deployment = make_deployment("MTP", drafter={"num_layers": layers}, max_draft_len=draft_len)
    assert deployment.decoding.max_draft_len == draft_len


def test_every_violation_is_reported_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        make_deployment(
            drafter={
                "target_hidden_size": 32,
                "vocab_size": 300,
                "anchor_convention": "mask_at_position",
            },
            engine={"max_num_tokens": 63, "max_seq_len": 1024},
        )
    assert [(line["type"], line["loc"]) for line in caught.value.errors()] == [
        ("hidden_size_differs", ("drafter", "target_hidden_size")),
        ("vocab_size_differs", ("drafter", "vocab_size")),
        ("draft_beyond_block", ("decoding", "max_draft_len")),
        ("max_seq_len_beyond_positions", ("engine", "max_seq_len")),
        ("max_seq_len_beyond_positions", ("engine", "max_seq_len")),
        ("max_num_tokens_too_small", ("engine", "max_num_tokens")),
    ]


@pytest.mark.parametrize(
    ("convention", "published", "captured"),
    [("output_of_layer", (-1, 0, 3), (-1, 0, 3)), ("input_of_layer", (0, 1, 4), (-1, 0, 3))],
)
def test_captured_layers_mean_outputs_whatever_the_convention(
    convention: str, published: tuple[int, ...], captured: tuple[int, ...]
) -> None:
    deployment = make_deployment(target_layer_ids=published, layer_id_convention=convention)
    assert deployment.drafter.decoding_type == "DSpark"
    assert deployment.drafter.layers_to_capture == captured


def test_the_worker_needs_the_layers_of_the_checkpoint_or_for_mtp_the_last_one() -> None:
    shifted = make_deployment(target_layer_ids=(0, 4), layer_id_convention="input_of_layer")
    assert shifted.layers_to_capture == (-1, 3)
    assert make_deployment("DFlash", target_layer_ids=(0, 2)).layers_to_capture == (0, 2)
    assert make_deployment("MTP", target={"num_layers": 6}).layers_to_capture == (5,)


def test_an_mtp_window_holds_the_columns_of_a_step() -> None:
    assert make_deployment("MTP", max_draft_len=7, sliding_window=8).window_size == 8
    with pytest.raises(ValidationError, match=r"drafter.sliding_window: 7 is below .* \(8\)"):
        make_deployment("MTP", max_draft_len=7, sliding_window=7)


def test_the_block_yields_one_draft_fewer_where_masks_predict_themselves() -> None:
    first = make_deployment(max_draft_len=1).drafter
    masked = make_deployment(max_draft_len=1, anchor_convention="mask_at_position").drafter
    assert first.decoding_type == "DSpark"
    assert masked.decoding_type == "DSpark"
    assert (first.max_block_drafts, masked.max_block_drafts) == (7, 6)


def test_the_window_is_the_drafters_or_the_longest_sequence() -> None:
    assert make_deployment(sliding_window=32).window_size == 32
    assert make_deployment(sliding_window=None, max_seq_len=200).window_size == 200
    assert make_deployment("MTP", max_seq_len=200).window_size == 200
    assert make_deployment("MTP", max_seq_len=200, sliding_window=32).window_size == 32
    assert make_deployment(sliding_window=4096, max_seq_len=200).window_size == 200


# B = 8: (pipeline stages, overlap headroom, disaggregated) -> seats.
@pytest.mark.parametrize(
    ("stages", "headroom", "disaggregated", "seats"),
    [
        (1, False, False, 8),
        (1, True, False, 16),
        (1, False, True, 16),
        (1, True, True, 16),
        (2, False, False, 16),
        (2, True, False, 24),
        (2, False, True, 32),
        (2, True, True, 32),
        (4, False, False, 32),
        (4, True, False, 40),
        (4, False, True, 64),
        (4, True, True, 64),
    ],
)
def test_the_slot_pool_holds_every_request_that_can_be_alive(
    stages: int, headroom: bool, disaggregated: bool, seats: int
) -> None:
    engine = EngineConfig.sized(
        max_num_requests=8,
        max_num_tokens=64,
        max_seq_len=128,
        dtype="bfloat16",
        overlap_headroom=headroom,
        disaggregated=disaggregated,
        pipeline_parallel_size=stages,
    )
    assert engine.num_seq_slots == seats
    assert engine.max_num_requests == 8
    assert engine.pipeline_parallel_size == stages


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_num_requests", True),
        ("max_num_requests", 0),
        ("max_num_requests", "8"),
        ("pipeline_parallel_size", None),
        ("overlap_headroom", "no"),
        ("overlap_headroom", None),
        ("disaggregated", 1),
    ],
)
def test_a_sized_engine_reports_a_bad_factor_once(name: str, value: Any) -> None:
    factors: dict[str, Any] = {
        "max_num_requests": 8,
        "max_num_tokens": 64,
        "max_seq_len": 128,
        "dtype": "bfloat16",
        "overlap_headroom": False,
        "disaggregated": False,
    }
    with pytest.raises(ValidationError) as caught:
        EngineConfig.sized(**{**factors, name: value})
    (line,) = caught.value.errors()
    assert line["loc"] == (name,)
    assert line["msg"].startswith(f"{name}: {value!r} is not ")


def test_a_deployment_is_composed_from_models_or_mappings() -> None:
    deployment = make_deployment()
    assert Deployment.model_validate(deployment.model_dump()) == deployment
    assert Deployment.model_validate_json(deployment.model_dump_json()) == deployment
    assert deployment.decoding_type == "DSpark"
