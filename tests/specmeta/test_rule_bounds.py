"""No rule on configurations is stricter than its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from specmeta._rules import RULES, Rule, _arguments, _checkpoints, _deployments, _drafters

from .fault_cases import Case, Form, cases
from .fault_checks import Outcome, check
from .rule_bounds import BOUNDS, Bound

OF_PATHS = {"part_unreadable", "path_outside"}
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


def test_every_rule_on_configurations_has_its_bound() -> None:
    modules = (_drafters, _deployments, _checkpoints, _arguments)
    found = [rule for module in modules for rule in vars(module).values() if isinstance(rule, Rule)]
    errors = {rule.name for rule in found if rule.severity == "error"} - OF_PATHS
    cased = {case.rule for case in cases()}
    assert errors <= {bound.rule for bound in BOUNDS} | cased
    assert {bound.rule for bound in BOUNDS} <= set(RULES)
