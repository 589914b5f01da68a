"""What an input is, by its content."""

from pathlib import Path
from typing import Literal

from .._checkpoint import is_pair
from .._deployment_file import is_deployment
from .._errors import show
from .._files import Document, is_directory, is_there, read_document, shown_path
from .._findings import InputError

Kind = Literal["deployment", "checkpoint", "arguments", "steps"]

_CHECKPOINT_KEYS = {"architectures", "model_type", "speculators_model_type", "speculators_config"}
_STEP_KEYS = {"request_ids", "seq_lens", "context_positions", "num_contexts"}
_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npz"}
_NO_PATH = "an empty PATH names nothing; give a file or a directory, '.' for the one you are in"
_NO_CHECKPOINT = (
    "holds neither a config.json nor a target/; pass a checkpoint directory, one with target/ and "
    "drafter/, or a file"
)
_READ = (
    "pass a deployment file (target, drafter, decoding, engine), a checkpoint's config.json, "
    "engine arguments that hold speculation, or recorded metadata"
)
_EMPTY = "holds no steps; write one object of metadata fields a step"


def check_place(path: str) -> None:
    """Refuse what no content is needed to know of.

    Raises:
        InputError: it names nothing that is read, and the message says what to pass instead.

    """
    if not path:
        raise InputError(_NO_PATH)
    place = Path(path)
    if is_directory(place):
        if not is_pair(place) and not is_there(place / "config.json"):
            raise InputError(f"{shown_path(path)}: {_NO_CHECKPOINT}")
    elif place.suffix in _WEIGHTS and is_there(place):
        raise InputError(f"{shown_path(path)}: {_weights(place)}")


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
        if not data:
            raise no_steps(document.name)
        if any(isinstance(item, dict) and item.keys() & _STEP_KEYS for item in data):
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
        if "weight_map" in data:
            raise InputError(f"{document.name}: {_weights(Path(document.name))}")
    raise InputError(f"{document.name}: is not recognised ({_content(data)}); {_READ}")


def engine_name(document: Document) -> str | None:
    """The engine whose arguments a document holds; None where it holds none."""
    from .._arguments import engine_of

    return engine_of(document)


def no_steps(name: str) -> InputError:
    """The error of a recording without a step."""
    return InputError(f"{name}: {_EMPTY}")


def _weights(place: Path) -> str:
    return f"belongs to a checkpoint's weights; pass its directory, {shown_path(place.parent)}"


def _content(data: object) -> str:
    """What a document holds, as far as it helps to see which file it is."""
    if not isinstance(data, dict):
        return show(data)
    if not data:
        return "an empty object"
    keys = ", ".join(show(key) for key in [*data][:4])
    return f"an object with {keys}" + (f" and {len(data) - 4} other keys" if len(data) > 4 else "")
