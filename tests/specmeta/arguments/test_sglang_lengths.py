"""How many drafts SGLang's arguments stand for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.specmeta.arguments.reading import only, read, refused

NEXTN: dict[str, Any] = {"speculative-algorithm": "NEXTN", "speculative-num-draft-tokens": None}


@pytest.mark.parametrize(
    ("speculation", "drafts"),
    [
        ({}, 7),
        ({"speculative-num-steps": 7}, 7),
        ({"speculative-num-steps": 1}, 7),  # all that a block drafter runs, whatever its block
        ({"speculative-dspark-block-size": 7}, 7),
        ({"speculative-dspark-block-size": 7, "speculative-num-draft-tokens": None}, 7),
        ({"speculative-algorithm": "DFLASH", "speculative-dflash-block-size": 8}, 7),
        (
            {
                "speculative-algorithm": "DFLASH",
                "speculative-dflash-block-size": 16,
                "speculative-num-draft-tokens": None,
            },
            15,
        ),
        ({**NEXTN, "speculative-num-steps": 3}, 3),
        ({**NEXTN, "speculative-num-steps": 1}, 1),
        ({**NEXTN, "speculative-num-steps": 3, "speculative-num-draft-tokens": 4}, 3),
        # Of another method: the engine does not look at it.
        ({"speculative-dflash-block-size": 3}, 7),
    ],
)
def test_drafts_are_counted_as_the_engine_does(speculation: dict[str, Any], drafts: int) -> None:
    assert read("sglang", speculation).decoding.max_draft_len == drafts


@pytest.mark.parametrize(
    ("speculation", "field", "fact"),
    [
        (
            {"speculative-num-steps": 7, "speculative-num-draft-tokens": 7},
            "speculative-num-steps",
            "7 is for 7 drafts although speculative-num-draft-tokens (7) is for 6",
        ),
        (
            {"speculative-dspark-block-size": 8},
            "speculative-dspark-block-size",
            "8 is for 8 drafts although speculative-num-draft-tokens (8) is for 7",
        ),
        (
            {"speculative-algorithm": "DFLASH", "speculative-dflash-block-size": 7},
            "speculative-dflash-block-size",
            "7 is for 6 drafts although speculative-num-draft-tokens (8) is for 7",
        ),
        (
            {**NEXTN, "speculative-num-steps": 1, "speculative-num-draft-tokens": 4},
            "speculative-num-steps",
            "1 is for 1 drafts although speculative-num-draft-tokens (4) is for 3",
        ),
    ],
)
def test_counts_that_disagree_are_refused(
    speculation: dict[str, Any], field: str, fact: str
) -> None:
    (found,) = refused("sglang", speculation)
    assert (found.rule, found.field, found.fact) == ("draft_tokens_disagree", field, fact)
    assert found.reports == ("NVIDIA/Model-Optimizer#2247",)


def test_a_dflash_block_may_be_wider_than_what_is_verified() -> None:
    wider = {"speculative-algorithm": "DFLASH", "speculative-dflash-block-size": 16}
    assert read("sglang", wider).decoding.max_draft_len == 7


def test_a_block_of_the_run_is_no_fact_of_the_checkpoint() -> None:
    assert read("sglang", {"speculative-dspark-block-size": 7}).stated == {}


def test_a_lone_token_leaves_no_draft() -> None:
    (found, *_) = refused("sglang", {"speculative-num-draft-tokens": 1})
    assert (found.rule, found.field, found.value, found.fact) == (
        "argument_invalid",
        "speculative-num-draft-tokens",
        1,
        "1 leaves no draft beside the anchor",
    )


def test_a_tree_is_refused() -> None:
    tree = {
        **NEXTN,
        "speculative-eagle-topk": 4,
        "speculative-num-steps": 3,
        "speculative-num-draft-tokens": 16,
    }
    assert only(refused("sglang", tree)) == (
        "argument_not_supported",
        "speculative-eagle-topk",
        4,
        "4 drafts a tree",
    )


@pytest.mark.parametrize("value", [0, -3, True, "8", 8.0])
def test_counts_of_another_kind_are_refused(value: object) -> None:
    assert only(refused("sglang", {"speculative-num-draft-tokens": value}))[:3] == (
        "argument_invalid",
        "speculative-num-draft-tokens",
        value,
    )
