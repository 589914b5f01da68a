"""The header of a GGUF file as a document: its metadata, and the sizes of its tensors."""

from pathlib import Path
from struct import unpack_from

from .._text import shown
from ._document import Document
from ._gguf_values import Reader, read_value
from ._limits import MAX_TENSORS
from ._paths import shown_path
from ._reading import open_file

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_KEYS = 100_000
_MAX_DIMS = 4
_TYPE_AND_OFFSET = 4 + 8  # bytes about the values, which are not read
_SWAPPED = 0x10000  # a version that is only readable in the other byte order is at least this


def gguf_document(path: Path) -> Document:
    """The document ``{"metadata": {key: value}, "tensors": {name: [size, ...]}}`` of a GGUF file.

    Sizes are in the order of the file, the inmost dimension first. A list of more than 4096 values
    is given as ``{"length": n}``. Nothing behind the header is read.

    Raises:
        InputError: it cannot be read, is no GGUF file, or is beyond a limit.

    """
    name = shown_path(path)
    with open_file(path) as file:
        reader = Reader(file, name)
        tensors, keys = _counts(reader)
        metadata = _metadata(reader, keys)
        return Document(name, {"metadata": metadata, "tensors": _tensors(reader, tensors)})


def _counts(reader: Reader) -> tuple[int, int]:
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise reader.error("is not a GGUF file", "pass a file that begins with GGUF")
    version = reader.unsigned(4)
    if version >= _SWAPPED:
        raise reader.error("is a big-endian GGUF file", "convert it to little-endian")
    if version not in _VERSIONS:
        fact = f"has version {version} of GGUF; 2 and 3 are read"
        raise reader.error(fact, "convert the model again with a current llama.cpp")
    tensors, keys = reader.unsigned(8), reader.unsigned(8)
    reader.check_count(tensors, MAX_TENSORS, "tensors")
    reader.check_count(keys, _MAX_KEYS, "keys")
    return tensors, keys


def _metadata(reader: Reader, count: int) -> dict[str, object]:
    metadata: dict[str, object] = {}
    for _ in range(count):
        key = reader.text("a key")
        if key in metadata:
            raise reader.error(f"{shown(key)} is given twice", "write the file again")
        metadata[key] = read_value(reader, key)
    return metadata


def _tensors(reader: Reader, count: int) -> dict[str, list[int]]:
    tensors: dict[str, list[int]] = {}
    for _ in range(count):
        name = reader.text("a tensor's name")
        if name in tensors:
            raise reader.error(f"tensor {shown(name)} is given twice", "write the file again")
        dims = reader.unsigned(4)
        reader.check_count(dims, _MAX_DIMS, f"dimensions of {shown(name)}")
        described = reader.take(8 * dims + _TYPE_AND_OFFSET)
        tensors[name] = list(unpack_from(f"<{dims}Q", described))
    return tensors
