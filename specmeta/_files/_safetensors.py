"""The tensors of a checkpoint directory, in one safetensors file or in shards with an index."""

from pathlib import Path
from typing import NamedTuple

from .._text import shown
from ._document import Document
from ._json import parse
from ._limits import MAX_TENSORS, input_error
from ._paths import is_there, shown_path
from ._reading import names_in, read_bytes
from ._safetensors_header import MAX_HEADER_BYTES, MAX_HEADER_VALUES, Tensor, read_header

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_WEIGHT_MAP = "weight_map"
_SUFFIX = ".safetensors"
_PICKLES = frozenset({".pt", ".pth", ".ckpt"})
_PICKLED = ("pytorch_model", "model", "weights")  # how the name of a .bin begins that is a pickle
_OTHERS = frozenset({".h5", ".msgpack", ".npz", ".onnx"})
_ADAPTER = "adapter"  # how the names of weights begin that are added to a model's own
_MAX_FILES = 10_000
_REMEDY = f"fetch the weights, or save them as {_SINGLE} or as shards with an index"


class Weights(NamedTuple):
    """What lies beside a configuration."""

    tensors: dict[str, Tensor] | None
    """The tensors; None where no file is there whose tensors are read."""

    unread: str | None = None
    """Why there are none, where weights of another kind or name are there."""


def weights_in(directory: Path) -> Weights:
    """All tensors of a checkpoint directory, of which only headers are read.

    An index none of whose files is there counts as weights that are not fetched yet.

    Raises:
        InputError: files that do not hold what they say, or some of them are missing.

    """
    single, index = directory / _SINGLE, directory / _INDEX
    if is_there(single):
        return Weights(read_header(single, directory))
    if is_there(index):
        return _sharded(index, directory)
    for name in names_in(directory):
        suffix = Path(name).suffix
        if suffix in _PICKLES or (suffix == ".bin" and name.startswith(_PICKLED)):
            return Weights(None, f"{shown_path(name)} is a pickle, which can run code when opened")
        if suffix in _OTHERS:
            return Weights(None, f"{shown_path(name)} is of a form whose tensors are not read")
        if suffix == _SUFFIX and not name.startswith(_ADAPTER):
            return Weights(None, f"{shown_path(name)} is neither {_SINGLE} nor named by an index")
    return Weights(None)


def tensor_shapes(directory: Path) -> dict[str, Tensor]:
    """As `weights_in`, of a directory that has tensors.

    Raises:
        InputError: no safetensors there, or files that do not hold what they say.

    """
    tensors, unread = weights_in(directory)
    if tensors is not None:
        return tensors
    fact = f"does not exist, nor does {_INDEX}" if unread is None else f"is not there: {unread}"
    raise input_error(shown_path(directory / _SINGLE), None, fact, _REMEDY)


def _sharded(index: Path, directory: Path) -> Weights:
    content = read_bytes(index, root=directory, limit=MAX_HEADER_BYTES)
    document = parse(content, shown_path(index), MAX_HEADER_BYTES, MAX_HEADER_VALUES)
    shards = _weight_map(document)
    files = sorted(set(shards.values()))
    absent = {file for file in files if not is_there(directory / file)}
    if len(absent) == len(files):
        return Weights(None, f"{_INDEX} names {len(files)} files, none of which is there")
    for tensor, shard in shards.items():
        if shard in absent:
            fact = f"{shown(tensor)} is in {shown(shard)}, which is not there"
            line = document.line_of((_WEIGHT_MAP, tensor))
            raise input_error(document.name, line, fact, "fetch the missing files")
    held = _headers(files, directory)
    found: dict[str, Tensor] = {}
    for tensor, shard in shards.items():
        if tensor not in held[shard]:
            fact = f"{shown(tensor)} is not in it, though {_INDEX} says so"
            raise input_error(shown_path(directory / shard), None, fact, "fetch the shard again")
        found[tensor] = held[shard][tensor]
    return Weights(found)


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
