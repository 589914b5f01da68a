"""Every public report that a rule can answer is refused by that rule, and its mended form is not.

`SPECMETA_FAULTS_DIR` points at another folder of cases.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from specmeta._rules import RULES

from .fault_cases import FOLDER, PAGE, ROOT, Case, cases, check, page_with, read_case, table

CASES = cases()
each = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
ours = pytest.mark.skipif(
    ROOT / "tests" / "faults" != FOLDER, reason="another folder of cases is tested"
)


@each
def test_the_fault_is_found_by_its_rule_alone(case: Case, tmp_path: Path) -> None:
    outcome = check(case, case.faulty, tmp_path / "faulty")
    errors, warnings = outcome.rules("error"), outcome.rules("warning")
    if case.severity == "warning":
        assert (case.rule in warnings, errors, outcome.exit_code) == (True, set(), 0), outcome.text
    else:
        assert (errors, outcome.exit_code) == ({case.rule}, 1), outcome.text


@each
def test_the_corrected_form_is_valid(case: Case, tmp_path: Path) -> None:
    forms = [case.corrected, *({**case.corrected, **extra} for extra in case.also_valid)]
    for index, form in enumerate(forms):
        outcome = check(case, form, tmp_path / f"valid{index}")
        assert (outcome.rules("error"), outcome.exit_code) == (set(), 0), outcome.text
        assert case.rule not in outcome.rules("warning"), outcome.text


@each
def test_the_rule_points_to_the_report(case: Case) -> None:
    if case.rule not in RULES:  # a bound of one field, which carries pydantic's name
        assert case.rule == "greater_than_equal"
        return
    assert set(case.reports) <= set(RULES[case.rule].reports)


@ours
def test_the_page_lists_every_case() -> None:
    page = PAGE.read_text()
    assert page == page_with(page, table(CASES)), "run python tests/specmeta/fault_cases.py"


@ours
def test_there_is_a_case_for_every_report_that_a_rule_can_answer() -> None:
    assert len(CASES) == 56


def test_a_file_in_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "half.yaml"
    path.write_text("reports: [a/b#1]\nrule: draft_beyond_block\n")
    with pytest.raises(ValueError, match=r"half.yaml: .*'cause'.*see docs/faults.md"):
        read_case(path)
