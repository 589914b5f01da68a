"""Every public report that a rule can answer is refused by that rule, and its mended form is not.

`SPECMETA_FAULTS_DIR` points at another folder of cases.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from specmeta import InputError
from specmeta._rules import RULES

from .fault_cases import (
    FOLDER,
    OURS,
    PAGE,
    REPORT,
    Case,
    Form,
    cases,
    needs,
    page_with,
    read_case,
    table,
)
from .fault_checks import check

CASES = cases()
FAULTY = [(case, case.faulty) for case in CASES if case.faulty is not None]
VALID = [(case, form) for case in CASES for form in case.valid]
NEEDS = [(case, form, path) for case, form in FAULTY for path in needs(case).values()]
ours = pytest.mark.skipif(FOLDER != OURS, reason="another folder of cases is tested")

_SPARK = "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark"
_VISION = "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark"
REPORTS = {
    "ARahim3/mlx-dspark": "5 7",
    "Anbeeld/beellama.cpp": "28",
    _SPARK: "3 57 143 208 223",
    "NVIDIA/Model-Optimizer": "2149 2247",
    "NVIDIA/TensorRT-LLM": "15808 16005 16767 16772 17154 17619 18343",
    "PrismML-Eng/llama.cpp": "122",
    "ProjectDMX/DMI": "67",
    "charlie12345/ROCmFPX": "44",
    "eugr/spark-vllm-docker": "358",
    "ggml-org/llama.cpp": "18039 22105 26275 26478 26761 27117 27342",
    "ikawrakow/ik_llama.cpp": "2296",
    "noonghunna/club-3090": "758",
    "sgl-project/sglang": "2711 14180 14368 14536 30852 30982 31016 33579 33581 33800 34021 34023"
    " 34043 34734 34959",
    "sgl-project/sglang-jax": "1293 1619",
    _VISION: "22",
    "vllm-project/speculators": "705",
    "vllm-project/vllm": "14645 40727 41834 42704 43671 43810 47066 47419 48124 48152 48639 48894"
    " 50012 50021 50720 51009 51042 51256 51269 51538 53292 53313 53488 53520 53970 54011 54631"
    " 55279 56443 56451 56734",
    "vllm-project/vllm-ascend": "7365 11374 12640 13530 13665 13717 15363",
}
"""The public reports of faults in speculation that are known to this project, by repository."""


def name_of(item: Any) -> str:
    if isinstance(item, Case):
        return item.name
    return ".".join(map(str, item)) if isinstance(item, tuple) else ""


@pytest.mark.parametrize(("case", "form"), FAULTY, ids=name_of)
def test_the_fault_is_found_by_its_rule_alone(case: Case, form: Form, tmp_path: Path) -> None:
    outcome = check(case, form, tmp_path / "faulty")
    errors, warnings = outcome.rules("error"), outcome.rules("warning")
    if case.severity == "warning":
        assert (case.rule in warnings, errors, outcome.exit_code) == (True, set(), 0), outcome.text
    else:
        assert (errors, outcome.exit_code) == ({case.rule}, 1), outcome.text


@pytest.mark.parametrize(("case", "form"), VALID, ids=name_of)
def test_the_corrected_form_is_valid(case: Case, form: Form, tmp_path: Path) -> None:
    outcome = check(case, form, tmp_path / "valid")
    assert (outcome.rules("error"), outcome.exit_code) == (set(), 0), outcome.text
    assert case.rule not in outcome.rules("warning"), outcome.text


@pytest.mark.parametrize(("case", "form", "path"), NEEDS, ids=name_of)
def test_the_fault_is_not_found_without_what_it_needs(
    case: Case, form: Form, path: tuple[str, ...], tmp_path: Path
) -> None:
    outcome = check(case, without(form, path), tmp_path / "without")
    assert case.rule not in outcome.rules(case.severity), outcome.text


def without(form: Form, path: tuple[str, ...]) -> Form:
    key, *rest = path
    if not rest:
        return {name: value for name, value in form.items() if name != key}
    return {**form, key: without(form[key], tuple(rest))}


@ours
@pytest.mark.parametrize("case", [case for case, _ in FAULTY], ids=name_of)
def test_the_rule_points_to_the_report(case: Case) -> None:
    assert set(case.reports) <= set(RULES[case.rule].reports)


@ours
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_case_is_named_after_its_first_report(case: Case) -> None:
    number = case.reports[0].split("#")[1]
    assert re.fullmatch(rf"[a-z0-9_]+_{number}(_[a-z]+)?", case.name)


@ours
def test_the_page_lists_every_case() -> None:
    page = PAGE.read_text()
    assert page == page_with(page, table(CASES)), "run python tests/specmeta/fault_cases.py"


@ours
def test_the_page_has_every_known_report_once() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    listed = [report for row in rows for report in REPORT.findall(row.split("|")[1])]
    known = {f"{name}#{number}" for name, all_ in REPORTS.items() for number in all_.split()}
    assert len(listed) == len(set(listed)), sorted(listed)
    assert known <= set(listed), f"neither a case nor listed as not caught: {known - {*listed}}"


@ours
def test_the_examples_of_the_page_are_cases() -> None:
    files = [path.read_text() for path in OURS.glob("*.yaml")]
    for example in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL):
        assert any(example in text for text in files), example


MINIMAL = (
    "reports: [a/b#1]\nsymptom: low\ncause: high\nrule: draft_beyond_block\nbase: DSpark\n"
    "faulty:\n  deployment: {decoding: {max_draft_len: 8}}\ncorrected: {}\n"
)


def test_a_minimal_case_is_read(tmp_path: Path) -> None:
    path = tmp_path / "b_1.yaml"
    path.write_text(MINIMAL)
    (case,) = cases(tmp_path)
    assert (case.name, case.reports, case.severity, case.valid) == (
        "b_1",
        ("a/b#1",),
        "error",
        ({},),
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("cause: high\n", "", "1: 'cause' is required and was not given"),
        (
            "cause: high",
            "catch: step",
            "3: 'catch' is no key here: reports, symptom, cause, rule, ",
        ),
        ("  deployment", "  deploy", "7: 'deploy' is no key here: deployment, files, weights, "),
        ("[a/b#1]", "[b#1]", "1: 'b#1' is not owner/repository#number"),
        ("[a/b#1]", "a/b#1", "1: reports is a list of owner/repository#number"),
        ("draft_beyond", "draft_behind", "4: 'draft_behind_block' is no rule: `specmeta rules` "),
        ("base: DSpark", "base: Dspark", "5: 'Dspark' is no base: DSpark, DFlash, MTP"),
        ("base: DSpark", "checkpoint: qwen", "5: 'qwen' is no checkpoint: deepseek_v4_1_flash_"),
        ("base: DSpark\n", "", "1: give one of base and checkpoint"),
        ("corrected: {}", "corrected:", "8: corrected is an object with deployment, files, "),
        ("corrected: {}", "corrected: {}\nalso_valid: {}", "9: also_valid is a list of forms"),
        ("symptom: low", "symptom: 1", "2: symptom is a text"),
        (
            "base: DSpark",
            "base: DSpark\nseverity: fatal",
            "6: 'fatal' is no severity: error, warning",
        ),
    ],
)
def test_a_file_in_another_form_is_refused(old: str, new: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "b_1.yaml"
    path.write_text(MINIMAL.replace(old, new))
    with pytest.raises(InputError) as refused:
        read_case(path)
    message = str(refused.value)
    assert message.startswith(f"{path}:{told}")
    assert message.endswith("; see docs/faults.md")


def test_a_folder_without_cases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no case"):
        cases(tmp_path)
