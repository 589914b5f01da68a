"""GGUF metadata of block drafters: keys with the architecture in front, ids of layer inputs.

A DSpark drafter is a DFlash one with Markov tensors. A block that is not stated is asked for, where
llama.cpp would take 16.
"""

from collections.abc import Mapping

from .. import _rules as rules
from .._drafter import DFlashDrafterConfig, DrafterConfig, DSparkDrafterConfig
from .._files import Document
from .._findings import Origins
from ._aliases import GGUF_ALIASES
from ._facts import Facts
from ._layers import SIZES, draft_vocab
from ._reading import (
    DFLASH2,
    Reading,
    block_fields,
    build,
    dspark_fields,
    finish,
    refuse_dflash2,
    refuse_heads,
)
from ._values import shown

ARCHITECTURES = ("dflash", "dspark", "dflash-draft")
_PLAIN = (*SIZES, "max_position_embeddings", "rope_theta", "sliding_window")


def facts_of(
    document: Document,
    metadata: Mapping[str, object],
    stated: Mapping[str, object],
    stated_origins: Origins,
) -> Facts:
    """The facts of a GGUF header, under the prefix of its architecture."""
    prefix = str(metadata.get("general.architecture"))
    aliases = {
        fact: tuple(alias._replace(path=(alias.path[0].format(arch=prefix),)) for alias in spelt)
        for fact, spelt in GGUF_ALIASES.items()
    }
    return Facts(document, metadata, stated, stated_origins, aliases, ("metadata",))


def read(facts: Facts, tensors: Mapping[str, object]) -> Reading[DrafterConfig]:
    """The canonical form. Raises `CheckpointError` with every problem."""
    vocab = facts.value("vocab_size", _tokens(facts))
    own, width = facts.value("draft_vocab_size"), facts.required("hidden_size")
    fields: dict[str, object] = {
        "hidden_size": width,
        "num_layers": facts.required("num_layers"),
        "vocab_size": facts.required("vocab_size") if vocab is None else vocab,
        "draft_vocab_size": draft_vocab(facts, vocab, own),
        "attention_kind": "grouped_query",
        **{name: facts.value(name) for name in _PLAIN},
        **block_fields(facts, width, "input_of_layer"),
        "anchor_convention": facts.required("anchor_convention"),
        "window_causality": facts.required("window_causality"),
    }
    _check_unread(facts, fields)
    if not any("markov" in name for name in tensors):
        refuse_heads(facts)
        return finish(facts, build(facts, DFlashDrafterConfig, fields), "gguf")
    fields |= dspark_fields(facts)
    return finish(facts, build(facts, DSparkDrafterConfig, fields), "gguf")


def _check_unread(facts: Facts, fields: dict[str, object]) -> None:
    """Note the keys of DFlash2 and of other rotary positions; a pattern says which layers have the
    window.
    """
    prefix = str(facts.at(("general.architecture",)))
    refuse_dflash2(facts, ((f"{prefix}.{key}",) for key in DFLASH2))
    sections = facts.found((f"{prefix}.rope.dimension_sections",))
    if isinstance(sections.value, list) and any(sections.value[1:]):
        told = f"{shown(sections.value)} gives each section of a head positions of its own"
        facts.add(rules.VALUE_NOT_READ, sections, told)
    pattern = facts.found((f"{prefix}.attention.sliding_window_pattern",))
    if pattern.value is None or fields["sliding_window"] is None:
        return
    layers = pattern.value if isinstance(pattern.value, list) else []
    if layers and not any(layers):
        fields["sliding_window"] = None
    elif not layers or not all(layer is True for layer in layers):
        told = f"{shown(pattern.value)}, and the layers share one window or have none"
        facts.add(rules.VALUE_NOT_SUPPORTED, pattern, told)


def _tokens(facts: Facts) -> object:
    """The length of the tokenizer's list, which the header has for the embedding too."""
    tokens = facts.at(("tokenizer.ggml.tokens",))
    if isinstance(tokens, dict):
        return tokens.get("length")
    return len(tokens) if isinstance(tokens, list) else None
