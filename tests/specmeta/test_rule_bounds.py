"""No rule on configurations is stricter than its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from specmeta._rules import RULES, Rule, _arguments, _checkpoints, _deployments, _drafters

from .fault_cases import Case, Form, cases
from .fault_checks import Outcome, check
from .rule_bounds import BOUNDS, Bound

OF_PATHS = {"part_unreadable", "path_outside"}
ENGINE = {
    "max_num_requests": 8,
    "num_seq_slots": 8,
    "max_num_tokens": 4096,
    "max_seq_len": 4096,
    "dtype": "bfloat16",
}
each = pytest.mark.parametrize("bound", BOUNDS, ids=[bound.rule for bound in BOUNDS])


def outcome(bound: Bound, form: Form, folder: Path) -> Outcome:
    case = Case(
        name=bound.rule,
        reports=(),
        symptom="",
        cause="",
        rule=bound.rule,
        severity="error",
        base=bound.base,
        checkpoint=bound.checkpoint,
        faulty=bound.refused,
        valid=(bound.passes,),
        not_expressed="",
    )
    return check(case, form, folder / "form")


@each
def test_the_nearest_valid_value_passes(bound: Bound, tmp_path: Path) -> None:
    found = outcome(bound, bound.passes, tmp_path)
    assert (found.rules("error"), found.exit_code) == (set(), 0), found.text


@each
def test_one_beyond_it_is_refused(bound: Bound, tmp_path: Path) -> None:
    found = outcome(bound, bound.refused, tmp_path)
    assert bound.rule in found.rules("error"), found.text


@pytest.mark.parametrize(
    ("checkpoint", "form"),
    [
        # more drafts than the block, where a deployment says why
        (
            "deepseek_v4_flash_dspark",
            {
                "deployment": {
                    "decoding": {"decoding_type": "DSpark", "max_draft_len": 7},
                    "engine": ENGINE,
                    "overrides": [{"rule": "draft_beyond_block", "reason": "recipe of the card"}],
                }
            },
        ),
        # another number of captured layers than the drafter has
        ("speculators_dflash_qwen3_8b", {}),
        # the output of the last layer
        (
            "dspark_qwen3_8b_block7",
            {"files": {"drafter/config.json": {"target_layer_ids": [1, 17, 35]}}, "weights": {}},
        ),
        # a mask token behind the tokenizer's, in the embedding
        (
            "dspark_qwen3_8b_block7",
            {"files": {"drafter/config.json": {"mask_token_id": 151935}}},
        ),
        # a list of windows in the target's file
        (
            "dspark_qwen3_8b_block7",
            {"files": {"target/config.json": {"sliding_window_pattern": [1, 0] * 18}}},
        ),
    ],
    ids=str,
)
def test_what_was_taken_for_a_fault_and_is_none_passes(
    checkpoint: str, form: Form, tmp_path: Path
) -> None:
    found = outcome(Bound("", form, {}, None, checkpoint), form, tmp_path)
    assert (found.rules("error"), found.exit_code) == (set(), 0), found.text


def test_every_rule_on_configurations_has_its_bound() -> None:
    modules = (_drafters, _deployments, _checkpoints, _arguments)
    found = [rule for module in modules for rule in vars(module).values() if isinstance(rule, Rule)]
    errors = {rule.name for rule in found if rule.severity == "error"} - OF_PATHS
    cased = {case.rule for case in cases()}
    assert errors <= {bound.rule for bound in BOUNDS} | cased
    assert {bound.rule for bound in BOUNDS} <= set(RULES)
