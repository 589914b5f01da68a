"""Tensors of a checkpoint against its configuration, by name and shape alone."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from .. import _rules as rules
from .._drafter import DrafterConfig, MTPDrafterConfig
from .._files import Tensor
from .._findings import Finding, finding
from .._target import TargetConfig
from ._quantized import is_packed, owner_of, stands_for
from ._reading import Reading
from ._shapes import BORROWED, Shape, expected_tensors
from ._spelling import how_to_state

_NAMED = 5
_WHOLE = frozenset({"I64", "I32", "U32", "I16", "U16", "U64"})
# Forms whose layers are known by name and shape.
_PLAIN = (["Qwen3DSparkModel"], ["DFlashDraftModel"], ["Qwen3MTPModel"])


def check_weights(
    reading: Reading[DrafterConfig],
    tensors: Mapping[str, Tensor],
    *,
    target: TargetConfig | None = None,
) -> tuple[Finding, ...]:
    """What the tensors of a checkpoint say against its configuration.

    GGUF metadata and the MTP layers in a target have no names to compare with.
    """
    if reading.dialect in ("gguf", "mtp"):
        return ()
    config, expected = reading.config, expected_tensors(reading)
    found = [*_compare(reading, expected, tensors, target)]
    if reading.dialect in ("deepspec", "zlab", "specmeta") and _is_plain(reading):
        found += _unclaimed(reading, expected, tensors)
    if config.draft_vocab_size < config.vocab_size and not _has("lm_head.weight", tensors):
        told = f"the drafter has {config.draft_vocab_size} draft tokens and no head of its own"
        rows = "" if target is None else f"; the target's has {target.vocab_size} rows"
        found.append(_finding(reading, rules.DRAFT_HEAD_DIFFERS, "lm_head.weight", told + rows))
    return tuple(found)


def _compare(
    reading: Reading[DrafterConfig],
    expected: Mapping[str, Shape],
    tensors: Mapping[str, Tensor],
    target: TargetConfig | None,
) -> Iterator[Finding]:
    missing, config = [], reading.config
    shared: dict[str, Shape] = {
        "embed_tokens.weight": (config.vocab_size, config.hidden_size),
        "lm_head.weight": (config.draft_vocab_size, config.hidden_size),
        "d2t": (config.draft_vocab_size,),
        "t2d": (config.vocab_size,),
    }
    for name, shape in {**shared, **expected}.items():
        tensor = tensors.get(name) or tensors.get(name.removesuffix(".weight"))
        if tensor is None:
            if name in expected and not _has(name, tensors) and not _may_be_absent(reading, name):
                missing.append(name)
        elif not is_packed(name, tensor, tensors) and not _fits(tensor.shape, shape):
            yield _misshapen(reading, name, tensor, shape, target)
        elif name == "d2t" and tensor.dtype not in _WHOLE:
            told = f"has the type {tensor.dtype}, which does not hold every token id"
            yield _finding(reading, rules.D2T_TYPE_DIFFERS, name, told, value=tensor)
    if missing:
        told = f"{len(missing)} tensors are not there: {_listed(missing)}"
        yield _finding(reading, rules.TENSOR_MISSING, missing[0], told)


def _misshapen(
    reading: Reading[DrafterConfig],
    name: str,
    tensor: Tensor,
    shape: Shape,
    target: TargetConfig | None,
) -> Finding:
    """The finding of a tensor of another shape, under the rule that says most about it."""
    told = f"has the shape {list(tensor.shape)}"
    projects = name.endswith(("fc.weight", "main_proj.weight")) and len(tensor.shape) == 2
    if projects and tensor.shape[1] != shape[1]:
        return _wrong_width(reading, name, tensor, target)
    rule = rules.TENSOR_SHAPE_DIFFERS
    if "markov" in name and tensor.shape[:1] != shape[:1]:
        rule = rules.MARKOV_ROWS_DIFFER
    elif name in ("d2t", "t2d"):
        rule = rules.D2T_LENGTH_DIFFERS
    elif name == "lm_head.weight":
        rule = rules.DRAFT_HEAD_DIFFERS
    wanted = f"and the configuration gives {[*shape]}"
    return _finding(reading, rule, name, f"{told}, {wanted}", value=tensor)


def _wrong_width(
    reading: Reading[DrafterConfig], name: str, tensor: Tensor, target: TargetConfig | None
) -> Finding:
    """The finding of a projection of another width; with one plane too many, how to state the layer
    that the file may leave out.
    """
    config = reading.config
    assert not isinstance(config, MTPDrafterConfig)
    ids, width = config.target_layer_ids, config.target_hidden_size
    planes = tensor.shape[1] / width
    told = f"has the shape {list(tensor.shape)}, {planes:g} planes of {width}, "
    rule = rules.PROJECTION_WIDTH_DIFFERS
    found = _finding(reading, rule, name, f"{told}and {len(ids)} layer ids", value=tensor)
    if target is None or tensor.shape != (config.hidden_size, (len(ids) + 1) * width):
        return found
    last = target.num_layers - (config.layer_id_convention == "output_of_layer")
    if ids[-1] >= last:
        return found
    value = f"[{','.join(map(str, (*ids, last)))}]"
    fact = f"{found.fact}: the target's last layer may be implied"
    return replace(found, fact=fact, remedy=how_to_state("target_layer_ids", value))


def _unclaimed(
    reading: Reading[DrafterConfig], expected: Mapping[str, Shape], tensors: Mapping[str, Tensor]
) -> Iterator[Finding]:
    known = {*expected, *BORROWED, "d2t", "t2d"}
    biased = _raw(reading).get("attention_bias") is True
    left = [
        name
        for name in sorted(tensors)
        if name not in known
        and f"{name}.weight" not in known
        and owner_of(name) not in known
        and not name.endswith("inv_freq")
        and not (biased and name.endswith("_proj.bias"))
    ]
    if left:
        told = f"{len(left)} tensors that nothing reads: {_listed(left)}"
        yield _finding(reading, rules.TENSOR_UNCLAIMED, left[0], told, value=tensors[left[0]])


def _listed(names: list[str]) -> str:
    """The first names, short."""
    return ", ".join(names[:_NAMED]) + " …" * (len(names) > _NAMED)


def _has(name: str, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a tensor is there, as it is or packed."""
    names: Iterable[str] = (name, name.removesuffix(".weight"), *stands_for(name))
    return any(other in tensors for other in names)


def _may_be_absent(reading: Reading[DrafterConfig], name: str) -> bool:
    """Tensors that a drafter shares, that some are published without, or whose names no published
    source of the form states.
    """
    if name in BORROWED or name.endswith(".bias"):
        return True
    return name.startswith("layers.") and not _is_plain(reading)


def _raw(reading: Reading[DrafterConfig]) -> Mapping[str, object]:
    document = reading.origins[()].document
    return document.data if document is not None and isinstance(document.data, dict) else {}


def _is_plain(reading: Reading[DrafterConfig]) -> bool:
    """Whether the layers have the names of the Qwen3 kind and nothing beside them."""
    return reading.dialect != "speculators" and _raw(reading).get("architectures") in _PLAIN


def _finding(
    reading: Reading[DrafterConfig],
    rule: rules.Rule,
    name: str,
    told: str,
    value: Tensor | None = None,
) -> Finding:
    if value is None:
        return finding(rule, name, told, value=None, origin=reading.origins[()])
    found = finding(rule, name, told, value=str(list(value.shape)))
    return replace(found, file=value.file)


def _fits(shape: tuple[int, ...], wanted: Shape) -> bool:
    return len(shape) == len(wanted) and all(
        right is None or left == right for left, right in zip(shape, wanted, strict=True)
    )
