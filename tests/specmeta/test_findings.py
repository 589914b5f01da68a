"""Findings and errors: printable whatever they are built from, and placed where something is."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from specmeta import read_drafter_config
from specmeta._errors import line_error, show, validation_error
from specmeta._files import parse_json
from specmeta._findings import Finding, InputError, Origin, Origins, finding, findings_of
from specmeta._pairs import gathered
from specmeta._rules import FACTS_DISAGREE
from specmeta._text import named, printable, shown
from specmeta.testing import make_dspark_metadata

HOSTILE = "a\n\r\t\x00\x1b[2J\x7f\x85\u2028\u2029\u202e\ufeff\ud800é"
ESCAPED = r"a\n\r\t\x00\x1b[2J\x7f\x85\u2028\u2029\u202e\ufeff\ud800é"


def test_a_text_keeps_what_is_visible_and_escapes_the_rest() -> None:
    assert printable(HOSTILE) == ESCAPED
    assert printable("plain é 漢") == "plain é 漢"
    assert shown(HOSTILE) == show(HOSTILE) == f"'{ESCAPED}'"
    assert shown("x" * 61) == f"'{'x' * 60}...'"
    assert named("x" * 200) == "x" * 200
    assert named(f"{'x' * 101}{'y' * 101}") == f"{'x' * 100}...{'y' * 100}"


def hostile() -> Finding:
    found = finding(FACTS_DISAGREE, HOSTILE, f"{HOSTILE} differs", value=HOSTILE)
    return replace(found, remedy=HOSTILE, reason=HOSTILE)


def test_a_finding_is_one_printable_line() -> None:
    found = hostile()
    assert found.message == f"{ESCAPED}: {ESCAPED} differs; {ESCAPED}"
    assert found.reason == ESCAPED
    assert str(found).isprintable()
    assert replace(found) == found


def test_an_error_is_a_printable_line_for_each_finding() -> None:
    error = InputError.of([hostile(), hostile()])
    assert str(error).splitlines() == [str(hostile())] * 2
    assert str(InputError(f"{HOSTILE}; do")) == f"{ESCAPED}; do"
    for one in (error, InputError(HOSTILE)):
        again = pickle.loads(pickle.dumps(one))
        assert (str(again), again.findings) == (str(one), one.findings)


def test_a_validation_error_is_printable_and_carries_its_fact() -> None:
    line = line_error("kind", HOSTILE, f"{HOSTILE}; and more", HOSTILE, value=1, index=2)
    (details,) = validation_error("x", [line]).errors()
    assert details["msg"] == f"{ESCAPED}[2]: {ESCAPED}; and more; {ESCAPED}"
    assert details.get("ctx", {})["fact"] == f"{ESCAPED}; and more"
    assert details["loc"] == (HOSTILE.replace("\ud800", "\\ud800"), 2)


def test_a_finding_has_the_fact_of_its_error_whatever_its_text() -> None:
    unknown: dict[str, Any] = {"a: b; c {remedy}\n": 1}
    with pytest.raises(ValidationError) as caught:
        make_dspark_metadata(**unknown)
    (found,) = findings_of(caught.value, {})
    assert found.field == r"a: b; c {remedy}\n"
    assert found.fact == "is not a field of DSparkSpecMetadata (got 1)"


def test_the_name_of_a_field_is_cut_in_messages() -> None:
    unknown: dict[str, Any] = {"n" * 10**6: 1}
    with pytest.raises(ValidationError) as caught:
        make_dspark_metadata(**unknown)
    assert len(str(caught.value.errors()[0]["msg"])) < 1500
    (found,) = findings_of(caught.value, {})
    assert len(found.message) < 1500


def test_what_the_caller_states_is_in_no_file(tmp_path: Path) -> None:
    document = parse_json(b'{"drafter":\n{"block_size": 7}}', "d.json")
    written: Origins = {("block_size",): Origin(document, ("drafter", "block_size"))}
    for origins, place in ((written, ("d.json", 2)), ({}, (None, None))):
        with pytest.raises(InputError) as caught:
            gathered([({"block_size": 7}, origins), ({"block_size": 5}, {})], None)
        (found,) = caught.value.findings
        assert (found.field, found.file, found.line) == ("block_size", *place)
    source = Path(__file__).parents[1] / "data" / "checkpoints"
    drafter = next(path.parent for path in sorted(source.rglob("drafter/config.json")))
    with pytest.raises(InputError) as refused:
        read_drafter_config(drafter, stated={"no_such_fact": 1})
    files = {found.field: found.file for found in refused.value.findings}
    assert files["no_such_fact"] is None
