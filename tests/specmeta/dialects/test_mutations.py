"""A key that is dropped or broken is refused at its place, or changes what it holds and no more."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from specmeta import InputError
from specmeta._dialects import read_drafter, read_target
from specmeta._files import Document

from .reading import CHECKPOINTS, NO_MARKOV, written

_VALUES: dict[str, object] = {
    "absent": ...,
    "null": None,
    "text": "seven",
    "negative": -7,
    "huge": 2**63,
    "list": [[]],
    "object": {"a": 1},
    "true": True,
}
# What a field holds where its key holds this, or nothing: a target without streams has one.
_MEANINGS: dict[tuple[str, object], object] = {
    ("hc_mult", None): 1,
    ("anchor_convention", True): "anchor_first",
}
_STATED = {NO_MARKOV: {"anchor_convention": "anchor_first"}}
_FILES = sorted(
    str(path.parent.relative_to(CHECKPOINTS)) for path in CHECKPOINTS.glob("*/*/*.json")
)


def _paths(raw: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(raw, dict):
        return [path]
    inner = [found for key, value in raw.items() for found in _paths(value, (*path, key))]
    return [path, *inner] if path else inner


def _load(folder: str) -> Any:
    return json.loads((CHECKPOINTS / folder / "config.json").read_text())


def _changed(raw: Any, path: tuple[str, ...], value: object) -> Any:
    raw = copy.deepcopy(raw)
    section = raw
    for key in path[:-1]:
        section = section[key]
    if value is ...:
        del section[path[-1]]
    else:
        section[path[-1]] = value
    return raw


def _read(folder: str, raw: Any, *, as_target: bool) -> Any:
    if as_target:
        return read_target(written(raw))
    return read_drafter(written(raw), stated=_STATED.get(folder, {}))


def _outcome(folder: str, raw: Any, *, as_target: bool) -> tuple[Any, InputError | None]:
    try:
        return _read(folder, raw, as_target=as_target), None
    except InputError as error:
        return None, error


def _names(error: InputError, document: Document, path: tuple[str, ...]) -> bool:
    """Whether an error has a finding at a key or in its list, names it, or asks for a fact."""
    lines = {document.line_of(path), document.line_of((*path, 0))}
    told = ".".join(path) in str(error)
    asked = any(found.rule == "fact_not_stated" for found in error.findings)
    return told or asked or any(found.line in lines for found in error.findings)


def _is_from(reading: Any, field: str, path: tuple[str, ...]) -> bool:
    origin = reading.origins.get((field,))
    return origin is not None and origin.path[: len(path)] == path


def _is_read_as(folder: str) -> list[bool]:
    is_target = folder.endswith("/target")
    bundled = is_target and "deepseek_v4" in folder
    return [True, False] if bundled else [is_target]


_CASES = [
    (folder, path, as_target)
    for folder in _FILES
    for path in _paths(_load(folder))
    for as_target in _is_read_as(folder)
]


@pytest.mark.parametrize(
    ("folder", "path", "as_target"),
    _CASES,
    ids=[f"{f}-{'.'.join(p)}-{'target' if t else 'drafter'}" for f, p, t in _CASES],
)
def test_a_broken_key_is_refused_at_its_place(
    folder: str, path: tuple[str, ...], *, as_target: bool
) -> None:
    raw = _load(folder)
    whole = _read(folder, raw, as_target=as_target)
    for kind, value in _VALUES.items():
        document = _changed(raw, path, value)
        reading, refused = _outcome(folder, document, as_target=as_target)
        if refused is not None:
            assert _names(refused, written(document), path), (kind, str(refused))
            continue
        before, after = whole.config.model_dump(), reading.config.model_dump()
        assert type(whole.config) is type(reading.config), kind
        for field in (name for name in before if after[name] != before[name]):
            meant = value if value is not ... and _is_from(reading, field, path) else None
            meant = _MEANINGS.get((field, meant), meant)
            assert after[field] == meant, (kind, field, after[field])
