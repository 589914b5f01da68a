"""JSON Lines: streamed, with the line of every document and of every error."""

from __future__ import annotations

import io

import pytest

from specmeta._files import _lines, read_json_lines
from specmeta._files._limits import MAX_LINES

from .samples import refusal


def test_each_line_is_a_document_with_its_line() -> None:
    content = b'\xef\xbb\xbf{"step": 1}\n\n  \r\n{"step": 2}\r\n[3]'
    documents = list(read_json_lines(io.BytesIO(content), "steps.jsonl"))
    assert [document.data for document in documents] == [{"step": 1}, {"step": 2}, [3]]
    assert [document.line_of(("step",)) for document in documents] == [1, 4, 5]
    assert {document.name for document in documents} == {"steps.jsonl"}


def test_an_empty_stream_holds_no_documents() -> None:
    assert list(read_json_lines(io.BytesIO(b"\n\n"), "steps.jsonl")) == []


def test_documents_are_given_before_the_rest_is_read() -> None:
    stream = io.BytesIO(b'{"step": 1}\n{"step": }\n')
    documents = read_json_lines(stream, "steps.jsonl")
    assert next(documents).data == {"step": 1}
    assert stream.tell() == 12
    assert refusal(next, documents) == (
        "steps.jsonl:2: is not valid JSON (Expecting value at column 10); "
        "correct it there, or fetch the file again if it is cut off"
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"a": 1, "a": 2}', "'a' is given twice, on line 3 and here"),
        (b'{"a": NaN}', "'NaN' is not a finite number"),
        (b'{"a": "\xff"}', "is not UTF-8 text (byte 0xff at offset 7)"),
        (b"[" * 65, "is nested more than 64 levels deep"),
        (b"{} {}", "goes on behind its end, at column 4"),
    ],
)
def test_an_error_names_the_line_of_the_file(line: bytes, problem: str) -> None:
    stream = io.BytesIO(b"{}\n\n" + line + b"\n")
    message = refusal(lambda: list(read_json_lines(stream, "steps.jsonl")))
    assert message.startswith(f"steps.jsonl:3: {problem}; ")


def test_the_length_of_a_line_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lines, "MAX_DOCUMENT_BYTES", 16)
    stream = io.BytesIO(b"[1]\n" + b"[" + b" " * 1000 + b"]\n")
    assert refusal(lambda: list(read_json_lines(stream, "steps.jsonl"))) == (
        "steps.jsonl:2: the line holds more than the limit of 16 bytes; "
        "write one JSON object a line"
    )
    assert stream.tell() == 4 + 17


def test_the_whole_input_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lines, "MAX_STREAM_BYTES", 16)
    stream = io.BytesIO(b"[1, 2]\n" * 100)
    assert refusal(lambda: list(read_json_lines(stream, "steps.jsonl"))) == (
        "steps.jsonl:3: the input holds more than the limit of 16 bytes; "
        "split it into several files"
    )


def test_the_number_of_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_LINES >= 100_000  # of a recording
    monkeypatch.setattr(_lines, "MAX_LINES", 3)
    documents = read_json_lines(io.BytesIO(b"[1]\n\n[3]\n[4]\n"), "steps.jsonl")
    assert [next(documents).data, next(documents).data] == [[1], [3]]
    assert refusal(next, documents) == (
        "steps.jsonl:4: the input holds more than the limit of 3 lines; split it into several files"
    )
