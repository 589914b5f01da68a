"""Files of a checkpoint: its configuration and its tensors, read with clear errors.

Configuration and headers are read by specmeta, which bounds what a file may hold. Only safetensors
are read: a pickled checkpoint can run code when it is opened, so it is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from safetensors import SafetensorError, safe_open

from specmeta import CheckpointError, InputError
from specmeta._files import Document, read_document, tensor_shapes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torch import Tensor


class Stored(NamedTuple):
    """A tensor of a checkpoint, before its values are read."""

    file: Path
    shape: tuple[int, ...]


class Config(NamedTuple):
    """The keys of a `config.json`, and the document that knows their lines."""

    document: Document
    raw: Mapping[str, object]

    def place(self, key: str) -> str:
        """`file:line: key`, as messages begin."""
        line = self.document.line_of((key,))
        return f"{self.document.name}{'' if line is None else f':{line}'}: {key}"


def read_config(directory: Path) -> Config:
    """The configuration of a checkpoint directory.

    Raises:
        CheckpointError: no such file, or no JSON object in it.

    """
    try:
        document = read_document(directory / "config.json", root=directory)
    except InputError as error:
        raise CheckpointError(str(error), error.findings) from None
    if not isinstance(document.data, dict):
        found = type(document.data).__name__
        raise CheckpointError(f"{document.name}: holds a {found}; expected an object of keys")
    return Config(document, document.data)


def stored_tensors(directory: Path) -> dict[str, Stored]:
    """Every tensor of a checkpoint directory, in one file or sharded; no value is read.

    Raises:
        CheckpointError: no safetensors there, or files that do not hold what they say.

    """
    try:
        found = tensor_shapes(directory)
    except InputError as error:
        raise CheckpointError(str(error), error.findings) from None
    return {
        name: Stored(directory / Path(tensor.file).name, tensor.shape)
        for name, tensor in found.items()
    }


def read_tensors(stored: Mapping[str, Stored], names: Collection[str]) -> dict[str, Tensor]:
    """The tensors of these names.

    Raises:
        CheckpointError: a file has gone, or a tensor has a type that torch lacks.

    """
    result: dict[str, Tensor] = {}
    for file in {stored[name].file for name in names}:
        with _open(file) as handle:
            for name in names:
                if stored[name].file != file:
                    continue
                try:
                    result[name] = handle.get_tensor(name)
                except SafetensorError as error:
                    raise CheckpointError(
                        f"{file}: {name} cannot be read ({error}); quantized weights are not read"
                    ) from None
    return result


def _open(file: Path) -> safe_open:
    try:
        return safe_open(file, framework="pt")
    except (OSError, SafetensorError) as error:  # it has changed since its header was read
        raise CheckpointError(f"{file}: cannot be read ({error}); fetch it again") from None
