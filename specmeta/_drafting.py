"""Rules on what a block drafter's metadata copies from the deployment: captured layers, block,
window.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._errors import show

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


def drafting_is_valid(fields: dict[str, Any]) -> bool:
    """Whether these already type-checked fields obey every rule of `explain_drafting`."""
    layers: tuple[int, ...] = fields["layers_to_capture"]
    draft_len: int = fields["max_draft_len"]
    return (
        len(layers) > 0
        and layers[0] >= -1
        and sorted({*layers}) == [*layers]
        and draft_len <= fields["block_size"]
        and draft_len < fields["window_size"]
    )


def explain_drafting(metadata: "_BlockSpecMetadata") -> Iterator[InitErrorDetails]:
    """Every rule that the drafting fields break."""
    m = metadata
    problem = layer_problem("layers_to_capture", m.layers_to_capture, -1)
    if problem is not None:
        yield problem
    if m.max_draft_len > m.block_size:
        fact = f"{m.max_draft_len} is above block_size ({m.block_size})"
        yield rules.DRAFT_BEYOND_BLOCK.broken("max_draft_len", fact, value=m.max_draft_len)
    if m.window_size < m.max_draft_len + 1:
        fact = f"{m.window_size} is below max_draft_len + 1 ({m.max_draft_len + 1})"
        yield rules.WINDOW_TOO_SMALL.broken("window_size", fact, value=m.window_size)
