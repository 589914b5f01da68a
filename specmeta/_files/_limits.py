"""Bounds on what an untrusted file may hold, and the numbers and text that every format shares.

A file is read before anything is known about it, so its size, depth and number of values are
bounded first. The bounds are far above any published configuration.
"""

import math

from .._findings import InputError
from .._text import shown

MIB = 2**20

MAX_DOCUMENT_BYTES = 16 * MIB
"""A JSON or YAML document, or one line of JSON Lines."""

MAX_STREAM_BYTES = 256 * MIB
"""A whole JSON Lines input."""

MAX_DEPTH = 64
"""Nested containers, aliases expanded."""

MAX_LINES = 400_000
"""Lines of a JSON Lines input."""

MAX_JSON_VALUES = 500_000
"""Values of a JSON document."""

MAX_YAML_VALUES = 100_000
"""Values of a YAML document, aliases expanded."""

MAX_TENSORS = 1_000_000
"""Tensors of a checkpoint."""

MAX_INT = 2**64 - 1
MIN_INT = -(2**63)

_SHORT_INT = 18  # characters that always fit
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NumberError(ValueError):
    """A number that no field can hold: `text` is how it is written, the message what is wrong."""

    def __init__(self, text: str, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.text = text
        self.problem = problem
        self.remedy = remedy


def integer(text: str) -> int:
    """The decimal integer of this text.

    Raises:
        NumberError: more than 64 bits. The length is bounded before the text is converted.

    """
    if len(text) <= _SHORT_INT:
        return int(text)
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) <= len(str(MAX_INT)):
        value = -int(digits) if text.startswith("-") else int(digits)
        if MIN_INT <= value <= MAX_INT:
            return value
    raise NumberError(
        text,
        f"{shown(text)} does not fit in 64 bits",
        f"write an integer from {MIN_INT} to {MAX_INT}",
    )


def decimal(text: str) -> float:
    """The floating-point number of this text.

    Raises:
        NumberError: it is beyond what a double can hold.

    """
    value = float(text)
    if not math.isfinite(value):
        raise not_finite(text)
    return value


def not_finite(text: str) -> NumberError:
    """The error of a NaN, an infinity, or a number that would become one."""
    return NumberError(text, f"{shown(text)} is not a finite number", "write a finite number")


def encodes(text: str) -> bool:
    """Whether the text is whole characters; half of a surrogate pair could not be printed."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def input_error(name: str, line: int | None, problem: str, remedy: str) -> InputError:
    """The error ``file[:line]: problem; remedy``."""
    place = name if line is None else f"{name}:{line}"
    return InputError(f"{place}: {problem}; {remedy}")


def size(count: int) -> str:
    """A number of bytes in words: MiB where that is exact or the number is large."""
    if count >= MIB:
        return f"{count // MIB} MiB" if count % MIB == 0 else f"{count / MIB:.1f} MiB"
    return f"{count} bytes"


def breaks_in(content: bytes) -> int:
    """Line breaks as editors count them: LF, CR and LF, CR."""
    return content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")


def decode(content: bytes, name: str, first_line: int = 1) -> str:
    """The text of a document: UTF-8, with or without a byte-order mark. Its lines end with LF.

    Raises:
        InputError: empty, or not UTF-8; names the offset of the first byte that is not.

    """
    body = content.removeprefix(_BYTE_ORDER_MARK)
    try:
        text = body.decode("utf-8")
        bad = body.find(b"\0")  # valid UTF-8, but in no text; UTF-16 and UTF-32 are full of it
    except UnicodeDecodeError as problem:
        text, bad = "", problem.start
    if bad >= 0:
        at = bad + len(content) - len(body)
        fact = f"is not UTF-8 text (byte {content[at]:#04x} at offset {at})"
        line = first_line + breaks_in(content[:at])
        raise input_error(name, line, fact, "save the file as UTF-8")
    if not text.strip():
        raise input_error(name, None, "is empty", "pass a file with content")
    return text.replace("\r\n", "\n").replace("\r", "\n")
