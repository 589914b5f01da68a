"""Which published form a file has, told by its architecture and its keys."""

from collections.abc import Mapping
from dataclasses import replace

from .. import _rules as rules
from .._files import Document
from .._findings import CheckpointError, Origin, Path, finding
from . import _deepspec as deepspec
from . import _gguf as gguf
from . import _mtp as mtp
from . import _speculators as speculators
from . import _zlab as zlab
from ._aliases import ALIASES
from ._values import shown

_TEXT_MODELS = (
    ("text_config",),
    ("language_config",),
    ("llm_config",),
    ("thinker_config", "text_config"),
)
# Drafters that engines serve and no form here can say.
_NOT_READ = {
    "DFlash2DraftModel": ": DFlash2 adds convolutions and a candidate selector to each draft",
    "MuseGlimmerAssistantModel": ": the code of its target says how its layers are counted and how "
    "its heads turn, and no key does",
}
_OWN = frozenset(
    {
        *deepspec.ARCHITECTURES,
        *deepspec.OTHER_ARCHITECTURES,
        zlab.ARCHITECTURE,
        mtp.ARCHITECTURE,
        *_NOT_READ,
    }
)
"""Architectures of drafters that have a file of their own."""


def dialect_of(document: Document) -> str:
    """Name of the published form of a drafter, or of the target that one is bundled in.

    Raises:
        CheckpointError: it is none that is read; the message says what it is.

    """
    raw = mapping(document)
    name = architecture(raw)
    metadata = raw.get("metadata")
    if isinstance(metadata, dict) and isinstance(raw.get("tensors"), dict):
        found = metadata.get("general.architecture")
        if found in gguf.ARCHITECTURES:
            return "gguf"
        raise not_recognized(document, ("metadata", "general.architecture"), found)
    if any(mark in raw for mark in speculators.MARKS):
        return "speculators"
    if name in (*deepspec.ARCHITECTURES, *deepspec.OTHER_ARCHITECTURES):
        if "dflash_config" in raw and name in deepspec.ARCHITECTURES:
            raise not_recognized(document, ("architectures",), name, " with a dflash_config")
        return "deepspec"
    if name == zlab.ARCHITECTURE:
        return "zlab"
    if name == mtp.ARCHITECTURE:
        return "specmeta"
    if dspark_section(raw) is not None:
        return "deepseek_v4"
    if has_mtp_layers(raw):
        return "mtp"
    why = _NOT_READ.get(str(name), "")
    raise not_recognized(document, ("architectures",), raw.get("architectures"), why=why)


def refuse_drafter(document: Document, raw: Mapping[str, object]) -> None:
    """Refuse a drafter's file where a target is meant: it has every size of one.

    Raises:
        CheckpointError: it is one.

    """
    name = architecture(raw)
    if name not in _OWN and not any(key in raw for key in ("dflash_config", *speculators.MARKS)):
        return
    origin, found = Origin(document, ("architectures",)), raw.get("architectures")
    told = f"{shown(found)} is a drafter, and a target is needed here"
    rule = rules.CHECKPOINT_NOT_RECOGNIZED
    problem = finding(rule, "architectures", told, value=found, origin=origin)
    raise CheckpointError.of([replace(problem, remedy="pass the model that verifies its drafts")])


def mapping(document: Document) -> dict[str, object]:
    """The keys of a file. Raises `CheckpointError` where it holds something else."""
    if isinstance(document.data, dict):
        return document.data
    kind = type(document.data).__name__
    raise CheckpointError(f"{document.name}: holds a {kind}; expected an object of keys")


def architecture(raw: Mapping[str, object]) -> str | None:
    """The one architecture that a file names."""
    found = raw.get("architectures")
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str):
        return found[0]
    return None


def text_section(raw: Mapping[str, object]) -> tuple[str, ...]:
    """Where a target's sizes are: models with a vision part nest those of the text model."""
    return next((path for path in _TEXT_MODELS if isinstance(at(raw, path), dict)), ())


def at(raw: object, path: Path) -> object:
    """The value at a path; None where it is not there."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw


def has_mtp_layers(raw: Mapping[str, object]) -> bool:
    """Whether a target's file counts MTP layers."""
    found = (at(raw, alias.path) for alias in ALIASES["num_mtp_layers"])
    return any(value not in (None, 0, False) for value in found)


def dspark_section(raw: Mapping[str, object]) -> str | None:
    """Where a target's file has `dspark_*` keys: "" is the top level, None nowhere."""
    for name in ("", "text_config"):
        section = raw.get(name) if name else raw
        if isinstance(section, dict) and any(key.startswith("dspark_") for key in section):
            return name
    return None


def not_recognized(
    document: Document, path: Path, found: object, beside: str = "", *, why: str = ""
) -> CheckpointError:
    """The error of a file that is no drafter that is read."""
    told = f"{shown(found)}{beside} is no drafter that is read{why}"
    origin = Origin(document, path)
    rule = rules.CHECKPOINT_NOT_RECOGNIZED
    return CheckpointError.of([finding(rule, str(path[-1]), told, value=found, origin=origin)])
