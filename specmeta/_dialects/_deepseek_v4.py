"""The DeepSeek-V4 form: the drafter bundled in the target's file, under `dspark_*` keys.

Its code fixes what no key says: prediction from the anchor slot, a block that sees itself whole,
layer outputs, one latent vector a position, a vanilla Markov head and a confidence head that reads
its embedding. The stages are `n_mtp_layers` where that is there, and one for each captured layer
where it is not; `num_nextn_predict_layers` counts MTP layers, not DSpark's stages.
"""

from .._drafter import DrafterConfig, DSparkDrafterConfig
from ._facts import Facts
from ._layers import draft_vocab, positions, rope_theta
from ._reading import Reading, block_fields, build, finish


def read(facts: Facts) -> Reading[DrafterConfig]:
    """The canonical form. Raises `CheckpointError` with every problem."""
    width, vocab = facts.size("hidden_size"), facts.size("vocab_size")
    fields = block_fields(facts, width)
    rank, layers = facts.required("markov_rank"), fields["target_layer_ids"]
    stages = facts.value("num_stages", len(layers) if isinstance(layers, tuple) else None)
    facts.is_from("num_stages", "num_layers")
    fields |= {
        "hidden_size": width,
        "num_layers": stages,
        "vocab_size": vocab,
        "draft_vocab_size": draft_vocab(facts, vocab, None),
        "max_position_embeddings": positions(facts, ()),
        "attention_kind": "latent",
        "num_attention_heads": facts.of_file("num_attention_heads"),
        "num_key_value_heads": None,
        "head_dim": facts.of_file("head_dim"),
        "intermediate_size": None,
        "rms_norm_eps": facts.of_file("rms_norm_eps"),
        "rope_theta": rope_theta(facts, ()),
        "sliding_window": facts.of_file("sliding_window"),
        "anchor_convention": facts.value("anchor_convention", "anchor_first"),
        "window_causality": facts.value("window_causality", "non_causal"),
        "markov_rank": rank,
        "markov_head_type": facts.value("markov_head_type", "vanilla") if rank != 0 else None,
        "enable_confidence_head": facts.value("enable_confidence_head", default=True),
        "confidence_head_with_markov": facts.value(
            "confidence_head_with_markov", default=rank != 0
        ),
    }
    return finish(facts, build(facts, DSparkDrafterConfig, fields), "deepseek_v4")
