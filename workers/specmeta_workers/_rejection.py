"""Speculative sampling: drafts are accepted so that the output has the target's distribution.

A draft x of draft probability q(x) and target probability p(x) is accepted with probability
`min(1, p(x) / q(x))`; the first rejected one is replaced by a draw from the normalised
`max(p - q, 0)`; behind the last accepted draft one token comes from p (Leviathan et al., arXiv
2211.17192).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ._sampling import sample


def accept_by_rejection(
    target: Tensor,
    drafter: Tensor,
    drafts: Tensor,
    exists: Tensor,
    accept_numbers: Tensor,
    sample_numbers: Tensor,
) -> tuple[Tensor, Tensor]:
    """Tokens `[R, K + 1]` and how many of them each row commits `[R]`, the last one drawn here.

    Args:
        target: distributions `[R, K + 1, V]` of the tokens in each column.
        drafter: distributions `[R, K, V]` that the drafts were drawn from.
        drafts: draft tokens `[R, K]`.
        exists: whether a row brought the draft of a column `[R, K]`; those that it did come first.
        accept_numbers: uniform numbers `[R, K]`.
        sample_numbers: uniform numbers `[R, K + 1]`, independent of the others.

    """
    of_target = target[:, :-1].gather(-1, drafts[..., None]).squeeze(-1)
    of_drafter = drafter.gather(-1, drafts[..., None]).squeeze(-1).to(target.dtype)
    # u < p / q without the division, whose rounding could refuse where p equals q; a draft that
    # cannot have been drawn is never accepted.
    passes = (accept_numbers * of_drafter < of_target) | (of_target >= of_drafter)
    passes = passes & (of_drafter > 0) & exists
    kept = passes.cumprod(1).sum(1)
    column = kept[:, None, None].expand(-1, 1, target.shape[-1])
    p = target.gather(1, column).squeeze(1)
    q = drafter.gather(1, column.clamp(max=drafts.shape[1] - 1)).squeeze(1)
    residual = (p - q.to(target.dtype)).clamp(min=0)
    # Behind the drafts of a row nothing has been tried: its token comes from p, whatever an earlier
    # step left in `drafter`. A rejection implies mass in p - q, but rounding may leave none.
    is_rejected = (kept < exists.sum(1))[:, None] & (residual.sum(-1, keepdim=True) > 0)
    drawn = sample(
        torch.where(is_rejected, residual, p), sample_numbers.gather(1, kept[:, None]).squeeze(1)
    )
    columns = torch.arange(target.shape[1], device=target.device)
    tokens = torch.where(columns < kept[:, None], F.pad(drafts, (0, 1)), drawn[:, None])
    return tokens, kept + 1
