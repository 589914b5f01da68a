"""Lines are those of an editor: LF, CR LF and CR end one, U+0085, U+2028 and U+2029 do not."""

from __future__ import annotations

import io

import pytest

from specmeta._argument_files import parse_arguments
from specmeta._files import parse_json, parse_yaml, read_json_lines

from .samples import refusal

BREAKS = pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
OTHERS = pytest.mark.parametrize("other", ["\x85", "\u2028", "\u2029"])


@BREAKS
@OTHERS
def test_json(end: str, other: str) -> None:
    text = end.join(['{"a":', f'"x{other}y",', '"b": 1}'])
    document = parse_json(text.encode(), "c.json")
    assert document.data == {"a": f"x{other}y", "b": 1}
    assert document.line_of(("b",)) == 3
    assert refusal(parse_json, f"{text}{end}1".encode(), "c.json").startswith("c.json:4: goes on")
    assert refusal(parse_json, f"{text}{end}".encode() + b"\xff", "c.json").startswith("c.json:4: ")


@BREAKS
def test_yaml(end: str) -> None:
    text = end.join(["a:", "- 1", "b: 2"])
    assert parse_yaml(text.encode(), "c.yaml").line_of(("b",)) == 3
    assert refusal(parse_yaml, f"{text}{end}c: d: e".encode(), "c.yaml").startswith("c.yaml:4: ")


@BREAKS
@OTHERS
def test_yaml_refuses_what_its_parser_alone_takes_for_the_end_of_a_line(
    end: str, other: str
) -> None:
    text = end.join(["a: 1", f"# c{other}b: 2"])
    assert refusal(parse_yaml, text.encode(), "c.yaml") == (
        f"c.yaml:2: holds the control character U+{ord(other):04X}; "
        'write it as an escape in "double quotes"'
    )
    escaped = f'a: "\\u{ord(other):04x}"'
    assert parse_yaml(escaped.encode(), "c.yaml").data == {"a": other}


@OTHERS
def test_json_lines(other: str) -> None:
    content = f'{{"a": "{other}"}}\r\n{{"a":\r1}}\n{{"b": 2}}\n'.encode()
    documents = list(read_json_lines(io.BytesIO(content), "s.jsonl"))
    assert [document.line_of(("a",)) for document in documents] == [1, 2, 4]


@BREAKS
@OTHERS
def test_flags(end: str, other: str) -> None:
    text = end.join([f"vllm serve 'a{other}b' \\", "  --max-num-seqs 8 \\", "  --max-model-len 9"])
    document = parse_arguments(text.encode(), "serve.sh")
    assert document.line_of(("max-model-len",)) == 3
