"""Published forms of drafters and targets, read into the one canonical form.

One module a form. Layer ids keep their published numbers, beside the convention that says what they
count; nothing that a file leaves out is guessed.
"""

from collections.abc import Mapping

from .. import _rules as rules
from .._files import Document
from .._findings import NOTHING, NOWHERE, CheckpointError, Origin, Origins, finding
from .._target import TargetConfig
from . import _deepseek_v4 as deepseek_v4
from . import _deepspec as deepspec
from . import _gguf as gguf
from . import _mtp as mtp
from . import _speculators as speculators
from . import _zlab as zlab
from ._aliases import ALIASES
from ._facts import Facts
from ._reading import Reading, build
from ._values import Found, same
from ._weights import check_weights, expected_tensors

__all__ = [
    "Reading",
    "check_weights",
    "dialect_of",
    "expected_tensors",
    "has_bundled_drafter",
    "read_bundled",
    "read_drafter",
    "read_target",
]


def dialect_of(document: Document) -> str:
    """Name of the published form of a drafter, or of the target that one is bundled in.

    Raises:
        CheckpointError: it is none that is read; the message says what it is.

    """
    raw = _mapping(document)
    name = _architecture(raw)
    metadata = raw.get("metadata")
    if isinstance(metadata, dict) and isinstance(raw.get("tensors"), dict):
        found = metadata.get("general.architecture")
        if found in gguf.ARCHITECTURES:
            return "gguf"
        raise _not_recognized(document, ("metadata", "general.architecture"), found)
    if any(mark in raw for mark in speculators.MARKS):
        return "speculators"
    if name in (*deepspec.ARCHITECTURES, *deepspec.OTHER_ARCHITECTURES):
        if "dflash_config" in raw and name in deepspec.ARCHITECTURES:
            raise _not_recognized(document, ("architectures",), name, "with a dflash_config")
        return "deepspec"
    if name == zlab.ARCHITECTURE:
        return "zlab"
    if name == mtp.ARCHITECTURE:
        return "specmeta"
    if _dspark_section(raw) is not None:
        return "deepseek_v4"
    if _mtp_layers(raw):
        return "mtp"
    raise _not_recognized(document, ("architectures",), raw.get("architectures"))


def has_bundled_drafter(document: Document) -> bool:
    """Whether a target's file describes a drafter too."""
    try:
        return dialect_of(document) in ("deepseek_v4", "mtp")
    except CheckpointError:
        return False


def read_drafter(
    document: Document,
    *,
    stated: Mapping[str, object] = NOTHING,
    stated_origins: Origins = NOWHERE,
    target: Document | None = None,
    decoding_type: str | None = None,
) -> Reading:
    """The canonical form of a drafter's file.

    Args:
        document: the file; of a target with a bundled drafter, that one is read.
        stated: facts that no file states, by canonical name.
        stated_origins: where those were stated.
        target: the target's file, which tells the number of its layers.
        decoding_type: which drafter is meant, where a file has two.

    Raises:
        CheckpointError: every problem at once, each at its key.

    """
    dialect = dialect_of(document)
    if dialect in ("deepseek_v4", "mtp"):
        return read_bundled(
            document, stated=stated, stated_origins=stated_origins, decoding_type=decoding_type
        )
    raw = _mapping(document)
    if dialect == "gguf":
        metadata, tensors = raw["metadata"], raw["tensors"]
        assert isinstance(metadata, dict)
        assert isinstance(tensors, dict)
        return gguf.read(gguf.facts_of(document, metadata, stated, stated_origins), tensors)
    facts = Facts(document, _with_layers(raw, target), stated, stated_origins)
    _check_layers_of_target(facts, raw, target)
    facts.check_keys()
    if dialect == "speculators":
        return speculators.read(facts)
    if dialect == "zlab":
        return zlab.read(facts)
    if dialect == "specmeta":
        return mtp.read_own(facts)
    return deepspec.read(facts, str(_architecture(raw)))


def read_bundled(
    document: Document,
    *,
    stated: Mapping[str, object] = NOTHING,
    stated_origins: Origins = NOWHERE,
    decoding_type: str | None = None,
) -> Reading:
    """The canonical form of the drafter in a target's file: DSpark's where it has both.

    Raises:
        CheckpointError: every problem at once, or that there is none.

    """
    raw = _mapping(document)
    section = _dspark_section(raw)
    if section is not None and decoding_type in (None, "DSpark"):
        own = raw[section] if section else raw
        assert isinstance(own, dict)
        prefix = (section,) if section else ()
        facts = Facts(document, own, stated, stated_origins, prefix=prefix)
        facts.check_keys()
        return deepseek_v4.read(facts)
    if _mtp_layers(raw) and decoding_type in (None, "MTP"):
        facts = Facts(document, raw, stated, stated_origins)
        facts.check_keys()
        return mtp.read_bundled(facts, _section(raw))
    raise _not_recognized(document, ("architectures",), raw.get("architectures"))


def read_target(document: Document) -> Reading:
    """The sizes of a target. Raises `CheckpointError` with every problem."""
    raw = _mapping(document)
    section = _section(raw)
    facts = Facts(document, raw, NOTHING, NOWHERE, may_be_stated=False)
    streams = facts.of_file("hc_mult", None, section)
    fields = {
        "hidden_size": facts.size("hidden_size", None, section),
        "num_layers": facts.size("num_hidden_layers", "num_layers", section),
        "vocab_size": facts.size("vocab_size", None, section),
        "max_position_embeddings": facts.of_file("max_position_embeddings", None, section),
        "hc_mult": 1 if streams is None else streams,
    }
    return Reading(build(facts, TargetConfig, fields), facts.origins, "target", ())


def _mapping(document: Document) -> dict[str, object]:
    if isinstance(document.data, dict):
        return document.data
    kind = type(document.data).__name__
    raise CheckpointError(f"{document.name}: holds a {kind}; expected an object of keys")


def _architecture(raw: Mapping[str, object]) -> str | None:
    found = raw.get("architectures")
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str):
        return found[0]
    return None


def _section(raw: Mapping[str, object]) -> tuple[str, ...]:
    """Where a target's sizes are: models with a vision part nest those of the text model."""
    return ("text_config",) if isinstance(raw.get("text_config"), dict) else ()


def _mtp_layers(raw: Mapping[str, object]) -> bool:
    for alias in ALIASES["num_mtp_layers"]:
        value: object = raw
        for part in alias.key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value not in (None, 0, False):
            return True
    return False


def _dspark_section(raw: Mapping[str, object]) -> str | None:
    """Where a target's file has `dspark_*` keys: "" is the top level, None nowhere."""
    for name in ("", "text_config"):
        section = raw.get(name) if name else raw
        if isinstance(section, dict) and any(key.startswith("dspark_") for key in section):
            return name
    return None


def _check_layers_of_target(
    facts: Facts, raw: Mapping[str, object], target: Document | None
) -> None:
    """Note a drafter that was made for a target of another depth."""
    if target is None or "num_target_layers" not in raw:
        return
    layers = _with_layers({}, target).get("num_target_layers")
    if layers is not None and not same(layers, raw["num_target_layers"]):
        facts.disagree("num_target_layers", Found(layers, Origin(target, ("num_hidden_layers",))))


def _with_layers(raw: dict[str, object], target: Document | None) -> dict[str, object]:
    """The drafter's keys, with the number of the target's layers where only its own file has it."""
    if target is None or "num_target_layers" in raw or not isinstance(target.data, dict):
        return raw
    sizes = target.data.get("text_config", target.data)
    layers = sizes.get("num_hidden_layers") if isinstance(sizes, dict) else None
    return raw if layers is None else {**raw, "num_target_layers": layers}


def _not_recognized(
    document: Document, path: tuple[str, ...], found: object, beside: str = ""
) -> CheckpointError:
    told = f"{found!r}"[:100] + (f" {beside}" if beside else "") + " is no drafter that is read"
    origin = Origin(document, path)
    rule = rules.CHECKPOINT_NOT_RECOGNIZED
    return CheckpointError.of([finding(rule, path[-1], told, value=found, origin=origin)])
