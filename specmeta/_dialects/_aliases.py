"""Every spelling of a drafter's facts in published files, in one table.

A fact may stand under several keys of one file; `_facts` compares them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from .._types import LayerIdConvention


class Alias(NamedTuple):
    """One spelling of a fact."""

    path: tuple[str, ...]
    """Keys that lead to it; in GGUF metadata one key, where ``{arch}`` stands for the prefix of the
    architecture."""

    fallback: bool = False
    """Read only where no other spelling is there: some files give it another meaning then."""

    true: str | None = None
    """What the key's true means; None where its value is the fact itself."""

    false: str | None = None
    """What its false means."""

    convention: LayerIdConvention | None = None
    """What the layer ids under this key count."""


def _places(name: str, *sections: str) -> tuple[Alias, ...]:
    """A key at the top level and in sections."""
    return (Alias((name,)), *(Alias((section, name)) for section in sections))


def _anchor(*path: str, inverse: bool = False) -> Alias:
    first, later = "anchor_first", "mask_at_position"
    return Alias(path, true=later if inverse else first, false=first if inverse else later)


def _causal(*path: str, inverse: bool = False) -> Alias:
    causal, free = "causal", "non_causal"
    return Alias(path, true=free if inverse else causal, false=causal if inverse else free)


def _outputs(*path: str) -> Alias:
    return Alias(path, convention="output_of_layer")


def _inputs(*path: str) -> Alias:
    return Alias(path, convention="input_of_layer")


_OWN = ("dflash_config", "dspark_config")

ALIASES: Mapping[str, tuple[Alias, ...]] = {
    "block_size": (*_places("block_size", *_OWN), Alias(("dspark_block_size",))),
    "mask_token_id": (
        *_places("mask_token_id", *_OWN),
        Alias(("dspark_noise_token_id",)),
        Alias(("pard_token",), fallback=True),
        Alias(("ptd_token_id",), fallback=True),
    ),
    "target_layer_ids": (
        _outputs("target_layer_ids"),
        _outputs("dspark_target_layer_ids"),
        _outputs("dflash_config", "target_layer_ids"),
        _outputs("dspark_config", "target_layer_ids"),
        _inputs("aux_hidden_state_layer_ids"),
        _inputs("eagle_aux_hidden_state_layer_ids"),
        _inputs("eagle_config", "eagle_aux_hidden_state_layer_ids"),
    ),
    "anchor_convention": (
        _anchor("sample_from_anchor"),
        _anchor("dflash_config", "sample_from_anchor"),
        _anchor("dspark_config", "sample_from_anchor"),
        _anchor("query_zero_predicts_next"),
        _anchor("shift_label"),
        _anchor("dspark_bonus_anchor", inverse=True),
    ),
    # Says something of windowed layers alone: files without any have it, at its default.
    "windowed_causality": (_causal("sliding_window_non_causal", inverse=True),),
    "window_causality": (
        _causal("dflash_config", "causal"),
        _causal("is_causal"),
    ),
    # Says something of layers without a window alone.
    "full_causality": (_causal("full_attention_causal"),),
    "markov_rank": (*_places("markov_rank", *_OWN), Alias(("dspark_markov_rank",))),
    "markov_head_type": (
        *_places("markov_head_type", *_OWN),
        Alias(("dspark_markov_head_type",)),
    ),
    "enable_confidence_head": _places("enable_confidence_head", *_OWN),
    "confidence_head_with_markov": _places("confidence_head_with_markov", *_OWN),
    "draft_vocab_size": _places("draft_vocab_size"),
    "target_hidden_size": _places("target_hidden_size"),
    "target_hidden_state": _places("target_hidden_state"),
    "num_target_layers": _places("num_target_layers", "dflash_config"),
    "num_stages": _places("n_mtp_layers"),
    "num_mtp_layers": (
        *_places("num_nextn_predict_layers", "text_config"),
        *_places("mtp_num_hidden_layers", "text_config"),
        Alias(("n_mtp_layers",), fallback=True),
        Alias(("n_predict",), fallback=True),
    ),
}

GGUF_ALIASES: Mapping[str, tuple[Alias, ...]] = {
    "block_size": (Alias(("{arch}.block_size",)),),
    "mask_token_id": (Alias(("tokenizer.ggml.mask_token_id",)), Alias(("{arch}.mask_token_id",))),
    "target_layer_ids": (_inputs("{arch}.target_layers"), _inputs("{arch}.target_layer_ids")),
    "anchor_convention": (_anchor("{arch}.sample_from_anchor"),),
    "window_causality": (_causal("{arch}.attention.causal"),),
    "markov_rank": (Alias(("{arch}.markov_rank",)),),
    "markov_head_type": (Alias(("{arch}.markov_head_type",)),),
    "enable_confidence_head": (Alias(("{arch}.enable_confidence_head",)),),
    "confidence_head_with_markov": (Alias(("{arch}.confidence_head_with_markov",)),),
    "draft_vocab_size": (Alias(("{arch}.draft_vocab_size",)),),
    "target_hidden_size": (
        Alias(("{arch}.embedding_length_out",)),
        Alias(("{arch}.target_hidden_size",)),
    ),
    "hidden_size": (Alias(("{arch}.embedding_length",)),),
    "num_layers": (Alias(("{arch}.block_count",)),),
    "vocab_size": (Alias(("{arch}.vocab_size",)),),
    "max_position_embeddings": (Alias(("{arch}.context_length",)),),
    "num_attention_heads": (Alias(("{arch}.attention.head_count",)),),
    "num_key_value_heads": (Alias(("{arch}.attention.head_count_kv",)),),
    "head_dim": (Alias(("{arch}.attention.key_length",)),),
    "intermediate_size": (Alias(("{arch}.feed_forward_length",)),),
    "rms_norm_eps": (Alias(("{arch}.attention.layer_norm_rms_epsilon",)),),
    "rope_theta": (Alias(("{arch}.rope.freq_base",)),),
    "sliding_window": (Alias(("{arch}.attention.sliding_window",)),),
}

# Keys whose misspelling would silently take a default or another layout.
SPELT = (
    "block_size", "dspark_block_size", "mask_token_id", "dspark_noise_token_id",
    "target_layer_ids", "dspark_target_layer_ids", "aux_hidden_state_layer_ids",
    "eagle_aux_hidden_state_layer_ids", "markov_rank", "dspark_markov_rank", "markov_head_type",
    "dspark_markov_head_type", "sample_from_anchor", "dspark_bonus_anchor",
    "query_zero_predicts_next", "sliding_window_non_causal", "draft_vocab_size",
    "target_hidden_size", "target_hidden_state", "enable_confidence_head",
    "confidence_head_with_markov", "dflash_config", "dspark_config",
)  # fmt: skip

# Keys that are no misspelling, however near they are to one of those.
KNOWN = frozenset(
    {
        *SPELT,
        *(alias.path[-1] for spelt in ALIASES.values() for alias in spelt),
        *("num_target_layers", "runtime_block_size", "num_aux_hidden_states", "vocab_size"),
        *("num_hidden_layers", "hidden_size", "num_anchors", "dspark_draft_topk"),
    }
)
