"""Untrusted files as documents: bounded, strict, and with the line of every key.

Whatever a file holds, a reader gives what it means or raises `InputError` with one message.
"""

from pathlib import Path

from ._document import Document, Place
from ._gguf import gguf_document
from ._json import parse_json
from ._limits import decode
from ._lines import read_json_lines
from ._paths import is_directory, is_inside, is_there, shown_path
from ._reading import check_inside, open_file, read_bytes, read_stream
from ._safetensors import Weights, tensor_shapes, weights_in
from ._safetensors_header import Tensor
from ._yaml import parse_yaml

__all__ = [
    "Document",
    "Place",
    "Tensor",
    "Weights",
    "check_inside",
    "decode",
    "gguf_document",
    "is_directory",
    "is_inside",
    "is_there",
    "open_file",
    "parse_document",
    "parse_json",
    "parse_yaml",
    "read_bytes",
    "read_document",
    "read_json_lines",
    "read_stream",
    "shown_path",
    "tensor_shapes",
    "weights_in",
]


def read_document(path: Path, *, root: Path | None = None) -> Document:
    """The document of a JSON or YAML file, which lies inside `root` where that is given.

    Raises:
        InputError: it cannot be read, is not valid, or is beyond a limit.

    """
    content = read_bytes(path, root=root)
    return parse_document(content, shown_path(path), suffix=path.suffix)


def parse_document(content: bytes, name: str, *, suffix: str = "") -> Document:
    """The document of a text, by the suffix of its file or, without a known one, its beginning.

    Raises:
        InputError: not valid JSON or YAML, or beyond a limit.

    """
    kind = suffix.lower()
    if kind in {".yaml", ".yml"}:
        return parse_yaml(content, name)
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if kind == ".json" or start in {b"{", b"["}:
        return parse_json(content, name)
    return parse_yaml(content, name)
