"""YAML that is more than plain data, is no YAML, or is beyond a limit, and how it is refused."""

from __future__ import annotations

import pytest

from specmeta._files import parse_yaml
from specmeta._files._limits import MAX_DOCUMENT_BYTES

from .samples import refusal

pytestmark = pytest.mark.usefixtures("yaml_parser")

TWICE = "is given twice, on line 1 and here; keep the one that is right"
RECURSIVE = "stands in what it stands for; write the value out"
PLAIN = "remove it and write plain data"
KEY = "a key is a list, a mapping or an alias; write a string as the key"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": is empty; pass a file with content"),
        (b"# only a comment\n", ": is empty; pass a file with content"),
        (b"a: 1\n---\nb: 2", ":2: a second document begins here; keep one document a file"),
        (
            b"a: 1\nb: 2\na: 3",
            f":3: 'a' {TWICE}",
        ),
        (b"a: &b {}\nc:\n  <<: *b", ":3: merge keys (<<) are not read; write the merged keys out"),
        (b"1: a", ":1: the key '1' is not a string; quote it"),
        (b"a:\n  true: b", ":2: the key 'True' is not a string; quote it"),
        (b"? [a]\n: b", f":1: {KEY}"),
        (b"a: 1\n? {b: 1}\n: b", f":2: {KEY}"),
        (b"&k a: 1\n*k : 2", f":2: {KEY}"),
        (
            b"a: !!python/name:os",
            f":1: the tag '!!python/name:os' is not read; {PLAIN}",
        ),
        (b"a: !!binary eA==", f":1: the tag '!!binary' is not read; {PLAIN}"),
        (b"a: !!str 1", f":1: the tag '!!str' is not read; {PLAIN}"),
        (b"a: !!set {x}", f":1: the tag '!!set' is not read; {PLAIN}"),
        (b"!local {a: 1}", f":1: the tag '!local' is not read; {PLAIN}"),
        (b"a: *b", ":1: the alias '*b' has no anchor above it; write the value out"),
        (
            b"a: &a\n  b: [*a]",
            f":2: the alias '*a' {RECURSIVE}",
        ),
        (b"a: \xff", ":1: is not UTF-8 text (byte 0xff at offset 3); save the file as UTF-8"),
        (b"a: \x00", ":1: is not UTF-8 text (byte 0x00 at offset 3); save the file as UTF-8"),
    ],
)
def test_what_is_more_than_plain_data_is_refused(content: bytes, message: str) -> None:
    assert refusal(parse_yaml, content, "d.yaml") == f"d.yaml{message}"


def test_a_control_character_is_refused_by_name() -> None:
    assert refusal(parse_yaml, b"a: 1\nb: \x1b", "d.yaml") == (
        'd.yaml:2: holds the control character U+001B; write it as an escape in "double quotes"'
    )
    assert parse_yaml(b'"\\e"', "d.yaml").data == "\x1b"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"a: 1\nb: c: d", 2),
        (b"a: [1,\n 2", 2),
        (b"a: 'open", 1),
        (b"a:\n\t- b", 2),
        (b"a: @b", 1),
        (b"%YAML 9.9\n---\na: 1", 1),
        (b"%YAML 1." + b"1" * 5000 + b"\n---\na: 1", 1),
        (b'a: "\\x"', 1),
        (b'a: "\\ud800"', 1),
        (b'a: "\\U00110000"', 1),
        (b'a: "\\UFFFFFFFF"', 1),
        (b"- a\nb: 1", 2),
    ],
)
def test_what_is_not_yaml_is_refused_with_its_line(content: bytes, line: int) -> None:
    assert refusal(parse_yaml, content, "d.yaml").startswith(f"d.yaml:{line}: ")


def test_aliases_of_aliases_are_counted_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert refusal(parse_yaml, "\n".join(lines).encode(), "d.yaml") == (
        "d.yaml:5: holds more than 100000 values, aliases expanded; pass the file that is meant"
    )


def test_a_chain_of_aliases_is_as_deep_as_what_it_stands_for() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 100)]
    document = parse_yaml("\n".join(lines[:63]).encode(), "d.yaml")
    assert document.line_of(("a62", *(0,) * 63)) == 1
    assert refusal(parse_yaml, "\n".join(lines).encode(), "d.yaml") == (
        "d.yaml:64: is nested more than 64 levels deep; flatten it"
    )


def test_depth_is_bounded() -> None:
    assert parse_yaml(b"[" * 64 + b"]" * 64, "d.yaml").line_of((0,) * 63) == 1
    message = "d.yaml:1: is nested more than 64 levels deep; flatten it"
    assert refusal(parse_yaml, b"[" * 65 + b"]" * 65, "d.yaml") == message
    assert refusal(parse_yaml, b"- " * 100_000, "d.yaml") == message
    # libyaml has a bound of its own, which it may reach first
    for opener in (b"[", b"{", b"[{a: "):
        assert refusal(parse_yaml, opener * 1_000_000, "d.yaml").startswith("d.yaml:1: ")


def test_the_number_of_values_is_bounded() -> None:
    some = b"a: &a [" + b"0, " * 999 + b"0]\n"  # 1001 values
    fits = b"b:\n" + b"- *a\n" * 98
    assert parse_yaml(some + fits, "d.yaml").line_of(("b", 97)) == 100
    assert refusal(parse_yaml, some + fits + b"- *a\n", "d.yaml") == (
        "d.yaml:101: holds more than 100000 values, aliases expanded; pass the file that is meant"
    )


def test_the_size_of_a_text_is_bounded() -> None:
    assert refusal(parse_yaml, b"#" * (MAX_DOCUMENT_BYTES + 1), "d.yaml") == (
        "d.yaml: holds 16.0 MiB of YAML, more than the limit of 16 MiB; pass the file that is meant"
    )
