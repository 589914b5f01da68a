"""Values of a GGUF header, read from a bounded part of the file.

Types and layout are those of the format's public description (docs/gguf.md of ggml-org/ggml).
"""

import math
import struct
from typing import BinaryIO

from .._findings import InputError
from .._text import shown
from ._limits import MIB, input_error, size
from ._reading import unreadable

MAX_HEADER_BYTES = 64 * MIB
_MAX_STRING = MIB
_MAX_KEPT = 4096  # values of one array; a longer one is given by its length
_MAX_VALUES = 1_000_000  # values kept of all arrays
_MAX_ARRAYS = 8  # arrays inside arrays
_CHUNK = 4 * MIB
_CUT_OFF = "fetch the file again, it may be cut off"
_WRITE_AGAIN = "write the file again"

_BOOL, _STRING, _ARRAY = 7, 8, 9
_NUMBERS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_LENGTH = struct.Struct("<Q")


class Reader:
    """The header of a GGUF file, read in order and never beyond its limit."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._data = bytearray()
        self._at = 0
        self._kept = 0

    def error(self, fact: str, remedy: str) -> InputError:
        """The error of this file."""
        return input_error(self._name, None, fact, remedy)

    def need(self, count: int) -> None:
        """Have this many bytes ready behind the current one.

        Raises:
            InputError: the file ends before, or the header would be beyond its limit.

        """
        end = self._at + count
        if end > MAX_HEADER_BYTES:
            fact = f"has a header of more than {size(MAX_HEADER_BYTES)}"
            raise self.error(fact, "pass the model that is meant")
        while len(self._data) < end:
            try:
                chunk = self._file.read(_CHUNK)
            except OSError as problem:
                raise unreadable(self._name, problem) from None
            if not chunk:
                fact = f"ends at byte {len(self._data)}, in the middle of its header"
                raise self.error(fact, _CUT_OFF)
            self._data += chunk

    def take(self, count: int) -> bytes:
        """The next bytes.

        Raises:
            InputError: as for `need`.

        """
        self.need(count)
        start = self._at
        self._at += count
        return bytes(self._data[start : self._at])

    def unsigned(self, width: int) -> int:
        """The next unsigned integer of so many bytes.

        Raises:
            InputError: as for `need`.

        """
        return int.from_bytes(self.take(width), "little")

    def check_count(self, count: int, limit: int, what: str) -> None:
        """Refuse a count before anything is allocated for it.

        Raises:
            InputError: it is above the limit.

        """
        if count > limit:
            fact = f"says that it holds {count} {what}, more than the limit of {limit}"
            raise self.error(fact, _WRITE_AGAIN)

    def keep(self, count: int) -> None:
        """Count values that are about to be kept.

        Raises:
            InputError: they would be more than a header is read for.

        """
        self._kept += count
        self.check_count(self._kept, _MAX_VALUES, "values in arrays")

    def text(self, what: str) -> str:
        """The next string.

        Raises:
            InputError: too long, or not UTF-8.

        """
        length = self.unsigned(8)
        self.check_count(length, _MAX_STRING, f"bytes in {what}")
        content = self.take(length)
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise self.error(f"has {what} that is not UTF-8 text", _WRITE_AGAIN) from None

    def skip_texts(self, count: int, what: str) -> None:
        """Step over strings without making objects of them: a vocabulary has a million.

        Raises:
            InputError: as for `text`.

        """
        for _ in range(count):
            if self._at + _LENGTH.size > len(self._data):
                self.need(_LENGTH.size)
            (length,) = _LENGTH.unpack_from(self._data, self._at)
            if length > _MAX_STRING:
                self.check_count(length, _MAX_STRING, f"bytes in {what}")
            self._at += _LENGTH.size
            self.need(length)
            self._at += length

    def skip(self, count: int) -> None:
        """Step over bytes.

        Raises:
            InputError: as for `need`.

        """
        self.need(count)
        self._at += count


def read_value(reader: Reader, key: str) -> object:
    """The value of a key: its type, then what it holds.

    Raises:
        InputError: an unknown type, a number that is not finite, or a size beyond a limit.

    """
    return _value(reader, reader.unsigned(4), key, 0)


def _value(reader: Reader, kind: int, key: str, arrays: int) -> object:
    if kind == _STRING:
        return reader.text(f"the value of {shown(key)}")
    if kind == _ARRAY:
        if arrays == _MAX_ARRAYS:
            fact = f"{shown(key)} has arrays nested more than {_MAX_ARRAYS} levels deep"
            raise reader.error(fact, _WRITE_AGAIN)
        return _array(reader, key, arrays + 1)
    if kind == _BOOL:
        byte = reader.unsigned(1)
        if byte > 1:
            fact = f"{shown(key)} has {byte} as a bool, which is 0 or 1"
            raise reader.error(fact, _WRITE_AGAIN)
        return byte == 1
    number = _NUMBERS.get(kind)
    if number is None:
        raise reader.error(f"{shown(key)} has the unknown type {kind}", _WRITE_AGAIN)
    (value,) = number.unpack(reader.take(number.size))
    if isinstance(value, float) and not math.isfinite(value):
        raise reader.error(f"{shown(key)} has {value}, which is not a finite number", _WRITE_AGAIN)
    return value


def _array(reader: Reader, key: str, arrays: int) -> object:
    kind, length = reader.unsigned(4), reader.unsigned(8)
    reader.check_count(length, MAX_HEADER_BYTES, f"values in {shown(key)}")
    if length <= _MAX_KEPT:
        reader.keep(length)
        return [_value(reader, kind, key, arrays) for _ in range(length)]
    if kind == _STRING:
        reader.skip_texts(length, f"the value of {shown(key)}")
    elif kind == _ARRAY:
        fact = f"{shown(key)} has {length} arrays, more than the limit of {_MAX_KEPT}"
        raise reader.error(fact, _WRITE_AGAIN)
    elif kind == _BOOL or kind in _NUMBERS:
        reader.skip(length * (1 if kind == _BOOL else _NUMBERS[kind].size))
    else:
        raise reader.error(f"{shown(key)} has values of the unknown type {kind}", _WRITE_AGAIN)
    return {"length": length}
