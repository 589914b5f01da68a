"""Plain scalars by the core schema of YAML 1.2: no yes and no on, no octal 017, no 1:30."""

import re

from .._text import shown
from ._limits import MAX_INT, MIN_INT, NumberError, decimal, integer, not_finite

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_BASED = 66  # characters of 64 bits: in octal 22 digits, in hexadecimal 16, behind zeros


def plain_scalar(text: str) -> str | int | float | bool | None:
    """The value of a scalar without quotes.

    Raises:
        NumberError: a number that is not finite or has more than 64 bits.

    """
    if text in _NULL:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INT.fullmatch(text):
        return integer(text)
    if _BASED.fullmatch(text):
        return _based(text)
    if _FLOAT.fullmatch(text):
        return decimal(text)
    if _NOT_FINITE.fullmatch(text):
        raise not_finite(text)
    return text


def _based(text: str) -> int:
    value = int(text, 0) if len(text) <= _LONGEST_BASED else MAX_INT + 1
    if value > MAX_INT:
        raise NumberError(
            text,
            f"{shown(text)} does not fit in 64 bits",
            f"write an integer from {MIN_INT} to {MAX_INT}",
        )
    return value
