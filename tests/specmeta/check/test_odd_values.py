"""Whatever stands at any place of a deployment file, a check answers with findings."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from specmeta._check._options import CheckOptions
from specmeta._check._run import check
from specmeta._check._sarif import as_sarif
from specmeta._check._text import lines
from specmeta._deployment_file import read_deployment_file
from specmeta._files import Document

from .running import DEPLOYMENT

ODD: list[object] = [
    None, True, 0, -1, 2**63, 2**64 - 1, 1.5, 1e300, "", "x", "\x00", "../..", "\U0001f600", [],
    [[]], [1, "a"], {}, {"a": 1}, {"checkpoint": 1}, {"stated": [1]}, {"sized": {}}, {"sized": 3},
    {"rule": 1}, {"vllm": None}, {"vllm": {}}, {"vllm": []}, {"vllm": "x"},
]  # fmt: skip
BASE = yaml.safe_load(DEPLOYMENT) | {
    "overrides": [{"rule": "draft_beyond_block", "reason": "x"}],
    "compiled_for": {"dtype": "bfloat16"},
}


def places(data: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*path, key))


def replaced(path: tuple[str | int, ...], value: object) -> object:
    if not path:
        return value
    data: Any = copy.deepcopy(BASE)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


@pytest.mark.parametrize("part", [*BASE, "arguments", "unknown"])
def test_an_odd_value_at_any_place_is_answered_with_findings(part: str, tmp_path: Path) -> None:
    inner = [path for path in places(BASE) if path[:1] == (part,)] or [(part,)]
    for path in inner:
        for value in ODD:
            data = replaced(path, value)
            reading = read_deployment_file(Document("deployment.json", data), base=tmp_path)
            errors = [found for found in reading.findings if found.severity == "error"]
            assert (reading.deployment is None) == bool(errors), (path, value)
            for found in reading.findings:
                assert found.file is not None
                assert json.dumps(found.value) is not None
                str(found).encode()


@pytest.mark.parametrize("value", ODD)
def test_an_odd_document_is_reported_in_every_form(value: object, tmp_path: Path) -> None:
    path = tmp_path / "deployment.json"
    path.write_text(json.dumps(value))
    report = check([str(path)], CheckOptions(), lambda: path.open("rb"))
    assert report.exit_code(strict=False) in (1, 2)
    assert json.loads(as_sarif(report, "0.1.0"))["version"] == "2.1.0"
    assert [*lines(report)][-1].text == report.summary
