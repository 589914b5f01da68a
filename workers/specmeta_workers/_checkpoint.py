"""Files of a checkpoint: its JSON configuration and its safetensors, read with clear errors.

Only safetensors are read. A pickled checkpoint can run code when it is opened, so it is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from specmeta import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torch import Tensor

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"


def read_config(path: str | Path) -> tuple[Path, dict[str, object]]:
    """The configuration of a checkpoint directory (or the JSON file itself), and where it lies.

    Raises:
        CheckpointError: no such file, or no JSON object in it.

    """
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
    return file, _read_object(file, "pass a checkpoint directory with a config.json")


def _read_object(file: Path, remedy: str) -> dict[str, object]:
    try:
        text = file.read_text(encoding="utf-8")
        raw = json.loads(text, object_pairs_hook=lambda pairs: _object(file, pairs))
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror}); {remedy}") from None
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{file}: is not valid JSON ({error}); fetch the file again, it may be cut off"
        ) from None
    if not isinstance(raw, dict):
        raise CheckpointError(f"{file}: holds a JSON {type(raw).__name__}, expected an object")
    return raw


def _object(file: Path, pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; a key that is given twice has no right value, so it is refused."""
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise CheckpointError(f"{file}: {key} is given twice; keep the value that is right")
        result[key] = value
    return result


def weight_files(directory: Path) -> dict[str, Path]:
    """Which file holds each tensor of a checkpoint directory, in one file or sharded.

    Raises:
        CheckpointError: no safetensors there, or an index that names what is not there.

    """
    single, index = directory / _WEIGHTS, directory / _INDEX
    if single.is_file():
        return dict.fromkeys(_names(single), single)
    if index.is_file():
        return _sharded(index)
    pickled = sorted(
        file.name for file in directory.glob("*") if file.suffix in {".bin", ".pt", ".pth"}
    )
    if pickled:
        raise CheckpointError(
            f"{directory / pickled[0]}: is a pickle, which can run code when opened; convert it to "
            f"{_WEIGHTS} with safetensors"
        )
    raise CheckpointError(
        f"{single}: does not exist, nor does {_INDEX}; pass a directory with safetensors weights"
    )


def _sharded(index: Path) -> dict[str, Path]:
    raw = _read_object(index, "fetch the index file again")
    shards = raw.get("weight_map")
    if not isinstance(shards, dict):
        raise CheckpointError(f"{index}: weight_map is missing; fetch the index file again")
    files: dict[str, Path] = {}
    for name, shard in shards.items():
        # Any other path could read, or report on, files that are not the checkpoint's.
        if not isinstance(shard, str) or shard in {"", ".", ".."} or Path(shard).name != shard:
            raise CheckpointError(
                f"{index}: weight_map has {shard!r} for {name}, expected the name of a file beside "
                "the index; fetch the index file again"
            )
        files[name] = index.parent / shard
    held = {file: set(_names(file)) for file in set(files.values())}
    for name, file in files.items():
        if name not in held[file]:
            raise CheckpointError(
                f"{file}: {name} is not in it, though {index.name} says so; fetch the shard again"
            )
    return files


def _names(file: Path) -> list[str]:
    with _open(file) as handle:
        return list(handle.keys())


def _open(file: Path) -> safe_open:
    try:
        return safe_open(file, framework="pt")
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error}); fetch it again") from None
    except SafetensorError as error:
        raise CheckpointError(
            f"{file}: is not a safetensors file ({error}); fetch it again, it may be cut off"
        ) from None


def shapes(files: Mapping[str, Path]) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor, without reading its values."""
    result: dict[str, tuple[int, ...]] = {}
    for file in set(files.values()):
        with _open(file) as handle:
            for name, home in files.items():
                if home == file:
                    result[name] = tuple(handle.get_slice(name).get_shape())
    return result


def read_tensors(files: Mapping[str, Path], names: Collection[str]) -> dict[str, Tensor]:
    """The tensors of these names."""
    result: dict[str, Tensor] = {}
    for file in {files[name] for name in names}:
        with _open(file) as handle:
            for name in names:
                if files[name] != file:
                    continue
                try:
                    result[name] = handle.get_tensor(name)
                except SafetensorError as error:  # a type that torch does not have
                    raise CheckpointError(
                        f"{file}: {name} cannot be read ({error}); quantized weights are not read"
                    ) from None
    return result
