"""Rules on what a block drafter's metadata copies from the deployment: captured layers, block,
window.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._errors import show
from ._types import MAX_BLOCK_SIZE

if TYPE_CHECKING:
    from ._metadata import _BlockSpecMetadata


def layer_problem(field: str, layers: tuple[int, ...], lowest: int) -> InitErrorDetails | None:
    """The first violation of "at least one layer, strictly increasing, from `lowest` on", if
    any.
    """
    if not layers:
        return rules.LAYERS_NOT_INCREASING.broken(field, "is empty", value=layers)
    before = lowest - 1
    for index, layer in enumerate(layers):
        if layer < lowest:
            fact = f"{show(layer)} is below {lowest}, which stands for the embedding output"
            return rules.LAYER_OUT_OF_RANGE.broken(field, fact, value=layer, index=index)
        if layer <= before:
            fact = f"{show(layer)} comes after {show(before)}, layers must strictly increase"
            return rules.LAYERS_NOT_INCREASING.broken(field, fact, value=layer, index=index)
        before = layer
    return None


def block_problem(size: int) -> InitErrorDetails | None:
    """The violation of "1 to MAX_BLOCK_SIZE positions", if any."""
    if 1 <= size <= MAX_BLOCK_SIZE:
        return None
    fact = f"{show(size)} is outside 1 ... {MAX_BLOCK_SIZE}"
    return rules.BLOCK_SIZE_OUT_OF_RANGE.broken("block_size", fact, value=size)


def drafting_is_valid(fields: dict[str, Any]) -> bool:
    """Whether these already type-checked fields obey every rule of `explain_drafting`."""
    layers: tuple[int, ...] = fields["layers_to_capture"]
    draft_len: int = fields["max_draft_len"]
    return (
        len(layers) > 0
        and layers[0] >= -1
        and sorted({*layers}) == [*layers]
        and draft_len <= fields["block_size"] <= MAX_BLOCK_SIZE
        and draft_len < fields["window_size"]
    )


def explain_drafting(metadata: "_BlockSpecMetadata") -> Iterator[Iterable[InitErrorDetails]]:
    """The rules on the drafting fields, each a generator of its violations."""
    yield _explain_layers(metadata)
    yield _explain_block(metadata)
    yield _explain_draft(metadata)
    yield _explain_window(metadata)


def _explain_layers(m: "_BlockSpecMetadata") -> Iterator[InitErrorDetails]:
    problem = layer_problem("layers_to_capture", m.layers_to_capture, -1)
    if problem is not None:
        yield problem


def _explain_block(m: "_BlockSpecMetadata") -> Iterator[InitErrorDetails]:
    problem = block_problem(m.block_size)
    if problem is not None:
        yield problem


def _explain_draft(m: "_BlockSpecMetadata") -> Iterator[InitErrorDetails]:
    if m.block_size >= 1 and m.max_draft_len > m.block_size:
        fact = f"{m.max_draft_len} is above block_size ({m.block_size})"
        yield rules.DRAFT_BEYOND_BLOCK.broken("max_draft_len", fact, value=m.max_draft_len)


def _explain_window(m: "_BlockSpecMetadata") -> Iterator[InitErrorDetails]:
    if m.window_size < m.max_draft_len + 1:
        fact = f"{m.window_size} is below max_draft_len + 1 ({m.max_draft_len + 1})"
        yield rules.WINDOW_TOO_SMALL.broken("window_size", fact, value=m.window_size)
