"""JSON: what is read, what is refused and with which message, and where each key is."""

from __future__ import annotations

import json

import pytest

from specmeta._files import Document, parse_json
from specmeta._files._limits import MAX_DOCUMENT_BYTES, MAX_INT, MIN_INT

from .samples import refusal

RANGE = "write an integer from -9223372036854775808 to 18446744073709551615"
FETCH = "correct it there, or fetch the file again if it is cut off"

TEXT = b"""{
  "block_size": 7,
  "dflash_config": {
    "mask_token_id":
      151669,
    "target_layer_ids": [1, 9,
      17],
    "empty": {}, "list": []
  },
  "text": "a \\"b\\": {\\n [, ]} \\\\", "last": null
}
"""


@pytest.fixture(name="document")
def _document() -> Document:
    return parse_json(TEXT, "config.json")


def test_a_document_is_plain_data_under_its_name(document: Document) -> None:
    assert document.data == json.loads(TEXT)
    assert document.name == "config.json"
    assert repr(document) == "Document('config.json')"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("block_size",), 2),
        (("dflash_config",), 3),
        (("dflash_config", "mask_token_id"), 4),
        (("dflash_config", "target_layer_ids"), 6),
        (("dflash_config", "target_layer_ids", 1), 6),
        (("dflash_config", "target_layer_ids", 2), 7),
        (("dflash_config", "empty"), 8),
        (("dflash_config", "list"), 8),
        (("text",), 10),
        (("last",), 10),
    ],
)
def test_a_key_has_the_line_that_it_stands_on(
    document: Document, path: tuple[str | int, ...], line: int
) -> None:
    assert document.line_of(path) == line


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("absent",), 1),
        (("dflash_config", "absent", "deeper"), 3),
        (("dflash_config", "target_layer_ids", 3), 6),
        (("dflash_config", "target_layer_ids", -1), 6),
        (("block_size", "inside a number"), 2),
    ],
)
def test_an_absent_path_has_the_line_of_what_is_around_it(
    document: Document, path: tuple[str | int, ...], line: int
) -> None:
    assert document.line_of(path) == line


def test_lines_count_from_the_first_line_that_is_given() -> None:
    document = parse_json(b'[{"a":\n1}]', "steps.jsonl", first_line=12)
    assert document.line_of((0, "a")) == 12
    assert "steps.jsonl:13:" in refusal(parse_json, b'{"a":\nx}', "steps.jsonl", first_line=12)


def test_a_byte_order_mark_and_carriage_returns_change_nothing() -> None:
    document = parse_json(b'\xef\xbb\xbf{\r\n"a": 1,\r\n"b": 2}\r\n', "c.json")
    assert document.data == {"a": 1, "b": 2}
    assert document.line_of(("b",)) == 3


def test_the_bounds_of_an_integer_are_those_of_64_bits() -> None:
    assert parse_json(b"[18446744073709551615, -9223372036854775808]", "c.json").data == [
        MAX_INT,
        MIN_INT,
    ]
    assert parse_json(b"-0", "c.json").data == 0


@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809"])
def test_an_integer_of_more_than_64_bits_is_refused_with_its_line(number: str) -> None:
    content = f'{{"a": "{number}",\n"b": {number}}}'.encode()
    message = f"c.json:2: '{number}' does not fit in 64 bits; {RANGE}"
    assert refusal(parse_json, content, "c.json") == message


def test_an_integer_of_thousands_of_digits_is_refused_by_its_length() -> None:
    message = f"c.json:1: '{'9' * 60}...' does not fit in 64 bits; {RANGE}"
    assert refusal(parse_json, b'{"a": ' + b"9" * 5000 + b"}", "c.json") == message


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1E+400"])
def test_a_number_that_is_not_finite_is_refused_with_its_line(number: str) -> None:
    content = f'{{"a": 1,\n"b": {number}}}'.encode()
    message = f"c.json:2: '{number}' is not a finite number; write a finite number"
    assert refusal(parse_json, content, "c.json") == message


def test_a_key_that_is_given_twice_is_refused_with_both_lines() -> None:
    content = b'{"x": {"key": 1},\n"y": {"key": 2,\n"other": [{"key": 3}],\n"k\\u0065y": 4}}'
    assert refusal(parse_json, content, "c.json") == (
        "c.json:4: 'key' is given twice, on line 2 and here; keep the one that is right"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "c.json: is empty; pass a file with content"),
        (b" \r\n\t", "c.json: is empty; pass a file with content"),
        (b"\xef\xbb\xbf", "c.json: is empty; pass a file with content"),
        (
            b'{"a": 1}\n{"b": 2}',
            "c.json:2: goes on behind its end, at column 1; keep one JSON value",
        ),
        (b'{"a":', f"c.json:1: is not valid JSON (Expecting value at column 6); {FETCH}"),
        (
            b'{"a": 1\n "b"',
            f"c.json:2: is not valid JSON (Expecting ',' delimiter at column 2); {FETCH}",
        ),
        (b"[\nyes]", f"c.json:2: is not valid JSON (Expecting value at column 1); {FETCH}"),
        (
            b'{"a": "b\x01"}',
            f"c.json:1: is not valid JSON (Invalid control character at column 9); {FETCH}",
        ),
    ],
)
def test_what_is_not_json_is_refused_with_its_line(content: bytes, message: str) -> None:
    assert refusal(parse_json, content, "c.json") == message


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('{"a": 1}'.encode("utf-16"), "c.json:1: is not UTF-8 text (byte 0xff at offset 0)"),
        ('{"a": 1}'.encode("utf-16-be"), "c.json:1: is not UTF-8 text (byte 0x00 at offset 0)"),
        ('{"a": 1}'.encode("utf-32-le"), "c.json:1: is not UTF-8 text (byte 0x00 at offset 1)"),
        (b'{\n"a": "\xe9"}', "c.json:2: is not UTF-8 text (byte 0xe9 at offset 8)"),
        (b'\xef\xbb\xbf{"a": "\xff"}', "c.json:1: is not UTF-8 text (byte 0xff at offset 10)"),
    ],
)
def test_other_encodings_are_refused_with_the_offset_of_a_byte(content: bytes, place: str) -> None:
    assert refusal(parse_json, content, "c.json") == f"{place}; save the file as UTF-8"


def test_half_of_a_surrogate_pair_is_refused_and_a_whole_pair_is_read() -> None:
    assert parse_json(b'["\\ud83d\\ude00", "\\\\ud83d"]', "c.json").data == [
        "\U0001f600",
        "\\ud83d",
    ]
    assert refusal(parse_json, b'{"a": 1,\n"\\ud83d": 2}', "c.json") == (
        "c.json:2: '\\\\ud83d' holds half of a surrogate pair; write the whole character"
    )


def test_depth_is_bounded_before_the_text_is_parsed() -> None:
    deepest = b"[" * 64 + b"]" * 64
    assert parse_json(deepest, "c.json").line_of((0,) * 63) == 1
    message = "is nested more than 64 levels deep; flatten it"
    assert refusal(parse_json, b"[" + deepest + b"]", "c.json") == f"c.json:1: {message}"
    assert refusal(parse_json, b'{"a":\n' * 1_000_000, "c.json") == f"c.json:65: {message}"


def test_brackets_and_commas_inside_strings_are_no_structure() -> None:
    data = {"a": "[" * 100 + "," * 1_000_001, "b": ['"]'] * 100}
    assert parse_json(json.dumps(data).encode(), "c.json").data == data


def test_the_number_of_values_is_bounded() -> None:
    assert refusal(parse_json, b"[" + b"0,\n" * 1_000_000 + b"0]", "c.json") == (
        "c.json:499999: holds more than 500000 values; pass the file that is meant"
    )


def test_the_size_of_a_text_is_bounded() -> None:
    content = b'"' + b" " * MAX_DOCUMENT_BYTES + b'"'
    assert refusal(parse_json, content, "c.json") == (
        "c.json: holds 16.0 MiB of JSON, more than the limit of 16 MiB; pass the file that is meant"
    )


def test_an_unprintable_key_is_escaped_in_messages() -> None:
    key = "\\u001b[31m\\u202e"
    content = f'{{"{key}": 1, "{key}": 2}}'.encode()
    assert refusal(parse_json, content, "c.json").startswith(
        "c.json:1: '\\x1b[31m\\u202e' is given"
    )
