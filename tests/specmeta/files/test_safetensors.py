"""Headers of safetensors: what they say is checked against the file, and no value is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from specmeta._files import Tensor, _safetensors_header, tensor_shapes

from .samples import refusal, safetensors, tensor

AGAIN = "fetch the file again, it may be cut off"
SAVE = "save it again with safetensors"
UNKNOWN = "which safetensors does not define"
SHAPE = "has no shape of at most 64 sizes, each 0 or more"
OFFSETS = "has no data_offsets of a begin and an end behind it"
PART = "which are not whole bytes"
OVERLAPS = "overlaps the tensor before it"
GAP = "leaves a gap before it"


def sizes(held: int, shape: str, taken: str) -> str:
    return f"has {held} bytes of data, but its shape, {shape}, takes {taken}"


def single(directory: Path, header: object, values: int = 0) -> Path:
    file = directory / "model.safetensors"
    file.write_bytes(safetensors(header, values))
    return file


def test_the_header_of_a_saved_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    tensors: dict[str, np.ndarray[Any, Any]] = {
        "norm.weight": np.zeros(3, np.float32),
        "d2t": np.zeros((4,), np.int64),
        "scalar": np.zeros((), np.float16),
        "empty": np.zeros((0, 5), np.uint8),
    }
    save_file(tensors, file, metadata={"format": "np"})
    assert tensor_shapes(tmp_path) == {
        "norm.weight": Tensor((3,), "F32", str(file)),
        "d2t": Tensor((4,), "I64", str(file)),
        "scalar": Tensor((), "F16", str(file)),
        "empty": Tensor((0, 5), "U8", str(file)),
    }


def test_every_type_has_the_size_that_the_library_gives_it(tmp_path: Path) -> None:
    for dtype, bits in _safetensors_header._BITS.items():
        for length, accepted in ((bits, True), (bits + 1, False)):
            header = {"a": tensor(0, length, (8,), dtype)}
            file = single(tmp_path, header, length)
            assert opens(file) == accepted, (dtype, length)
            if accepted:
                assert tensor_shapes(tmp_path)["a"].dtype == dtype
            else:
                expected = f"but its shape, 8 of {dtype}, takes {bits} bytes; {SAVE}"
                assert refusal(tensor_shapes, tmp_path).endswith(expected)


def opens(file: Path) -> bool:
    try:
        with safe_open(file, framework="np"):
            return True
    except SafetensorError:
        return False


def test_a_large_file_is_read_without_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = single(tmp_path, {"a": tensor(0, 2**40, (2**20, 2**19))})
    header = file.stat().st_size
    os.truncate(file, header + 2**40)
    taken: list[int] = []
    real = Path.open

    def counted(path: Path, mode: str) -> Any:
        stream = real(path, mode, buffering=0)
        taken.append(0)

        class Counted:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *error: object) -> None:
                stream.close()

            def fileno(self) -> int:
                return stream.fileno()

            def read(self, count: int) -> Any:
                content = stream.read(count)
                taken[-1] += len(content)
                return content

        return Counted()

    monkeypatch.setattr(Path, "open", counted)
    assert tensor_shapes(tmp_path)["a"].shape == (2**20, 2**19)
    assert taken == [header]


@pytest.mark.parametrize(
    ("header", "fact"),
    [
        ({"a": 1}, f"has no text as its dtype, {UNKNOWN}"),
        ({"a": tensor(0, 8, dtype="BF17")}, f"has 'BF17' as its dtype, {UNKNOWN}"),
        ({"a": tensor(0, 8, (-2, -2))}, SHAPE),
        ({"a": {**tensor(0, 8), "shape": [True, 4]}}, SHAPE),
        ({"a": tensor(0, 2, (1,) * 65)}, SHAPE),
        ({"a": {**tensor(0, 8), "shape": None}}, SHAPE),
        ({"a": tensor(8, 0)}, OFFSETS),
        ({"a": {**tensor(0, 8), "data_offsets": [0, 4, 8]}}, OFFSETS),
        ({"a": tensor(0, 6)}, sizes(6, "2x2 of BF16", "8 bytes")),
        ({"a": tensor(0, 3, (), "F32")}, sizes(3, "scalar of F32", "4 bytes")),
        (
            {"a": tensor(0, 8, (2**63, 2**63))},
            sizes(8, f"{2**63}x{2**63} of BF16", f"{2**127} bytes"),
        ),
        (
            {"a": tensor(0, 1, (3,), "F4")},
            sizes(1, "3 of F4", f"12 bits, {PART}"),
        ),
        ({"b": tensor(0, 8), "a": tensor(4, 12)}, f"begins at byte 4, expected 8: it {OVERLAPS}"),
        ({"b": tensor(0, 8), "a": tensor(9, 17)}, f"begins at byte 9, expected 8: it {GAP}"),
        ({"a": tensor(1, 9)}, f"begins at byte 1, expected 0: it {GAP}"),
    ],
)
def test_a_tensor_that_its_header_describes_wrongly_is_named(
    tmp_path: Path, header: object, fact: str
) -> None:
    file = single(tmp_path, header, 17)
    assert refusal(tensor_shapes, tmp_path) == f"{file}: 'a' {fact}; {SAVE}"
    assert not opens(file)


def test_values_end_where_the_file_ends(tmp_path: Path) -> None:
    for held in (7, 9):
        file = single(tmp_path, {"a": tensor(0, 8)}, held)
        fact = f"holds {held} bytes of values, but its header describes 8"
        assert refusal(tensor_shapes, tmp_path) == f"{file}: {fact}; {AGAIN}"
        assert not opens(file)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", f"is not a safetensors file, or only 0 bytes of one; {AGAIN}"),
        (b"\0" * 7, f"is not a safetensors file, or only 7 bytes of one; {AGAIN}"),
        (b"\3" + b"\0" * 7 + b"{}", f"is not a safetensors file, or only 10 bytes of one; {AGAIN}"),
        (b"PK\3\4" * 20, f"is not a safetensors file, or only 80 bytes of one; {AGAIN}"),
        (safetensors(b"[]"), f"has a header that is not a JSON object; {SAVE}"),
        (safetensors(b" {}"), f"has a header that is not a JSON object; {SAVE}"),
        (safetensors(b""), f"has a header that is not a JSON object; {SAVE}"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes, fact: str) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    assert refusal(tensor_shapes, tmp_path) == f"{file}: {fact}"


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"{", ":1: is not valid JSON (Expecting property name enclosed in double quotes at"),
        (b'{"a": {}, "a": {}}', ":1: 'a' is given twice, on line 1 and here;"),
        (b"{" + b"\0" * 40, ":1: is not UTF-8 text (byte 0x00 at offset 1);"),
        (b'{"a":' + b"[" * 100, ":1: is nested more than 64 levels deep;"),
    ],
)
def test_a_header_is_read_as_strictly_as_any_json(
    tmp_path: Path, header: bytes, problem: str
) -> None:
    file = single(tmp_path, header)
    assert refusal(tensor_shapes, tmp_path).startswith(f"{file} (header){problem}")


def test_the_size_of_a_header_is_bounded_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes((2**30).to_bytes(8, "little"))
    os.truncate(file, 2**31)
    message = f"{file}: has a header of 1024 MiB, more than the limit of 32 MiB; {SAVE}"
    assert refusal(tensor_shapes, tmp_path) == message


def test_the_number_of_tensors_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_safetensors_header, "MAX_TENSORS", 1)
    file = single(tmp_path, {"a": tensor(0, 8), "b": tensor(8, 16)}, 16)
    assert refusal(tensor_shapes, tmp_path) == (
        f"{file}: holds more than 1 tensors; pass the checkpoint that is meant"
    )
