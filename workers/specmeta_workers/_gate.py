"""The acceptance gate: speculation that no longer pays is turned off for good."""

from __future__ import annotations

import logging
from collections import deque
from statistics import fmean
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from specmeta import DecodingConfig

    from ._requests import RequestResult

_log = logging.getLogger("specmeta_workers")


@attrs.define(eq=False)
class AcceptanceGate:
    """Watches how many drafts requests accept; once open is False, it stays so.

    A request counts with the mean of its accepted drafts a step, the bonus token left out. When the
    last `window` requests together have a mean below `threshold`, speculation does not pay.
    """

    window: int
    """Requests of the rolling mean; the gate judges nothing before it has seen that many."""
    threshold: float
    """Accepted drafts a step."""
    open: bool = attrs.field(init=False, default=True)
    """Whether to speculate."""
    reason: str | None = attrs.field(init=False, default=None)
    """Why the gate has closed; None while it is open."""
    _means: deque[float] = attrs.field(
        init=False, default=attrs.Factory(lambda self: deque(maxlen=self.window), takes_self=True)
    )

    @classmethod
    def of(cls, decoding: DecodingConfig) -> AcceptanceGate | None:
        """The gate that a user asked for; None where there is none."""
        window, threshold = decoding.acceptance_rate_window_size, decoding.acceptance_rate_threshold
        if window is None or threshold is None:  # the config has both or neither
            return None
        return cls(window, threshold)

    def record(self, result: RequestResult) -> None:
        """Take a completed request into the mean; one without a decode iteration says nothing.

        Closing the gate logs a warning.
        """
        if not self.open or not result.decode_iterations:
            return
        self._means.append(result.accept_length - 1)
        if len(self._means) < self.window:
            return
        mean = fmean(self._means)
        if mean < self.threshold:
            self.open = False
            self.reason = (
                f"the last {self.window} requests accepted {mean:.3f} drafts a step on average, "
                f"below the acceptance_rate_threshold of {self.threshold:g}"
            )
            _log.warning(
                "speculation is off for good: %s. Outputs stay right, but come one token a "
                "step; check that the drafter was trained for this target and such prompts, or "
                "lower the threshold and start again",
                self.reason,
            )
