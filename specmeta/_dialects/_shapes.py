"""Tensors of a drafter by name and shape, as its configuration gives them."""

from .._drafter import DFlashDrafterConfig, DrafterConfig, DSparkDrafterConfig, MTPDrafterConfig
from ._reading import Reading

Shape = tuple[int | None, ...]
"""Extents of a tensor; None where the configuration does not state the size."""

BORROWED = ("embed_tokens.weight", "lm_head.weight")
"""Tensors that a drafter may take from its target."""


def expected_tensors(reading: Reading[DrafterConfig]) -> dict[str, Shape]:
    """Name and shape of every tensor that a drafter of this form has in its own checkpoint; of a
    DeepSeek-V4 checkpoint those outside the expert layers.
    """
    config = reading.config
    if reading.dialect == "deepseek_v4" and isinstance(config, DSparkDrafterConfig):
        return _deepseek_v4(config)
    if isinstance(config, MTPDrafterConfig):
        return _mtp(config)
    shapes = _block(config)
    if isinstance(config, DSparkDrafterConfig):
        shapes |= _markov(config, "markov_head") | _confidence(config)
    if config.draft_vocab_size < config.vocab_size:
        shapes["lm_head.weight"] = (config.draft_vocab_size, config.hidden_size)
        shapes["d2t"] = (config.draft_vocab_size,)
    return shapes


def _layer(config: DrafterConfig, prefix: str) -> dict[str, Shape]:
    """A dense decoder layer of the Qwen3 kind."""
    width, head, inner = config.hidden_size, config.head_dim, config.intermediate_size
    queries = _product(config.num_attention_heads, head)
    keys = _product(config.num_key_value_heads, head)
    shapes: dict[str, Shape] = {
        "input_layernorm": (width,),
        "post_attention_layernorm": (width,),
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "self_attn.q_norm": (head,),
        "self_attn.k_norm": (head,),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
    return {f"{prefix}.{name}.weight": shape for name, shape in shapes.items()}


def _block(config: DSparkDrafterConfig | DFlashDrafterConfig) -> dict[str, Shape]:
    width, planes = config.hidden_size, len(config.target_layer_ids)
    shapes: dict[str, Shape] = {
        "fc.weight": (width, planes * config.target_hidden_size),
        "hidden_norm.weight": (width,),
        "norm.weight": (width,),
    }
    for index in range(config.num_layers):
        shapes |= _layer(config, f"layers.{index}")
    return shapes


def _markov(config: DSparkDrafterConfig, prefix: str) -> dict[str, Shape]:
    rank, width = config.markov_rank, config.hidden_size
    if not rank:
        return {}
    shapes: dict[str, Shape] = {
        f"{prefix}.markov_w1.weight": (config.vocab_size, rank),
        f"{prefix}.markov_w2.weight": (config.draft_vocab_size, rank),
    }
    if config.markov_head_type == "gated":
        shapes[f"{prefix}.gate_proj.weight"] = (rank, width + rank)
        shapes[f"{prefix}.gate_proj.bias"] = (rank,)
    elif config.markov_head_type == "rnn":
        shapes[f"{prefix}.joint_proj.weight"] = (3 * rank, 2 * rank + width)
        shapes[f"{prefix}.joint_proj.bias"] = (3 * rank,)
    return shapes


def _confidence(config: DSparkDrafterConfig, name: str = "confidence_head") -> dict[str, Shape]:
    if not config.enable_confidence_head:
        return {}
    width = config.hidden_size + config.markov_rank * config.confidence_head_with_markov
    return {f"{name}.proj.weight": (1, width), f"{name}.proj.bias": (1,)}


def _deepseek_v4(config: DSparkDrafterConfig) -> dict[str, Shape]:
    """The first stage projects the captured states, the last has the heads."""
    last, width = f"mtp.{config.num_layers - 1}", config.hidden_size
    shapes: dict[str, Shape] = {
        "mtp.0.main_proj.weight": (width, len(config.target_layer_ids) * config.target_hidden_size),
        "mtp.0.main_norm.weight": (width,),
    }
    if config.markov_rank:
        rows: Shape = (config.vocab_size, config.markov_rank)
        shapes |= {f"{last}.markov_head.{name}.weight": rows for name in ("w1", "w2")}
    return shapes | _confidence(config, f"{last}.confidence_head")


def _mtp(config: MTPDrafterConfig) -> dict[str, Shape]:
    width = config.hidden_size
    shapes: dict[str, Shape] = {
        "eh_proj.weight": (width, 2 * width),
        **{f"{name}.weight": (width,) for name in ("enorm", "hnorm", "norm")},
    }
    return shapes | _layer(config, "layer")


def _product(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left * right
