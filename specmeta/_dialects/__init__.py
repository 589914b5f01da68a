"""Published forms of drafters and targets, read into the one canonical form.

One module a form. Layer ids keep their published numbers, beside the convention that says what they
count; nothing that a file leaves out is guessed.
"""

from collections.abc import Mapping

from .. import _rules as rules
from .._drafter import DrafterConfig
from .._errors import show
from .._files import Document
from .._findings import NOTHING, NOWHERE, CheckpointError, Origin, Origins, Path
from .._target import TargetConfig
from . import _deepseek_v4 as deepseek_v4
from . import _deepspec as deepspec
from . import _gguf as gguf
from . import _mtp as mtp
from . import _speculators as speculators
from . import _zlab as zlab
from ._facts import Facts
from ._layers import positions
from ._reading import Reading, build
from ._recognition import (
    architecture,
    at,
    dialect_of,
    dspark_section,
    has_mtp_layers,
    mapping,
    not_recognized,
    refuse_drafter,
    text_section,
)
from ._shapes import expected_tensors
from ._values import Found, agree, same
from ._weights import check_weights

__all__ = [
    "Reading",
    "agree",
    "check_weights",
    "dialect_of",
    "expected_tensors",
    "has_bundled_drafter",
    "read_bundled",
    "read_drafter",
    "read_target",
]


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
) -> Reading[DrafterConfig]:
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
    raw = mapping(document)
    if dialect == "gguf":
        metadata, tensors = raw["metadata"], raw["tensors"]
        assert isinstance(metadata, dict)
        assert isinstance(tensors, dict)
        facts = gguf.facts_of(document, metadata, stated, stated_origins)
        facts.target_layers = _layers_of(target)
        return gguf.read(facts, tensors)
    facts = Facts(document, raw, stated, stated_origins)
    facts.check_keys()
    facts.target_layers = _target_layers(facts, target)
    if dialect == "speculators":
        return speculators.read(facts)
    if dialect == "zlab":
        return zlab.read(facts)
    if dialect == "specmeta":
        return mtp.read_own(facts)
    return deepspec.read(facts, str(architecture(raw)))


def read_bundled(
    document: Document,
    *,
    stated: Mapping[str, object] = NOTHING,
    stated_origins: Origins = NOWHERE,
    decoding_type: str | None = None,
) -> Reading[DrafterConfig]:
    """The canonical form of the drafter in a target's file: DSpark's where it has both.

    Raises:
        CheckpointError: every problem at once, or that there is none.

    """
    raw = mapping(document)
    section = dspark_section(raw)
    if section is not None and decoding_type in (None, "DSpark"):
        own = raw[section] if section else raw
        assert isinstance(own, dict)
        prefix = (section,) if section else ()
        facts = Facts(document, own, stated, stated_origins, prefix=prefix)
        facts.target_layers = _layers_of(document)
        facts.check_keys()
        return deepseek_v4.read(facts)
    if has_mtp_layers(raw) and decoding_type in (None, "MTP"):
        facts = Facts(document, raw, stated, stated_origins)
        facts.check_keys()
        return mtp.read_bundled(facts, text_section(raw))
    method = "" if decoding_type is None else f" for {decoding_type}"
    why = f"{method}: dspark_* keys or a count of MTP layers were looked for in the target's file"
    raise not_recognized(document, ("architectures",), raw.get("architectures"), why=why)


def read_target(document: Document) -> Reading[TargetConfig]:
    """The sizes of a target. Raises `CheckpointError` with every problem."""
    raw = mapping(document)
    refuse_drafter(document, raw)
    section = text_section(raw)
    facts = Facts(document, raw, NOTHING, NOWHERE, may_be_stated=False)
    streams = facts.of_file("hc_mult", None, section)
    fields = {
        "hidden_size": facts.size("hidden_size", None, section),
        "num_layers": facts.size("num_hidden_layers", "num_layers", section),
        "vocab_size": facts.size("vocab_size", None, section),
        "max_position_embeddings": positions(facts, section),
        "hc_mult": 1 if streams is None else streams,
    }
    return Reading(build(facts, TargetConfig, fields), facts.origins, "target", ())


def _target_layers(facts: Facts, target: Document | None) -> Found | None:
    """How many layers the target has by its own file and by the drafter's; a drafter that was made
    for a target of another depth is noted.
    """
    own, others = facts.get("num_target_layers"), _layers_of(target)
    if own is None:
        return others
    if type(own.value) is not int or own.value < 1:
        facts.add(rules.VALUE_NOT_SUPPORTED, own, f"{show(own.value)} is no number of layers")
        return others
    if others is not None and not same(others.value, own.value):
        facts.disagree(own, others)
    return own


def _layers_of(target: Document | None) -> Found | None:
    """The number of a target's layers, where it states one."""
    if target is None or not isinstance(target.data, dict):
        return None
    path: Path = (*text_section(target.data), "num_hidden_layers")
    layers = at(target.data, path)
    is_number = type(layers) is int and layers > 0
    return Found(layers, Origin(target, path)) if is_number else None
