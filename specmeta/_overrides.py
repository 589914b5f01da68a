"""What a deployment says about itself beside its parts: overrides of rules, and what was compiled
for it.
"""

from typing import Annotated, final

from pydantic import Field, StringConstraints

from ._base import SpecModel
from ._types import (
    AnchorConvention,
    BlockSize,
    DecodingType,
    DraftLen,
    DType,
    LayerIds,
    PositiveInt,
    WindowCausality,
)

_Text = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"\S")]


@final
class RuleOverride(SpecModel, frozen=True):
    """One rule that a deployment breaks on purpose."""

    rule: _Text
    """Name of an overridable rule: ``specmeta rules`` lists them."""

    reason: _Text
    """Why breaking it is right here; shown by every check."""


MOST_OVERRIDES = 64
"""Far more than there are rules that may be overridden."""

RuleOverrides = Annotated[tuple[RuleOverride, ...], Field(max_length=MOST_OVERRIDES)]


@final
class CompileKey(SpecModel, frozen=True):
    """The facts that a captured graph or a compiled kernel depends on.

    Stored beside the artefact, and compared before it is used: K, the block, the anchor convention,
    the captured layers and the window change the computation without changing every shape.
    """

    decoding_type: DecodingType
    """Method that it was compiled for."""

    max_draft_len: DraftLen
    """Draft tokens of a step (K), in tokens."""

    dtype: DType
    """Type of the target's hidden states."""

    layers_to_capture: LayerIds
    """Captured target layers, i the output of layer i, -1 the embedding's."""

    window_size: PositiveInt
    """Context positions that the drafter attends to, in tokens."""

    block_size: BlockSize | None
    """Positions of a block at run time; None for MTP, which has none."""

    anchor_convention: AnchorConvention | None
    """What a block slot predicts; None for MTP."""

    window_causality: WindowCausality | None
    """What a block position sees of its block; None for MTP."""
