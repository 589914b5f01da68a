"""The header of one safetensors file: names, types and shapes, never a value.

The layout is that of huggingface/safetensors: eight bytes with the length of the header, the header
as JSON, then the values of all tensors, one behind the other and without gaps.
"""

import os
from math import prod
from pathlib import Path
from typing import NamedTuple

from typing_extensions import TypeIs

from .._findings import InputError
from .._text import shown
from ._json import parse
from ._limits import MAX_TENSORS, MIB, input_error, size
from ._paths import shown_path
from ._reading import open_file, unreadable

MAX_HEADER_BYTES = 32 * MIB
MAX_HEADER_VALUES = 1_000_000  # about 8 of each tensor
_PREFIX = 8
_MAX_DIMS = 64
_METADATA = "__metadata__"
_AGAIN = "fetch the file again, it may be cut off"
_SAVE_AGAIN = "save it again with safetensors"

_BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2": 8,
    "F8_E5M2FNUZ": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
    "C64": 64,
}


class Tensor(NamedTuple):
    """What a header says of a tensor."""

    shape: tuple[int, ...]
    dtype: str
    """As safetensors spells it: ``BF16``."""
    file: str
    """The file that it is in, as messages name it."""


class _Span(NamedTuple):
    """The bytes of a tensor, behind the header."""

    begin: int
    end: int
    name: str


def read_header(path: Path, directory: Path) -> dict[str, Tensor]:
    """The tensors of a file in a checkpoint directory.

    Raises:
        InputError: it cannot be read, or its header does not fit the file.

    """
    name = shown_path(path)
    with open_file(path, root=directory) as file:
        try:
            length = os.fstat(file.fileno()).st_size
            prefix = file.read(_PREFIX)
            header_bytes = int.from_bytes(prefix, "little")
            if len(prefix) < _PREFIX or header_bytes > length - _PREFIX:
                fact = f"is not a safetensors file, or only {size(length)} of one"
                raise input_error(name, None, fact, _AGAIN)
            if header_bytes > MAX_HEADER_BYTES:
                limit = size(MAX_HEADER_BYTES)
                fact = f"has a header of {size(header_bytes)}, more than the limit of {limit}"
                raise input_error(name, None, fact, _SAVE_AGAIN)
            content = file.read(header_bytes)
        except OSError as problem:
            raise unreadable(name, problem) from None
    header: object = None
    if content.startswith(b"{"):  # no other byte may come first, not even a blank
        header = parse(content, f"{name} (header)", MAX_HEADER_BYTES, MAX_HEADER_VALUES).data
    if not isinstance(header, dict):
        raise input_error(name, None, "has a header that is not a JSON object", _SAVE_AGAIN)
    header.pop(_METADATA, None)
    if len(header) > MAX_TENSORS:
        fact = f"holds more than {MAX_TENSORS} tensors"
        raise input_error(name, None, fact, "pass the checkpoint that is meant")
    return _tensors(header, name, length - _PREFIX - header_bytes)


def _tensors(header: dict[str, object], file: str, length: int) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    spans: list[_Span] = []
    for name, entry in header.items():
        tensor, span = _tensor(name, entry, file)
        found[name] = tensor
        spans.append(span)
    _check_spans(sorted(spans), file, length)
    return found


def _tensor(name: str, entry: object, file: str) -> tuple[Tensor, _Span]:
    facts = entry if isinstance(entry, dict) else {}
    dtype, shape = facts.get("dtype"), facts.get("shape")
    offsets = facts.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _BITS:
        given = shown(dtype) if isinstance(dtype, str) else "no text"
        raise _error(file, name, f"has {given} as its dtype, which safetensors does not define")
    if not _are_sizes(shape) or len(shape) > _MAX_DIMS:
        raise _error(file, name, f"has no shape of at most {_MAX_DIMS} sizes, each 0 or more")
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _error(file, name, "has no data_offsets of a begin and an end behind it")
    begin, end = offsets
    bits = _BITS[dtype] * prod(shape)
    if bits != 8 * (end - begin):
        text = f"{'x'.join(map(str, shape)) or 'scalar'} of {dtype}"
        fact = f"has {end - begin} bytes of data, but its shape, {text}, takes "
        whole, part = divmod(bits, 8)
        fact += f"{whole} bytes" if not part else f"{bits} bits, which are not whole bytes"
        raise _error(file, name, fact)
    return Tensor(tuple(shape), dtype, file), _Span(begin, end, name)


def _are_sizes(value: object) -> TypeIs[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_spans(spans: list[_Span], file: str, length: int) -> None:
    """Values lie one behind the other, from the header to the end of the file."""
    at = 0
    for span in spans:
        if span.begin != at:
            what = "overlaps the tensor before it" if span.begin < at else "leaves a gap before it"
            raise _error(file, span.name, f"begins at byte {span.begin}, expected {at}: it {what}")
        at = span.end
    if at != length:
        fact = f"holds {length} bytes of values, but its header describes {at}"
        raise input_error(file, None, fact, _AGAIN)


def _error(file: str, tensor: str, fact: str) -> InputError:
    return input_error(file, None, f"{shown(tensor)} {fact}", _SAVE_AGAIN)
