"""Published configurations in canonical form: drafters of any layout that is read, and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specmeta import TargetConfig

from . import _dialect_deepspec as deepspec
from . import _dialect_mtp as mtp
from . import _dialect_zlab as zlab
from ._checkpoint import read_config
from ._config_keys import build, required
from ._errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from specmeta import DrafterConfig

_READERS: dict[str, Callable[[Path, Mapping[str, object]], DrafterConfig]] = {
    deepspec.ARCHITECTURE: deepspec.read,
    zlab.ARCHITECTURE: zlab.read,
    mtp.ARCHITECTURE: mtp.read,
}


def read_drafter_config(path: str | Path) -> DrafterConfig:
    """Read a drafter's configuration, in the layout that its `architectures` names.

    `Qwen3DSparkModel` is DeepSpec's (DSpark, and its anchor-first `dflash_*` checkpoints),
    `DFlashDraftModel` z-lab's (DFlash), `Qwen3MTPModel` that of the bundled MTP drafter.

    Args:
        path: a checkpoint directory, or its `config.json`.

    Raises:
        CheckpointError: the file cannot be read, is of another layout, lacks a key, or has a value
            that is not implemented. The message names the file, the key, the value and the remedy.

    """
    file, raw = read_config(path)
    return _READERS[_architecture(file, raw)](file, raw)


def read_target_config(path: str | Path) -> TargetConfig:
    """Read the sizes of a `transformers` causal language model.

    Args:
        path: a checkpoint directory, or its `config.json`.

    Raises:
        CheckpointError: the file cannot be read or lacks a key.

    """
    file, raw = read_config(path)
    text = raw.get("text_config")
    sizes = text if isinstance(text, dict) else raw  # models with a vision part nest the text model
    fields = {
        "hidden_size": required(file, sizes, "hidden_size"),
        "num_layers": required(file, sizes, "num_hidden_layers"),
        "vocab_size": required(file, sizes, "vocab_size"),
        "max_position_embeddings": required(file, sizes, "max_position_embeddings"),
    }
    if "hc_mult" in sizes:
        fields["hc_mult"] = sizes["hc_mult"]
    return build(file, TargetConfig, fields)


def _architecture(file: Path, raw: Mapping[str, object]) -> str:
    """Which layout the file has; every other is refused, by name where it is known."""
    found = raw.get("architectures")
    name = found[0] if isinstance(found, list) and len(found) == 1 else None
    problem = None
    if "speculators_model_type" in raw or "speculators_config" in raw:
        problem = "is the speculators layout"
    elif any(key.startswith("dspark_") for key in raw):
        problem = "is a DeepSeek-V4 checkpoint with its drafter bundled in"
    elif not isinstance(name, str) or name not in _READERS:
        problem = f"architectures is {found!r}"
    elif zlab.NESTED in raw and name != zlab.ARCHITECTURE:
        problem = f"architectures is {found!r}, but {zlab.NESTED} is of {zlab.ARCHITECTURE}"
    if problem is None:
        assert isinstance(name, str)
        return name
    raise CheckpointError(
        f"{file}: {problem}; the layouts that are read have one of {', '.join(_READERS)} as their "
        "architecture, so pass such a checkpoint or convert this one"
    )
