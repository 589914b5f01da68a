"""JSON Lines: one document a line, read as a stream of any length up to a limit."""

from collections.abc import Iterator
from typing import BinaryIO

from ._document import Document
from ._json import parse_json
from ._limits import (
    MAX_DOCUMENT_BYTES,
    MAX_LINES,
    MAX_STREAM_BYTES,
    breaks_in,
    input_error,
    size,
)
from ._reading import unreadable

_SPLIT = "split it into several files"


def read_json_lines(stream: BinaryIO, name: str) -> Iterator[Document]:
    """The documents of a stream, one for each line that is not empty, with the file's lines.

    Raises:
        InputError: a line is not valid JSON or too long, or the stream is; names the line.

    """
    number, total = 1, 0
    for _ in range(MAX_LINES):
        try:
            content = stream.readline(MAX_DOCUMENT_BYTES + 1)
        except OSError as problem:
            raise unreadable(name, problem) from None
        if not content:
            return
        total += len(content)
        if len(content) > MAX_DOCUMENT_BYTES:
            fact = f"the line holds more than the limit of {size(MAX_DOCUMENT_BYTES)}"
            raise input_error(name, number, fact, "write one JSON object a line")
        if total > MAX_STREAM_BYTES:
            fact = f"the input holds more than the limit of {size(MAX_STREAM_BYTES)}"
            raise input_error(name, number, fact, _SPLIT)
        if content.strip():
            yield parse_json(content.rstrip(b"\r\n"), name, first_line=number)
        number += breaks_in(content)
    fact = f"the input holds more than the limit of {MAX_LINES} lines"
    raise input_error(name, number, fact, _SPLIT)
