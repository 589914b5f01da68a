"""YAML: the core schema of 1.2, and none of what makes YAML unsafe or ambiguous."""

from __future__ import annotations

import math

import pytest

from specmeta._files import parse_yaml
from specmeta._files._limits import MAX_INT, MIN_INT

from .samples import refusal

pytestmark = pytest.mark.usefixtures("yaml_parser")

RANGE = "write an integer from -9223372036854775808 to 18446744073709551615"

TEXT = b"""# a deployment
decoding:
  decoding_type: DSpark
  depths: [1,
    2, 3]
engine: {max_num_requests: 8,
  "dtype": bfloat16}
captures:
  - layer: 1
    name: a
  -
    layer: 2
shared: &s
  window: 4096
again: *s
note: |
  two
  lines
empty:
"""


def test_a_document_is_plain_data() -> None:
    document = parse_yaml(TEXT, "d.yaml")
    assert document.name == "d.yaml"
    assert document.data == {
        "decoding": {"decoding_type": "DSpark", "depths": [1, 2, 3]},
        "engine": {"max_num_requests": 8, "dtype": "bfloat16"},
        "captures": [{"layer": 1, "name": "a"}, {"layer": 2}],
        "shared": {"window": 4096},
        "again": {"window": 4096},
        "note": "two\nlines\n",
        "empty": None,
    }


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 2),
        (("decoding",), 2),
        (("decoding", "decoding_type"), 3),
        (("decoding", "depths"), 4),
        (("decoding", "depths", 1), 5),
        (("engine", "max_num_requests"), 6),
        (("engine", "dtype"), 7),
        (("captures", 0), 9),
        (("captures", 0, "name"), 10),
        (("captures", 1, "layer"), 12),
        (("shared", "window"), 14),
        (("again",), 15),
        (("again", "window"), 14),
        (("note",), 16),
        (("empty",), 19),
        (("empty", "absent"), 19),
        (("captures", 7), 8),
    ],
)
def test_a_key_has_the_line_that_it_stands_on(path: tuple[str | int, ...], line: int) -> None:
    assert parse_yaml(TEXT, "d.yaml").line_of(path) == line


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("on", "on"),
        ("n", "n"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("0777", 777),
        ("0o17", 15),
        ("0x1F", 31),
        ("+12", 12),
        ("-0", 0),
        ("0" * 30 + "7", 7),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("1e-6", 1e-6),
        ("1E5", 1e5),
        (".5", 0.5),
        ("-2.", -2.0),
        ("NaN", "NaN"),
        ("1.2.3", "1.2.3"),
        ("-", None),
        ("'12'", "12"),
        ('"true"', "true"),
        (str(MAX_INT), MAX_INT),
        (str(MIN_INT), MIN_INT),
        ("0x" + "0" * 20 + "1", 1),
    ],
)
def test_plain_scalars_follow_the_core_schema_of_1_2(written: str, value: object) -> None:
    if written == "-":
        assert parse_yaml(b"a:\n-", "d.yaml").data == {"a": [None]}
        return
    data = parse_yaml(f"a: {written}".encode(), "d.yaml").data
    assert isinstance(data, dict)
    assert data["a"] == value
    assert type(data["a"]) is type(value)


def test_negative_zero_keeps_its_sign() -> None:
    assert parse_yaml(b"-0.0", "d.yaml").data == 0
    assert math.copysign(1, float(str(parse_yaml(b"-0.0", "d.yaml").data))) == -1


@pytest.mark.parametrize("number", [".nan", ".NaN", ".inf", "-.INF", "+.inf", "1e999"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    message = f"d.yaml:2: '{number}' is not a finite number; write a finite number"
    assert refusal(parse_yaml, f"a: 1\nb: {number}".encode(), "d.yaml") == message


@pytest.mark.parametrize(
    "number",
    ["18446744073709551616", "-9223372036854775809", "0x10000000000000000", "0o2" + "0" * 21],
)
def test_an_integer_of_more_than_64_bits_is_refused(number: str) -> None:
    message = f"d.yaml:2: '{number}' does not fit in 64 bits; {RANGE}"
    assert refusal(parse_yaml, f"a: 1\nb: {number}".encode(), "d.yaml") == message


@pytest.mark.parametrize("lead", ["", "0x", "0o"])
def test_an_integer_of_thousands_of_digits_is_refused_by_its_length(lead: str) -> None:
    message = refusal(parse_yaml, f"a: {lead}{'7' * 5000}".encode(), "d.yaml")
    assert (
        message == f"d.yaml:1: '{lead}{'7' * (60 - len(lead))}...' does not fit in 64 bits; {RANGE}"
    )


def test_an_alias_is_what_its_latest_anchor_stands_for() -> None:
    content = b"a: &x 1\nb: *x\nc: &x [2]\nd: *x\ne: {k: &y v, l: *y}"
    assert parse_yaml(content, "d.yaml").data == {
        "a": 1,
        "b": 1,
        "c": [2],
        "d": [2],
        "e": {"k": "v", "l": "v"},
    }
