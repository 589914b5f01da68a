"""Scalar types and constrained aliases that the models share.

Per-row tuples deliberately carry no element constraint: pydantic-core checks an element constraint
on an integer above ``2**63 - 1`` about nine times slower than a plain one, and reports one error
for each bad element. Their rules are checked on the whole tuple in ``_rows.py``; the JSON Schema of
each alias still states them.
"""

from typing import Annotated, Literal, NewType

from annotated_types import Ge, Gt, Le
from pydantic import AllowInfNan, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticKnownError

RequestId = NewType("RequestId", int)
"""Identity of a request. Distinct from `SeqSlot`, so that a checker refuses one where the other
belongs."""

SeqSlot = NewType("SeqSlot", int)
"""Index of a sequence slot, ``0 <= slot < num_seq_slots``; the worker's scratch slot is
``num_seq_slots``."""

DecodingType = Literal["DSpark", "DFlash", "MTP"]
DType = Literal["float64", "float32", "bfloat16", "float16"]
LayerIdConvention = Literal["output_of_layer", "input_of_layer"]
AnchorConvention = Literal["anchor_first", "mask_at_position"]
WindowCausality = Literal["non_causal", "causal"]
AttentionKind = Literal["grouped_query", "latent"]
TargetHiddenState = Literal["before_final_norm", "after_final_norm"]
MarkovHeadType = Literal["vanilla", "gated", "rnn"]

# Sizes and counts fit a signed 64-bit index, which is what every tensor library counts with.
_MAX_INT = 2**63 - 1

PositiveInt = Annotated[int, Gt(0), Le(_MAX_INT)]
# These bounds lie far above every published model: beyond them a number is a slip, and the sizes of
# buffers that follow from it mean nothing.
MAX_DRAFT_LEN = 1024
DraftLen = Annotated[int, Gt(0), Le(MAX_DRAFT_LEN)]  # also keeps the sets of the hot path small
LayerCount = Annotated[int, Gt(0), Le(2**16)]
Width = Annotated[int, Gt(0), Le(2**24)]
MarkovRank = Annotated[int, Ge(0), Le(2**24)]
VocabSize = Annotated[int, Gt(0), Le(2**31)]

# Rules of their own, checked in the models, bound these.
MAX_BLOCK_SIZE = MAX_DRAFT_LEN + 1
"""The block of the longest draft, its anchor included."""
BlockSize = Annotated[
    int, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_BLOCK_SIZE})
]
MaskTokenId = Annotated[
    int, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 2**31 - 1})
]
EvenWidth = Annotated[
    int,
    Gt(0),
    Le(2**24),
    WithJsonSchema({"type": "integer", "minimum": 2, "maximum": 2**24, "multipleOf": 2}),
]
NonNegativeInt = Annotated[int, Ge(0), Le(_MAX_INT)]


def _number(value: object) -> object:
    """Refuse what has a ``__float__`` but is no float: pydantic would convert a tensor."""
    if isinstance(value, int | float):
        return value
    raise PydanticKnownError("float_type")


PositiveFloat = Annotated[float, Gt(0), AllowInfNan(False), BeforeValidator(_number)]
NonNegativeFloat = Annotated[float, Ge(0), AllowInfNan(False), BeforeValidator(_number)]
UnitFloat = Annotated[float, Ge(0), Le(1), BeforeValidator(_number)]
PositiveUnitFloat = Annotated[float, Gt(0), Le(1), BeforeValidator(_number)]

# The largest id that is valid with the shortest draft (max_draft_len 1); the exact bound depends on
# another field, which JSON Schema cannot say.
_MAX_REQUEST_ID = 2**64 - 1 - 3 - 1


def _array(minimum: int, **keywords: object) -> WithJsonSchema:
    items: dict[str, object] = {"type": "integer", "minimum": minimum}
    if "item_maximum" in keywords:
        items["maximum"] = keywords.pop("item_maximum")
    return WithJsonSchema({"type": "array", "items": items, **keywords})


RequestIds = Annotated[
    tuple[RequestId, ...],
    Field(fail_fast=True),
    _array(1, uniqueItems=True, item_maximum=_MAX_REQUEST_ID),
]
SeqLens = Annotated[tuple[int, ...], Field(fail_fast=True), _array(1)]
Positions = Annotated[tuple[int, ...], Field(fail_fast=True), _array(0)]
RankCounts = Annotated[tuple[int, ...], Field(fail_fast=True), _array(0, minItems=1)]
LayerIds = Annotated[
    tuple[int, ...], Field(fail_fast=True), _array(-1, minItems=1, uniqueItems=True)
]
BatchSizes = Annotated[tuple[int, ...], Field(fail_fast=True), _array(1, uniqueItems=True)]
StepRates = Annotated[
    tuple[tuple[PositiveInt, PositiveFloat], ...],
    Field(fail_fast=True),
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "type": "array",
                "prefixItems": [
                    {"type": "integer", "minimum": 1, "maximum": _MAX_INT},
                    {"type": "number", "exclusiveMinimum": 0},
                ],
                "minItems": 2,
                "maxItems": 2,
            },
            "minItems": 1,
        }
    ),
]
