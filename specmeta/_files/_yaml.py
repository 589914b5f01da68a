"""YAML text to a document: what the parser is given, and what becomes of its errors."""

import re
from collections.abc import Iterator
from importlib import import_module

from .._findings import InputError
from ._document import Document
from ._limits import MAX_DOCUMENT_BYTES, decode, input_error, size
from ._yaml_builder import Builder, Event

# Compiled when the first YAML file is read. U+0085, U+2028 and U+2029 end a line for the parser,
# as in YAML 1.1, and for nobody else.
_REFUSED = "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


def parse_yaml(content: bytes, name: str) -> Document:
    """The document of a YAML text.

    Raises:
        InputError: not valid YAML, beyond a limit, or more than plain data.

    """
    if len(content) > MAX_DOCUMENT_BYTES:
        limit = size(MAX_DOCUMENT_BYTES)
        fact = f"holds {size(len(content))} of YAML, more than the limit of {limit}"
        raise input_error(name, None, fact, "pass the file that is meant")
    text = decode(content, name)
    refused = re.search(_REFUSED, text)
    if refused is not None:
        line = text.count("\n", 0, refused.start()) + 1
        fact = f"holds the control character U+{ord(refused[0]):04X}"
        raise input_error(name, line, fact, 'write it as an escape in "double quotes"')
    builder = Builder(name)
    for event in _events(text, name):
        builder.add(event)
    return builder.document()


def _events(text: str, name: str) -> Iterator[Event]:
    """The events of PyYAML's parser; no constructor of it is ever called."""
    yaml = import_module("yaml")  # only for YAML files: importing it takes longer than a check
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    line = 1
    try:
        for event in yaml.parse(text, Loader=loader):
            line = event.start_mark.line + 1
            yield event
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # The end of the file counts as a line of its own where a bracket is left open.
        last = text.rstrip().count("\n") + 1
        at = line if mark is None else min(mark.line + 1, last)
        raise _invalid(name, at, " ".join(filter(None, (error.context, error.problem)))) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # An escape beyond the last character is no YAMLError in every version.
        raise _invalid(name, line, str(error).partition("\n")[0]) from None


def _invalid(name: str, line: int, reason: str) -> InputError:
    return input_error(name, line, f"is not valid YAML ({reason})", "correct it there")
