"""The tensors of a checkpoint directory, in one safetensors file or in shards with an index."""

import os
from pathlib import Path

from .._text import shown
from ._document import Document
from ._json import parse
from ._limits import MAX_TENSORS, input_error
from ._paths import shown_path
from ._reading import names_in, read_bytes
from ._safetensors_header import MAX_HEADER_BYTES, Tensor, read_header

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_WEIGHT_MAP = "weight_map"
_PICKLES = frozenset({".bin", ".pt", ".pth"})
_MAX_FILES = 10_000


def tensor_shapes(directory: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint directory; only headers are read.

    Raises:
        InputError: no safetensors there, or files that do not hold what they say.

    """
    single, index = directory / _SINGLE, directory / _INDEX
    if os.path.lexists(single):
        return read_header(single, directory)
    if os.path.lexists(index):
        return _sharded(index, directory)
    for name in names_in(directory):
        if Path(name).suffix in _PICKLES:
            fact = "is a pickle, which can run code when opened"
            remedy = f"convert it to {_SINGLE} with safetensors"
            raise input_error(shown_path(directory / name), None, fact, remedy)
    fact = f"does not exist, nor does {_INDEX}"
    raise input_error(shown_path(single), None, fact, "pass a directory with safetensors weights")


def _sharded(index: Path, directory: Path) -> dict[str, Tensor]:
    content = read_bytes(index, root=directory, limit=MAX_HEADER_BYTES)
    document = parse(content, shown_path(index), first_line=1, limit=MAX_HEADER_BYTES)
    shards = _weight_map(document)
    held = _headers(sorted(set(shards.values())), directory)
    found: dict[str, Tensor] = {}
    for tensor, shard in shards.items():
        if tensor not in held[shard]:
            fact = f"{shown(tensor)} is not in it, though {_INDEX} says so"
            raise input_error(shown_path(directory / shard), None, fact, "fetch the shard again")
        found[tensor] = held[shard][tensor]
    return found


def _weight_map(index: Document) -> dict[str, str]:
    """Which shard holds each tensor, each a plain name beside the index.

    Any other path could read, or report on, files that are not the checkpoint's.
    """
    again = "fetch the index file again"
    shards = index.data.get(_WEIGHT_MAP) if isinstance(index.data, dict) else None
    if not isinstance(shards, dict) or not shards:
        fact = f"{_WEIGHT_MAP} is missing or is not an object with tensors"
        raise input_error(index.name, index.line_of((_WEIGHT_MAP,)), fact, again)
    for tensor, shard in shards.items():
        if not isinstance(shard, str) or not _is_plain_name(shard):
            given = shown(shard) if isinstance(shard, str) else f"a {type(shard).__name__}"
            fact = f"{_WEIGHT_MAP} has {given} for {shown(tensor)}, expected the name of a file "
            line = index.line_of((_WEIGHT_MAP, tensor))
            raise input_error(index.name, line, f"{fact}beside the index", again)
    if len(set(shards.values())) > _MAX_FILES or len(shards) > MAX_TENSORS:
        fact = f"{_WEIGHT_MAP} names more than {_MAX_FILES} files or {MAX_TENSORS} tensors"
        raise input_error(index.name, index.line_of((_WEIGHT_MAP,)), fact, again)
    return shards


def _is_plain_name(name: str) -> bool:
    return name not in {"", ".", ".."} and not any(part in name for part in "/\\:\0")


def _headers(shards: list[str], directory: Path) -> dict[str, dict[str, Tensor]]:
    held: dict[str, dict[str, Tensor]] = {}
    total = 0
    for shard in shards:
        held[shard] = read_header(directory / shard, directory)
        total += len(held[shard])
        if total > MAX_TENSORS:
            fact = f"the shards up to this one hold more than {MAX_TENSORS} tensors"
            remedy = "pass the checkpoint that is meant"
            raise input_error(shown_path(directory / shard), None, fact, remedy)
    return held
