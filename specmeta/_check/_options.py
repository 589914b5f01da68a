"""What the user says beside the inputs of a check, and names that are shown."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .._findings import NOTHING, Finding

_LAYOUTS = {
    "deepspec": "DeepSpec",
    "deepseek_v4": "DeepSeek-V4",
    "zlab": "z-lab",
    "mtp": "MTP",
    "gguf": "GGUF",
}


class Options(NamedTuple):
    """What the user says beside the inputs."""

    target: Path | None = None
    drafter: Path | None = None
    deployment: Path | None = None
    stated: Mapping[str, object] = NOTHING
    decoding_type: str | None = None
    roots: tuple[Path, ...] = ()
    mid_run: bool = False
    weights: bool = True


def file_of(found: Finding) -> str | None:
    """The file that a finding points to."""
    return found.file


def layout_of(dialect: str) -> str:
    """The layout of a dialect, as its publishers spell it."""
    return _LAYOUTS.get(dialect, dialect)
