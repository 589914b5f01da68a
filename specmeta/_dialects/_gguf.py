"""GGUF metadata of block drafters: keys with the architecture in front, ids of layer inputs.

A DSpark drafter is a DFlash one with Markov tensors. A block that is not stated is asked for, where
llama.cpp would take 16.
"""

from collections.abc import Mapping

from .._drafter import DFlashDrafterConfig, DSparkDrafterConfig
from .._files import Document
from .._findings import Origins
from ._aliases import GGUF_ALIASES
from ._facts import Facts
from ._reading import (
    SIZES,
    Reading,
    block_fields,
    build,
    draft_vocab,
    dspark_fields,
    finish,
)

ARCHITECTURES = ("dflash", "dspark", "dflash-draft")
_PLAIN = (*SIZES, "rope_theta", "sliding_window")


def facts_of(
    document: Document,
    metadata: Mapping[str, object],
    stated: Mapping[str, object],
    stated_origins: Origins,
) -> Facts:
    """The facts of a GGUF header, under the prefix of its architecture."""
    prefix = str(metadata.get("general.architecture"))
    aliases = {
        fact: tuple(alias._replace(key=alias.key.format(arch=prefix)) for alias in spelt)
        for fact, spelt in GGUF_ALIASES.items()
    }
    return Facts(document, metadata, stated, stated_origins, aliases, ("metadata",))


def read(facts: Facts, tensors: Mapping[str, object]) -> Reading:
    """The canonical form. Raises `CheckpointError` with every problem."""
    vocab = facts.value("vocab_size", _tokens(facts))
    own, width = facts.value("draft_vocab_size"), facts.required("hidden_size")
    fields: dict[str, object] = {
        "hidden_size": width,
        "num_layers": facts.required("num_hidden_layers"),
        "vocab_size": facts.required("vocab_size") if vocab is None else vocab,
        "draft_vocab_size": draft_vocab(facts, vocab, own),
        "attention_kind": "grouped_query",
        **{name: facts.value(name) for name in _PLAIN},
        **block_fields(facts, width, "input_of_layer"),
        "anchor_convention": facts.required("anchor_convention"),
        "window_causality": facts.required("window_causality"),
    }
    if not any("markov" in name for name in tensors):
        return finish(facts, build(facts, DFlashDrafterConfig, fields), "gguf")
    fields |= dspark_fields(facts)
    return finish(facts, build(facts, DSparkDrafterConfig, fields), "gguf")


def _tokens(facts: Facts) -> object:
    """The length of the tokenizer's list, which the header has for the embedding too."""
    tokens = facts.at(("tokenizer.ggml.tokens",))
    if isinstance(tokens, dict):
        return tokens.get("length")
    return len(tokens) if isinstance(tokens, list) else None
