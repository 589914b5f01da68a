"""What the user says beside the inputs of a check, and names that are shown."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from .._findings import NOTHING, Finding

STDIN = "<stdin>"
"""Standard input, as messages name it."""

_LAYOUTS = {
    "deepspec": "DeepSpec",
    "deepseek_v4": "DeepSeek-V4",
    "zlab": "z-lab",
    "mtp": "MTP",
    "gguf": "GGUF",
}


class CheckOptions(NamedTuple):
    """What the user says beside the inputs."""

    target: Path | None = None
    drafter: Path | None = None
    deployment: Path | None = None
    stated: Mapping[str, object] = NOTHING
    decoding_type: str | None = None
    roots: tuple[Path, ...] = ()
    mid_run: bool = False
    weights: bool = True


# Fields of the options that are of use to some kinds of inputs alone: the flag, and which kinds.
_FOR = {
    "target": ("--target", "the checkpoint of a drafter, or engine arguments"),
    "drafter": ("--drafter", "the checkpoint of a target, or engine arguments"),
    "deployment": ("--deployment", "recorded metadata"),
    "stated": ("--state", "an input with the checkpoint of a drafter"),
    "decoding_type": ("--decoding-type", "the checkpoint of a drafter, or a pair"),
    "roots": ("--root", "a deployment file, or the directory of a pair"),
    "mid_run": ("--mid-run", "recorded metadata"),
    "weights": ("--no-weights", "the checkpoint of a drafter"),
}


def unused(options: CheckOptions, used: Iterable[str]) -> str | None:
    """What to say of the first option that was given and is of no use; None where all are."""
    found = {*used}
    for name, (flag, kinds) in _FOR.items():
        if getattr(options, name) != CheckOptions._field_defaults[name] and name not in found:
            return f"{flag} is for {kinds}, and no PATH is that; leave it out, or correct the PATH"
    return None


def file_of(found: Finding) -> str | None:
    """The file that a finding points to; standard input is none."""
    return None if found.file == STDIN else found.file


def layout_of(dialect: str) -> str:
    """The layout of a dialect, as its publishers spell it."""
    return _LAYOUTS.get(dialect, dialect)


def method_of(decoding_type: str) -> str:
    """A method behind its article."""
    return f"an {decoding_type}" if decoding_type == "MTP" else f"a {decoding_type}"
