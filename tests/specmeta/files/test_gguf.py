"""Headers of GGUF: metadata and sizes, from files made byte by byte."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from specmeta._files import Document, _gguf_values, gguf_document

from .samples import (
    ARRAY,
    BOOL,
    FLOAT32,
    STRING,
    U32,
    U64,
    array,
    entry,
    gguf,
    refusal,
    sizes,
    text,
)

WRITE = "write the file again"
LONG = f"more than the limit of 1048576; {WRITE}"
CONVERT = "convert the model again with a current llama.cpp"
CUT_OFF = "fetch the file again, it may be cut off"


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def read(file: Path, content: bytes) -> Document:
    file.write_bytes(content)
    return gguf_document(file)


def number(kind: int, code: str, value: float) -> bytes:
    return entry(f"number.{kind}", kind, struct.pack(f"<{code}", value))


@pytest.mark.parametrize("version", [2, 3])
def test_a_header_is_a_document_without_lines(file: Path, version: int) -> None:
    entries = [
        entry("general.architecture", STRING, text("qwen3")),
        entry("dflash.block_size", U32, struct.pack("<I", 7)),
        entry("dflash.layers", ARRAY, array(U32, 3, struct.pack("<3I", 1, 9, 17))),
        entry("tokenizer.add_bos", BOOL, b"\1"),
        entry("tokenizer.tokens", ARRAY, array(STRING, 2, text("a") + text("ü"))),
        entry("nested", ARRAY, array(ARRAY, 2, array(BOOL, 1, b"\0") + array(U32, 0, b""))),
    ]
    tensors = [sizes("token_embd.weight", 64, 1000), sizes("output_norm.weight", 64), sizes("s")]
    document = read(file, gguf(entries, tensors, version=version))
    assert document.name == str(file)
    assert document.line_of(("metadata", "dflash.block_size")) is None
    assert document.data == {
        "metadata": {
            "general.architecture": "qwen3",
            "dflash.block_size": 7,
            "dflash.layers": [1, 9, 17],
            "tokenizer.add_bos": True,
            "tokenizer.tokens": ["a", "ü"],
            "nested": [[False], []],
        },
        "tensors": {"token_embd.weight": [64, 1000], "output_norm.weight": [64], "s": []},
    }


def test_numbers_of_every_type_are_read(file: Path) -> None:
    written: dict[int, tuple[str, float]] = {
        0: ("B", 255),
        1: ("b", -128),
        2: ("H", 65535),
        3: ("h", -32768),
        4: ("I", 2**32 - 1),
        5: ("i", -(2**31)),
        6: ("f", 0.5),
        10: ("Q", 2**64 - 1),
        11: ("q", -(2**63)),
        12: ("d", 1e-6),
    }
    entries = [number(kind, *told) for kind, told in written.items()]
    metadata = {f"number.{kind}": value for kind, (_, value) in written.items()}
    assert read(file, gguf(entries)).data == {"metadata": metadata, "tensors": {}}


def test_a_long_array_is_given_by_its_length(file: Path) -> None:
    entries = [
        entry(
            "tokens", ARRAY, array(STRING, 5000, b"".join(text("t" * (n % 9)) for n in range(5000)))
        ),
        entry("scores", ARRAY, array(FLOAT32, 4097, b"\xff" * 4 * 4097)),
        entry("flags", ARRAY, array(BOOL, 4097, b"\1" * 4097)),
        entry("kept", ARRAY, array(0, 4096, b"\1" * 4096)),
        entry("last", U32, struct.pack("<I", 7)),
    ]
    data = read(file, gguf(entries)).data
    assert isinstance(data, dict)
    assert data["metadata"] == {
        "tokens": {"length": 5000},
        "scores": {"length": 4097},
        "flags": {"length": 4097},
        "kept": [1] * 4096,
        "last": 7,
    }


def test_a_header_may_be_longer_than_what_is_read_at_once(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_gguf_values, "_CHUNK", 3)
    entries = [entry("a", ARRAY, array(STRING, 5000, text("token") * 5000))]
    document = read(file, gguf(entries, [sizes("w", 4)]))
    assert document.data == {"metadata": {"a": {"length": 5000}}, "tensors": {"w": [4]}}


def test_values_behind_the_header_are_not_read(file: Path) -> None:
    read(file, gguf([], [sizes("w", 2**20, 2**20)]))
    os.truncate(file, 2**40)
    assert gguf_document(file).data == {"metadata": {}, "tensors": {"w": [2**20, 2**20]}}


@pytest.mark.parametrize("length", range(0, 104, 8))
def test_a_header_that_ends_early_is_refused_with_the_place(file: Path, length: int) -> None:
    whole = gguf([entry("a.key", STRING, text("a value"))], [sizes("a.weight", 4, 4)])
    assert len(whole) == 104
    message = f"{file}: ends at byte {length}, in the middle of its header; {CUT_OFF}"
    assert refusal(read, file, whole[:length]) == message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"GGML" + bytes(20), "is not a GGUF file; pass a file that begins with GGUF"),
        (
            b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
            "is a big-endian GGUF file; convert it to little-endian",
        ),
        (
            gguf(version=1),
            f"has version 1 of GGUF; 2 and 3 are read; {CONVERT}",
        ),
        (
            gguf(tensor_count=2**64 - 1),
            f"says that it holds {2**64 - 1} tensors, more than the limit of 1000000; {WRITE}",
        ),
        (
            gguf(keys=2**63),
            f"says that it holds {2**63} keys, more than the limit of 100000; {WRITE}",
        ),
        (
            gguf([struct.pack("<Q", 2**40)], keys=1),
            f"says that it holds {2**40} bytes in a key, {LONG}",
        ),
        (
            gguf([entry("a", STRING, struct.pack("<Q", 2**20 + 1))]),
            f"says that it holds 1048577 bytes in the value of 'a', {LONG}",
        ),
        (
            gguf([entry("a", ARRAY, array(0, 2**50, b""))]),
            f"says that it holds {2**50} values in 'a', more than the limit of 67108864; {WRITE}",
        ),
        (
            gguf([entry("a", ARRAY, array(STRING, 5000, struct.pack("<Q", 2**30)))]),
            f"says that it holds {2**30} bytes in the value of 'a', {LONG}",
        ),
        (
            gguf([entry("a", ARRAY, array(U64, 2**24, b""))]),
            "has a header of more than 64 MiB; pass the model that is meant",
        ),
        (
            gguf([entry("a", ARRAY, array(ARRAY, 5000, b""))]),
            f"'a' has 5000 arrays, more than the limit of 4096; {WRITE}",
        ),
        (
            gguf([entry("a", ARRAY, array(ARRAY, 1, b"") * 8)]),
            f"'a' has arrays nested more than 8 levels deep; {WRITE}",
        ),
        (gguf([entry("a", 13, b"")]), f"'a' has the unknown type 13; {WRITE}"),
        (gguf([entry("a", ARRAY, array(13, 1, b""))]), f"'a' has the unknown type 13; {WRITE}"),
        (
            gguf([entry("a", ARRAY, array(99, 5000, b""))]),
            f"'a' has values of the unknown type 99; {WRITE}",
        ),
        (gguf([entry("a", BOOL, b"\2")]), f"'a' has 2 as a bool, which is 0 or 1; {WRITE}"),
        (
            gguf([entry("a", FLOAT32, struct.pack("<f", float("nan")))]),
            f"'a' has nan, which is not a finite number; {WRITE}",
        ),
        (
            gguf([entry("a", 12, struct.pack("<d", float("-inf")))]),
            f"'a' has -inf, which is not a finite number; {WRITE}",
        ),
        (
            gguf([entry("a", STRING, text(b"\xff"))]),
            f"has the value of 'a' that is not UTF-8 text; {WRITE}",
        ),
        (gguf([text(b"\xff")], keys=1), f"has a key that is not UTF-8 text; {WRITE}"),
        (gguf([entry("a", BOOL, b"\1")] * 2), f"'a' is given twice; {WRITE}"),
        (gguf([], [sizes("w", 4)] * 2), f"tensor 'w' is given twice; {WRITE}"),
        (
            gguf([], [sizes("w", 1, 1, 1, 1, 1)]),
            f"says that it holds 5 dimensions of 'w', more than the limit of 4; {WRITE}",
        ),
    ],
)
def test_what_is_absurd_is_refused_before_it_is_allocated(
    file: Path, content: bytes, problem: str
) -> None:
    assert refusal(read, file, content) == f"{file}: {problem}"


def test_the_values_of_all_arrays_are_bounded_together(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_gguf_values, "_MAX_VALUES", 5)
    entries = [entry("a", ARRAY, array(0, 3, b"123")), entry("b", ARRAY, array(0, 3, b"123"))]
    assert refusal(read, file, gguf(entries)) == (
        f"{file}: says that it holds 6 values in arrays, more than the limit of 5; {WRITE}"
    )


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    assert refusal(gguf_document, tmp_path) == (
        f"{tmp_path}: is a directory, not a regular file; pass the path of the file itself"
    )
