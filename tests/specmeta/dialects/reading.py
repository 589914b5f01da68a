"""Published configurations, changed, as documents; what a reader finds in them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from specmeta._dialects import Reading, read_drafter
from specmeta._drafter import DFlashDrafterConfig, DSparkDrafterConfig, MTPDrafterConfig
from specmeta._files import Document, Tensor, parse_json, read_document
from specmeta._findings import CheckpointError

ROOT = Path(__file__).parents[3]
CHECKPOINTS = Path(
    os.environ.get("SPECMETA_CHECKPOINTS_DIR", ROOT / "tests" / "data" / "checkpoints")
)
BUNDLED = ROOT / "workers" / "specmeta_workers" / "bundled"
NAME = "config.json"
QWEN = "dspark_qwen3_8b_block7/drafter"
NO_MARKOV = "deepspec_dflash_qwen3_8b_block7/drafter"
ZLAB = "zlab_qwen3_8b_dflash_b16/drafter"
V4 = "deepseek_v4_flash_dspark/target"
SPECULATORS = "speculators_dspark_qwen3_8b/drafter"
TARGET = "dspark_qwen3_8b_block7/target"


class Problem(NamedTuple):
    """The parts of a finding that place it."""

    rule: str
    field: str
    element: int | None
    line: int | None


def published(folder: str) -> Document:
    """The document of a published configuration."""
    return read_document(CHECKPOINTS / folder / NAME)


def changed(folder: str | Path, changes: Mapping[str, Any]) -> Document:
    """A published configuration with other keys; `...` takes one away, a dict changes a section."""
    raw = json.loads((CHECKPOINTS / folder / NAME).read_text())
    return written(_merged(raw, changes))


def written(raw: Mapping[str, Any]) -> Document:
    """The document of these keys, one a line."""
    return parse_json(json.dumps(raw, indent=1).encode(), NAME)


def drafter(document: Document, **arguments: Any) -> Any:
    """The canonical form of a drafter, without warnings."""
    reading = read_drafter(document, **arguments)
    assert isinstance(reading.config, DSparkDrafterConfig | DFlashDrafterConfig | MTPDrafterConfig)
    assert reading.findings == ()
    return reading.config


def refused(read: Callable[[], object]) -> CheckpointError:
    """The error that reading raises."""
    with pytest.raises(CheckpointError) as caught:
        read()
    assert str(caught.value) == "\n".join(map(str, caught.value.findings))
    return caught.value


def problems(document: Document, **arguments: Any) -> list[Problem]:
    """What is wrong with a drafter's file."""
    found = refused(lambda: read_drafter(document, **arguments)).findings
    return [Problem(f.rule, f.field, f.index, f.line) for f in found]


def at(document: Document, rule: str, key: str, index: int | None = None) -> Problem:
    """The problem that lies at a dotted key of the document, or at an element there."""
    path = (*key.split("."), *(() if index is None else (index,)))
    return Problem(rule, key, index, document.line_of(path))


def typed(name: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor of the type that its name has in published checkpoints."""
    return Tensor(shape, {"d2t": "I64", "t2d": "BOOL"}.get(name, "BF16"), "model.safetensors")


def warnings(reading: Reading[Any]) -> list[tuple[str, str, int | None]]:
    """Rule, field and line of each warning."""
    return [(f.rule, f.field, f.line) for f in reading.findings]


def _merged(raw: Any, changes: Mapping[str, Any]) -> Any:
    raw = dict(raw)
    for key, value in changes.items():
        if value is ...:
            del raw[key]
        elif isinstance(value, dict) and isinstance(raw.get(key), dict):
            raw[key] = _merged(raw[key], value)
        else:
            raw[key] = value
    return raw
