"""What an input is, by its content."""

from pathlib import Path
from typing import Literal

from .._deployment_file import is_deployment
from .._files import Document, is_directory, is_there, read_document
from .._findings import InputError

Kind = Literal["deployment", "checkpoint", "arguments", "steps"]

_CHECKPOINT_KEYS = {"architectures", "model_type", "speculators_model_type", "speculators_config"}
_STEP_KEYS = {"request_ids", "seq_lens", "context_positions", "num_contexts"}
_READ = (
    "a deployment file, a checkpoint's config.json, engine arguments and recorded metadata are read"
)


def is_pair(path: Path) -> bool:
    """Whether a directory holds a target, beside its drafter or with it inside."""
    return is_directory(path / "target") and not is_there(path / "config.json")


def open_input(path: Path) -> Document:
    """The document of a file of any kind but recorded metadata in lines.

    Raises:
        InputError: it cannot be read.

    """
    if path.suffix in (".json", ".yaml", ".yml"):
        return read_document(path)
    from .._argument_files import open_arguments

    return open_arguments(path)


def kind_of(document: Document) -> Kind:
    """What a document is.

    Raises:
        InputError: nothing that is read.

    """
    data = document.data
    if isinstance(data, list):
        if data and all(isinstance(item, dict) and item.keys() & _STEP_KEYS for item in data):
            return "steps"
    elif isinstance(data, dict):
        if len(data.keys() & _STEP_KEYS) > 1:
            return "steps"
        if data.keys() & _CHECKPOINT_KEYS:
            return "checkpoint"
        if is_deployment(data):
            return "deployment"
        if engine_name(document) is not None:
            return "arguments"
    raise InputError(f"{document.name}: is not recognised; {_READ}")


def engine_name(document: Document) -> str | None:
    """The engine whose arguments a document holds; None where it holds none."""
    from .._arguments import engine_of

    return engine_of(document)
