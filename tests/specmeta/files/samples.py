"""Files made byte by byte, so that a test can also make wrong ones."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from specmeta._findings import InputError


def refusal(function: Callable[..., object], *args: object, **options: object) -> str:
    """The message with which a reader refuses its input."""
    with pytest.raises(InputError) as caught:
        function(*args, **options)
    assert caught.value.findings == ()
    message = str(caught.value)
    assert message.isprintable()
    return message


def tensor(
    begin: int, end: int, shape: Sequence[int] = (2, 2), dtype: str = "BF16"
) -> dict[str, object]:
    """The entry of a tensor in a safetensors header."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def safetensors(header: object, values: int = 0) -> bytes:
    """A safetensors file with this header and so many bytes of values."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(values)


def checkpoint(directory: Path, shards: Mapping[str, object], weight_map: object) -> Path:
    """A directory with shards of one 2 x 2 BF16 tensor each, and an index."""
    for name, tensor_name in shards.items():
        content = safetensors({str(tensor_name): tensor(0, 8)}, 8)
        (directory / name).write_bytes(content)
    index = json.dumps({"weight_map": weight_map}, indent=1)
    (directory / "model.safetensors.index.json").write_text(index)
    return directory


U32, FLOAT32, BOOL, STRING, ARRAY, U64 = 4, 6, 7, 8, 9, 10


def text(value: str | bytes) -> bytes:
    """A string of GGUF."""
    content = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(content)) + content


def entry(key: str, kind: int, value: bytes) -> bytes:
    """A key of GGUF metadata with its value."""
    return text(key) + struct.pack("<I", kind) + value


def array(kind: int, length: int, values: bytes) -> bytes:
    """An array of GGUF, behind its type."""
    return struct.pack("<IQ", kind, length) + values


def sizes(name: str, *dims: int) -> bytes:
    """A tensor of GGUF: F16, at offset 0."""
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 1, 0)


def gguf(
    entries: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    *,
    version: int = 3,
    keys: int | None = None,
    tensor_count: int | None = None,
) -> bytes:
    """A GGUF file without values; the counts are those of what is in it, where not given."""
    counts = (
        len(tensors) if tensor_count is None else tensor_count,
        len(entries) if keys is None else keys,
    )
    return b"".join((b"GGUF", struct.pack("<IQQ", version, *counts), *entries, *tensors))
