"""Inputs for the readers: documents, texts near to them, and how long properties are tried."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Literal, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from specmeta._files._limits import MAX_INT, MIN_INT

from .samples import ARRAY, BOOL, STRING, U32, array, entry, gguf, safetensors, sizes, tensor, text

SECONDS = float(os.environ.get("SPECMETA_FUZZ_SECONDS", "0"))
"""How long all properties together are tried with new examples; 0 tries the same few."""

_properties: list[str] = []
_Value = TypeVar("_Value")


def fuzz(
    examples: int, values: st.SearchStrategy[_Value]
) -> Callable[[Callable[[_Value, Path], None]], Callable[[Path], None]]:
    """Make a test of a property: so many examples, the same in each run unless SECONDS is set."""

    def make(holds: Callable[[_Value, Path], None]) -> Callable[[Path], None]:
        _properties.append(holds.__name__)

        def test(tmp_path: Path) -> None:
            @settings(max_examples=examples, derandomize=not SECONDS, database=None)
            @given(values)
            def property_(value: _Value) -> None:
                holds(value, tmp_path)

            end = time.monotonic() + SECONDS / len(_properties)
            property_()
            while time.monotonic() < end:
                property_()

        return test

    return make


def _data(excluded: Sequence[Literal["Cs", "Cc", "Cn", "Zl", "Zp"]]) -> st.SearchStrategy[object]:
    """Plain data with texts that have no characters of these categories."""
    texts = st.text(st.characters(exclude_categories=excluded), max_size=12)
    numbers = st.integers(MIN_INT, MAX_INT) | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        st.none() | st.booleans() | numbers | texts,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
        max_leaves=25,
    )


DATA = _data(["Cs"])
YAML_DATA = _data(["Cs", "Cc", "Cn", "Zl", "Zp"])
"""Without what YAML folds or refuses outside of escapes."""

SHAPES = st.recursive(
    st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple),
    max_leaves=20,
)
"""Shapes of documents: a list stands for a list, a tuple for the values of a mapping."""

JSON_SEEDS = (
    b'{"architectures": ["X"], "dflash_config": {"mask_token_id": 151669, "ids": [1]}, "a": 1.5}',
    b'[{"step": 0, "rows": [[1, -2], []], "t": true}, null, "\\u00e9\\ud83d\\ude00\\n"]',
    b'{\r\n  "a": {"b": {"c": {"d": 1e-6}}},\r\n  "k": 18446744073709551615\r\n}\r\n',
)
YAML_SEEDS = (
    b"decoding:\n  decoding_type: DSpark\n  depths: [1, 2, 3]\nengine: {a: 0x1F, b: .5}\n",
    b"a: &x\n  - 1\n  - {k: v, \"q\": 'r'}\nb: *x\nc: |\n  two\n  lines\nd: >-\n  f\n\n  g\n",
    b"%YAML 1.2\n---\n? a\n: - b\n  - - c\n    - ~\n# end\n...\n",
    b'&a [*a, !!str x, <<, "\\x41\\u263a\\U0001F600", 0o17, 1e3, .nan, on]\n',
    *JSON_SEEDS,
)
GGUF_SEEDS = (
    gguf(
        [
            entry("general.architecture", STRING, text("dflash")),
            entry("dflash.ids", ARRAY, array(U32, 2, bytes(8))),
            entry("flag", BOOL, b"\1"),
            entry("tokens", ARRAY, array(STRING, 2, text("a") + text("b"))),
            entry("nested", ARRAY, array(ARRAY, 1, array(12, 1, bytes(8)))),
        ],
        [sizes("token_embd.weight", 8, 4), sizes("norm", 8)],
    ),
)
SAFETENSORS_SEEDS = (
    safetensors({"a": tensor(0, 8), "b": tensor(8, 12, (1,), "F32")}, 12),
    safetensors({"a": tensor(0, 0, (0, 3))}),
)
INDEX_SEEDS = (
    b'{"metadata": {"total_size": 8}, "weight_map": {"a": "one.safetensors", "b": "two"}}',
)

_PUNCTUATION = "\" ' \\ \\u \\ud8 { } [ ] , : - ? # &a *a ! !!int << | > % --- ... @ ` ~ - + . e"
_NUMBERS = "NaN -Infinity 1e999 .inf 0x 0o8 99999999999999999999 18446744073709551615 1.5 1:30"
_BLANKS = (b"\n", b"\r", b"\t", b" ", b"  ", b": ", b"- ", b"\n---\n", b"\xc2\x85", b"\xe2\x80\xa8")
_BYTES = (b"\0", b"\x1b", b"\x7f", b"\x85", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf")
_LENGTHS = (bytes(8), b"\xff" * 8, b"\x01" + bytes(7), b"\xff\xff" + bytes(6))
_TOKENS = st.sampled_from(
    [*_PUNCTUATION.encode().split(), *_NUMBERS.encode().split(), *_BLANKS, *_BYTES, *_LENGTHS]
)


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """A valid file with a few cuts, repetitions and insertions."""
    content = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 12)))
        inserted = draw(_TOKENS | st.binary(max_size=4) | st.just(content[start:end] * 2))
        content = content[:start] + inserted + content[end:]
    return content


SOUP = st.lists(_TOKENS | st.binary(max_size=2), max_size=40).map(b"".join)
"""Pieces of JSON and YAML in any order."""


def dumped(data: object, indent: int | None) -> bytes:
    """The data as JSON, in characters rather than escapes."""
    return json.dumps(data, indent=indent, ensure_ascii=False).encode()


@st.composite
def headers(draw: st.DrawFn) -> tuple[dict[str, object], int]:
    """A safetensors header and the bytes of values behind it, right or with one thing wrong."""
    header: dict[str, object] = {}
    at = 0
    wrong = draw(st.sampled_from(["nothing", "nothing", "begin", "end", "both", "shape", "dtype"]))
    order = draw(st.permutations(range(draw(st.integers(0, 4)))))
    for number in order:
        dtype, width = draw(st.sampled_from([("U8", 1), ("BF16", 2), ("F32", 4), ("I64", 8)]))
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        length = width * prod(shape)
        begin, end = at, at + length
        at = end
        if number == 0 and wrong in {"begin", "both"}:
            begin += draw(st.sampled_from([-1, 1, 8]))
        if number == 0 and wrong in {"end", "both"}:
            end += draw(st.sampled_from([-1, 1, 8]))
        if number == 0 and wrong == "shape":
            shape.append(draw(st.integers(-1, 2**64 - 1)))
        if number == 0 and wrong == "dtype":
            dtype = draw(st.sampled_from(["bf16", "F16", "I32", ""]))
        header[f"t{number}"] = tensor(begin, end, shape, dtype)
    return header, max(0, at + draw(st.sampled_from([0, 0, 0, 1, -1])))
