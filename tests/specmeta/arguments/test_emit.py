"""Written YAML means the same to readers of 1.1 and of 1.2."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from specmeta._arguments._emit import to_yaml
from specmeta._files import parse_yaml

characters = st.characters(codec="utf-8", exclude_characters="\0")
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(characters, max_size=12)
    | st.sampled_from(("yes", "No", "on", "null", "~", "1e5", "0o17", "1:30", "2026-01-01", ".5"))
)
keys = st.text(characters, min_size=1, max_size=8)
values = st.recursive(
    scalars | st.lists(scalars, max_size=4).filter(bool),
    lambda inner: st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(keys, values, max_size=4))
def test_what_is_written_is_read_back_by_both(data: dict[str, Any]) -> None:
    text = to_yaml(data)
    if data:
        assert parse_yaml(text.encode(), "x").data == data
        assert yaml.safe_load(text) == data


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-06, "1.0e-06"),
        (1e16, "1.0e+16"),
        (0.5, "0.5"),
        (True, "true"),
        (None, "null"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("../models/x.y", "../models/x.y"),
        ("/models/x", "/models/x"),
        ("off", "'off'"),
        ("3.10", "'3.10'"),
        ("it's: {x}", "'it''s: {x}'"),
        ("é\x07", '"é\\U00000007"'),
        ("", "''"),
        ([1, "b", None], "[1, b, null]"),
        (((1, 0.5), (2, 1.5)), "[[1, 0.5], [2, 1.5]]"),
        ({}, "{}"),
    ],
)
def test_values_are_written_in_few_forms(value: object, text: str) -> None:
    assert to_yaml({"key": value}) == f"key: {text}\n"


def test_objects_and_lists_of_them_are_indented() -> None:
    data = {"a": {"b": {"c": 1}, "d": 2}, "e": [{"f": 1, "g": {"h": 2}}, {"f": 3}]}
    text = to_yaml(data)
    assert text == ("a:\n  b:\n    c: 1\n  d: 2\ne:\n  - f: 1\n    g:\n      h: 2\n  - f: 3\n")
    assert yaml.safe_load(text) == data
