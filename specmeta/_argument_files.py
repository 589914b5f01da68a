"""Engine arguments as parts of a deployment: a file, a command line, an object in another file."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ._arguments import Arguments, parse_command, read_arguments
from ._files import Document, read_document
from ._files._limits import decode, shown_path
from ._files._reading import read_bytes
from ._findings import Origin
from ._pairs import Source
from ._parts import Parts

if TYPE_CHECKING:
    from ._pairs import Checkpoint

_DTYPES = ("float64", "float32", "bfloat16", "float16")
_DOCUMENTS = (".json", ".yaml", ".yml")
# A flag, a variable in front of a program, or a program that serves: no YAML begins like this.
_COMMAND = re.compile(
    r"(?:\s|#.*\n)*(?:--?[A-Za-z]|[A-Z_][A-Z0-9_]*=|(?:\S*/)?(?:vllm|sglang|trtllm\S*|python\S*)\s)"
)


def open_arguments(path: Path) -> Document:
    """The arguments in a YAML or JSON file, or in the text of a command line.

    Raises:
        InputError: the file cannot be read.

    """
    if path.suffix in _DOCUMENTS:
        return read_document(path)
    name = shown_path(path)
    text = decode(read_bytes(path), name, 1)
    return parse_command(text, name) if _COMMAND.match(text) else read_document(path)


def add_arguments(
    parts: Parts, document: Document, engine_name: str, target: "Checkpoint | None"
) -> Arguments:
    """Read choices and capacity from an engine's arguments.

    An engine takes the type and the longest sequence that are not given from the target's
    checkpoint, and so does this.

    Raises:
        InputError: an argument breaks a rule or is not given.

    """
    defaults: dict[str, object] = {}
    if target is not None and isinstance(target.document.data, dict):
        data = target.document.data
        dtype = data.get("dtype") or data.get("torch_dtype")
        if dtype in _DTYPES:
            defaults["dtype"] = dtype
    if parts.target is not None and parts.target.max_position_embeddings is not None:
        defaults["max_seq_len"] = parts.target.max_position_embeddings
    arguments = read_arguments(document, engine_name, defaults=defaults)
    parts.decoding, parts.engine = arguments.decoding, arguments.engine
    whole = Origin(document, ())
    parts.origins.update({("decoding",): whole, ("engine",): whole, **arguments.origins})
    parts.findings.extend(arguments.findings)
    return arguments


def drafter_facts(arguments: Arguments) -> Source:
    """What the arguments say of the drafter, and where."""
    origins = {path[1:]: at for path, at in arguments.origins.items() if path[0] == "stated"}
    return arguments.stated, origins
