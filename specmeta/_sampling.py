"""How a request is sampled."""

from typing import Annotated, Any, final

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from ._base import SpecModel
from ._types import NonNegativeFloat, NonNegativeInt, PositiveInt, PositiveUnitFloat


@final
class SamplingParams(SpecModel, frozen=True):
    """How the tokens of one request are drawn: temperature first, then top-k, then top-p.

    Random numbers are a function of the seed and the token's position, so the same parameters give
    the same output at any batch size.
    """

    temperature: NonNegativeFloat
    """Divisor of the logits; 0 takes the most likely token."""

    seed: NonNegativeInt
    """Start of the request's random numbers. Required: a default would give all requests without a
    seed one random stream (NVIDIA/TensorRT-LLM#19487)."""

    top_k: PositiveInt | None = None
    """Most likely tokens that are drawn from, in tokens; None is all."""

    top_p: PositiveUnitFloat = 1.0
    """Probability that the most likely tokens must reach together, others are not drawn; 1 is
    all."""


def _as_built(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Objects of the class are valid since they were built: one C-level sweep over their types."""
    if type(value) is tuple and {*map(type, value)} <= {SamplingParams}:
        return value
    return handler(value)


SamplingRows = Annotated[
    tuple[SamplingParams, ...], Field(fail_fast=True), WrapValidator(_as_built)
]
