"""Tensors of a checkpoint against its configuration, by name and shape alone."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from .. import _rules as rules
from .._drafter import DFlashDrafterConfig, DrafterConfig, DSparkDrafterConfig, MTPDrafterConfig
from .._files import Tensor
from .._findings import Finding, finding
from .._target import TargetConfig
from ._reading import Reading

Shape = tuple[int | None, ...]
"""Extents of a tensor; None where the configuration does not state the size."""

_BORROWED = ("embed_tokens.weight", "lm_head.weight")
_NAMED = 5


def expected_tensors(reading: Reading) -> dict[str, Shape]:
    """Name and shape of every tensor that a drafter of this form has in its own checkpoint; of a
    DeepSeek-V4 checkpoint those outside the expert layers.
    """
    config = reading.config
    assert not isinstance(config, TargetConfig)
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


def check_weights(
    reading: Reading, tensors: Mapping[str, Tensor], *, target: TargetConfig | None = None
) -> tuple[Finding, ...]:
    """What the tensors of a checkpoint say against its configuration.

    GGUF metadata and the MTP layers in a target have no names to compare with.
    """
    config = reading.config
    if isinstance(config, TargetConfig) or reading.dialect in ("gguf", "mtp"):
        return ()
    expected = expected_tensors(reading)
    found = [*_compare(reading, config, expected, tensors)]
    if reading.dialect in ("deepspec", "zlab", "specmeta") and not _is_gemma(reading):
        found += _unclaimed(reading, expected, tensors)
    if config.draft_vocab_size < config.vocab_size and "lm_head.weight" not in tensors:
        told = f"the drafter has {config.draft_vocab_size} draft tokens and no head of its own"
        rows = "" if target is None else f"; the target's has {target.vocab_size} rows"
        found.append(_finding(reading, rules.DRAFT_HEAD_DIFFERS, "lm_head.weight", told + rows))
    return tuple(found)


def _compare(
    reading: Reading,
    config: DrafterConfig,
    expected: Mapping[str, Shape],
    tensors: Mapping[str, Tensor],
) -> Iterator[Finding]:
    missing = []
    shared: dict[str, Shape] = {
        "embed_tokens.weight": (config.vocab_size, config.hidden_size),
        "lm_head.weight": (config.draft_vocab_size, config.hidden_size),
        "d2t": (config.draft_vocab_size,),
    }
    for name, shape in {**shared, **expected}.items():
        tensor = tensors.get(name) or tensors.get(name.removesuffix(".weight"))
        if tensor is None:
            if name in expected and not _may_be_absent(reading, name):
                missing.append(name)
        elif not _fits(tensor.shape, shape):
            yield _misshapen(reading, config, name, tensor, shape)
    if missing:
        names = ", ".join(missing[:_NAMED])
        told = f"{len(missing)} tensors are not there: {names}{' …' * (len(missing) > _NAMED)}"
        yield _finding(reading, rules.TENSOR_MISSING, missing[0], told)


def _misshapen(
    reading: Reading, config: DrafterConfig, name: str, tensor: Tensor, shape: Shape
) -> Finding:
    """The finding of a tensor of another shape, under the rule that says most about it."""
    rule, told = rules.TENSOR_SHAPE_DIFFERS, f"has the shape {list(tensor.shape)}"
    wanted = f"and the configuration gives {[*shape]}"
    if name.endswith(("fc.weight", "main_proj.weight")) and len(tensor.shape) == 2:
        assert not isinstance(config, MTPDrafterConfig)
        planes = tensor.shape[1] / config.target_hidden_size
        count = f"{planes:g} planes of {config.target_hidden_size}"
        rule = rules.PROJECTION_WIDTH_DIFFERS
        wanted = f"{count}, and {len(config.target_layer_ids)} layer ids"
    elif "markov" in name and tensor.shape[:1] != shape[:1]:
        rule = rules.MARKOV_ROWS_DIFFER
    elif name == "d2t":
        rule = rules.D2T_LENGTH_DIFFERS
    elif name == "lm_head.weight":
        rule = rules.DRAFT_HEAD_DIFFERS
    return _finding(reading, rule, name, f"{told}, {wanted}", value=tensor)


def _unclaimed(
    reading: Reading, expected: Mapping[str, Shape], tensors: Mapping[str, Tensor]
) -> Iterator[Finding]:
    known = {*expected, *_BORROWED, "d2t", "t2d"}
    biased = _raw(reading).get("attention_bias") is True
    left = [
        name
        for name in sorted(tensors)
        if name not in known
        and f"{name}.weight" not in known
        and not name.endswith("inv_freq")
        and not (biased and name.endswith("_proj.bias"))
    ]
    if left:
        names = ", ".join(left[:_NAMED])
        told = f"{len(left)} tensors that nothing reads: {names}{' …' * (len(left) > _NAMED)}"
        yield _finding(reading, rules.TENSOR_UNCLAIMED, left[0], told, value=tensors[left[0]])


def _may_be_absent(reading: Reading, name: str) -> bool:
    """Tensors that a drafter shares, that some are published without, or whose names no published
    source of the form states.
    """
    if name in _BORROWED or name.endswith(".bias"):
        return True
    return name.startswith("layers.") and (reading.dialect == "speculators" or _is_gemma(reading))


def _raw(reading: Reading) -> Mapping[str, object]:
    data = reading.origins[()].document.data
    return data if isinstance(data, dict) else {}


def _is_gemma(reading: Reading) -> bool:
    """Whether the layers have norms that those of the Qwen3 kind have not."""
    return _raw(reading).get("architectures") == ["Gemma4DSparkModel"]


def _finding(
    reading: Reading, rule: rules.Rule, name: str, told: str, value: Tensor | None = None
) -> Finding:
    origin = reading.origins.get(())
    assert origin is not None
    if value is None:
        return finding(rule, name, told, value=None, origin=origin)
    found = finding(rule, name, told, value=str(list(value.shape)))
    return replace(found, file=value.file)


def _fits(shape: tuple[int, ...], wanted: Shape) -> bool:
    return len(shape) == len(wanted) and all(
        right is None or left == right for left, right in zip(shape, wanted, strict=True)
    )


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
