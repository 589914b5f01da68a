"""What a worker returns for a step."""

from __future__ import annotations

import attrs
from torch import Tensor

Parts = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]
"""The fields of a `DraftOutput`, in order: what a path that is traced can return."""


@attrs.frozen(eq=False)
class DraftOutput:
    """What a step decided, one row a row of the metadata, padding included.

    Row r commits `tokens[r, : num_accepted[r]]`; later columns mean nothing.
    """

    tokens: Tensor
    """The target's tokens `[R, K + 1]`; a context row has one, in column 0."""
    num_accepted: Tensor
    """Tokens to commit `[R]`, 1 to K + 1, the bonus token included; 1 for a context."""
    draft_tokens: Tensor
    """Drafts `[R, K]` behind the last committed token, for the row's next step."""
    draft_lens: Tensor
    """Drafts of each row `[R]` that are worth verifying, 0 to K: K unless a confidence threshold
    cuts them."""
    confidence: Tensor | None = None
    """Chance `[R, K]` that each draft is accepted, given that those before it were; None where the
    deployment does not use it."""
