"""What the user chooses about speculation."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Literal, final

from pydantic import Field
from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._base import SpecModel
from ._types import DraftLen, PositiveInt, StepRates, UnitFloat


class _Decoding(SpecModel, frozen=True):
    """Choices that every method offers."""

    max_draft_len: DraftLen
    """Draft tokens verified in one step (K), in tokens; a generation row takes K + 1 target
    tokens."""

    use_rejection_sampling: bool = False
    """Accept drafts by ratio rejection sampling; False accepts a draft that equals the target's
    token."""

    acceptance_rate_window_size: PositiveInt | None = None
    """Finished requests over which the acceptance gate averages; None is no gate, as is its
    threshold then."""

    acceptance_rate_threshold: UnitFloat | None = None
    """Mean of accepted drafts a step below which the gate turns speculation off; None is no
    gate."""

    def checks(self) -> Iterator[Iterable[InitErrorDetails]]:
        yield from super().checks()
        yield self._gate()

    def _gate(self) -> Iterator[InitErrorDetails]:
        window, threshold = self.acceptance_rate_window_size, self.acceptance_rate_threshold
        if (window is None) != (threshold is None):
            names = ("acceptance_rate_window_size", "acceptance_rate_threshold")
            absent, given = names if window is None else reversed(names)
            fact = f"is absent although {given} is set"
            yield rules.ACCEPTANCE_GATE_INCOMPLETE.broken(absent, fact, value=None)


@final
class DSparkDecodingConfig(_Decoding, frozen=True):
    """Choices for DSpark."""

    decoding_type: Literal["DSpark"] = "DSpark"
    """Method tag, by which unions are told apart."""

    confidence_threshold: UnitFloat | None = None
    """Confidence below which a draft and those behind it are not verified; None verifies all."""

    steps_per_second: StepRates | None = None
    """Measured speed of the target: pairs (tokens of a batch, steps a second), tokens increasing.
    With it, the drafts that are verified are chosen for throughput; None verifies what the
    threshold leaves."""

    def checks(self) -> Iterator[Iterable[InitErrorDetails]]:
        yield from super().checks()
        yield self._rates()

    def _rates(self) -> Iterator[InitErrorDetails]:
        rates, field = self.steps_per_second, "steps_per_second"
        if rates is None:
            return
        if not rates:
            yield rules.STEP_RATES_NOT_INCREASING.broken(field, "is empty", value=rates)
        for index, ((before, _), (tokens, _)) in enumerate(pairwise(rates), 1):
            if tokens <= before:
                fact = f"{tokens} tokens come after {before}, token counts must strictly increase"
                yield rules.STEP_RATES_NOT_INCREASING.broken(field, fact, value=tokens, index=index)
                break


@final
class DFlashDecodingConfig(_Decoding, frozen=True):
    """Choices for DFlash."""

    decoding_type: Literal["DFlash"] = "DFlash"
    """Method tag, by which unions are told apart."""


@final
class MTPDecodingConfig(_Decoding, frozen=True):
    """Choices for MTP."""

    decoding_type: Literal["MTP"] = "MTP"
    """Method tag, by which unions are told apart."""


DECODING_CONFIGS: Mapping[
    str, type[DSparkDecodingConfig | DFlashDecodingConfig | MTPDecodingConfig]
] = MappingProxyType(
    {"DSpark": DSparkDecodingConfig, "DFlash": DFlashDecodingConfig, "MTP": MTPDecodingConfig}
)

DecodingConfig = Annotated[
    DSparkDecodingConfig | DFlashDecodingConfig | MTPDecodingConfig,
    Field(discriminator="decoding_type"),
]
"""Choices for any method, told apart by ``decoding_type``."""
