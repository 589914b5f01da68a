"""Engine arguments as parts of a deployment: a file, a command line, an object in another file."""

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from ._arguments import Arguments, is_command, parse_command, read_arguments
from ._files import Document, decode, parse_document, read_bytes, shown_path
from ._findings import Origin
from ._findings import Path as Location
from ._parts import Parts
from ._types import DType

if TYPE_CHECKING:
    from ._checkpoint import Checkpoint
    from ._pairs import Stated

_DTYPES = get_args(DType)
_DOCUMENTS = (".json", ".yaml", ".yml")


def open_arguments(path: Path) -> Document:
    """The arguments in a YAML or JSON file, or in the text of a command line.

    Raises:
        InputError: the file cannot be read.

    """
    return parse_arguments(read_bytes(path), shown_path(path), suffix=path.suffix)


def parse_arguments(content: bytes, name: str, *, suffix: str = "") -> Document:
    """As `open_arguments`, of content that has been read.

    Raises:
        InputError: it cannot be read as one of them.

    """
    if suffix not in _DOCUMENTS:
        text = decode(content, name, 1)
        if is_command(text, suffix):
            return parse_command(text, name)
    return parse_document(content, name, suffix=suffix)


def add_arguments(
    parts: Parts,
    document: Document,
    engine_name: str,
    target: "Checkpoint | None",
    at: Location = (),
) -> Arguments:
    """Read choices and capacity from an engine's arguments, which lie at `at` in the document.

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
    arguments = read_arguments(document, engine_name, defaults=defaults, at=at)
    parts.decoding, parts.engine = arguments.decoding, arguments.engine
    whole = Origin(document, at)
    parts.origins.update({("decoding",): whole, ("engine",): whole, **arguments.origins})
    parts.findings.extend(arguments.findings)
    return arguments


def drafter_facts(arguments: Arguments) -> "Stated":
    """What the arguments say of the drafter, and where."""
    origins = {path[1:]: at for path, at in arguments.origins.items() if path[0] == "stated"}
    return arguments.stated, origins
