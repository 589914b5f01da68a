"""What the user chooses about speculation."""

from collections.abc import Sequence
from typing import Annotated, Literal, final

from pydantic import Field
from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._base import SpecModel
from ._types import DraftLen, PositiveInt, UnitFloat


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

    def broken_rules(self) -> Sequence[InitErrorDetails]:
        problems = [*super().broken_rules()]
        window, threshold = self.acceptance_rate_window_size, self.acceptance_rate_threshold
        if (window is None) != (threshold is None):
            absent = (
                "acceptance_rate_window_size" if window is None else "acceptance_rate_threshold"
            )
            given = "acceptance_rate_threshold" if window is None else "acceptance_rate_window_size"
            fact = f"None although {given} is set"
            problems.append(rules.ACCEPTANCE_GATE_INCOMPLETE.broken(absent, fact, value=None))
        return problems


@final
class DSparkDecodingConfig(_Decoding, frozen=True):
    """Choices for DSpark."""

    decoding_type: Literal["DSpark"] = "DSpark"
    """Method tag, by which unions are told apart."""


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


DecodingConfig = Annotated[
    DSparkDecodingConfig | DFlashDecodingConfig | MTPDecodingConfig,
    Field(discriminator="decoding_type"),
]
"""Choices for any method, told apart by ``decoding_type``."""
