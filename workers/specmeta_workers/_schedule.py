"""How many drafts of each row to verify, so that a batch yields the most tokens a second.

Algorithm 1 of the DSpark paper, on the host. Verifying one more draft is worth the chance that it
survives, and costs the time by which a larger batch slows the step.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from statistics import median
from typing import TYPE_CHECKING

import attrs
import torch

from ._target_layout import TargetRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._target import TargetRunner


@attrs.frozen
class StepRates:
    """Target steps a second as a function of the tokens of a batch."""

    table: tuple[tuple[int, float], ...]
    """Measured pairs (tokens, steps a second) as `DSparkDecodingConfig.steps_per_second` checked
    them: at least one, tokens increasing."""

    def __call__(self, tokens: int) -> float:
        """Linear between the measured token counts, constant outside."""
        right = bisect_right(self.table, tokens, key=lambda pair: pair[0])
        if right == 0:
            return self.table[0][1]
        low, low_rate = self.table[right - 1]
        if right == len(self.table):
            return low_rate
        high, high_rate = self.table[right]
        return low_rate + (high_rate - low_rate) * (tokens - low) / (high - low)


def schedule_draft_lens(
    survival: Sequence[Sequence[float]], rates: StepRates, *, context_tokens: int = 0
) -> list[int]:
    """Drafts of each row to verify.

    With lengths l, the batch has `B = context_tokens + sum(1 + l_r)` tokens and yields
    `tau = sum(1 + a_r1 + ... + a_rl)` tokens on average, so `Theta = tau * rates(B)` a second.
    Drafts are taken in the order of their survival, all rows together, until one does not raise
    Theta. No later draft is looked at: whether a draft is verified must not depend on what follows
    it, or the output would not be distributed as the target's.

    Args:
        survival: for each row, the chance that its drafts up to each are all accepted (a_rj, the
            product of the confidences up to j); may be empty. A value above one before it counts as
            that one.
        rates: speed of the target.
        context_tokens: tokens that the same forward brings for context rows.

    Returns:
        A length for each row, 0 to the number of its drafts. Ties go to the earlier row.

    Raises:
        ValueError: a survival that is no probability.

    """
    candidates: list[tuple[float, int]] = []
    for row, chances in enumerate(survival):
        lowest = 1.0
        for index, chance in enumerate(chances):
            if not 0 <= chance <= 1:  # NaN would stand for any value in the sort
                raise ValueError(
                    f"survival[{row}][{index}]: {chance} is no probability; multiply confidences, "
                    "which are from 0 to 1"
                )
            lowest = min(lowest, chance)
            candidates.append((lowest, row))
    # Stable: equal chances stay in the order of rows, and in a row in that of its drafts.
    candidates.sort(key=lambda candidate: -candidate[0])
    lengths = [0] * len(survival)
    tokens, expected = context_tokens + len(survival), float(len(survival))
    best = expected * rates(tokens)
    for chance, row in candidates:
        tokens, expected = tokens + 1, expected + chance
        throughput = expected * rates(tokens)
        if throughput <= best:
            break
        best = throughput
        lengths[row] += 1
    return lengths


def measure_step_rates(
    target: TargetRunner,
    token_counts: Sequence[int],
    *,
    row_tokens: int,
    context_length: int,
    rounds: int = 5,
) -> tuple[tuple[int, float], ...]:
    """Time the target for `DSparkDecodingConfig.steps_per_second`: median of some forwards each.

    Runs on the scratch row of the store, so live requests keep their state.

    Args:
        target: the runner that will serve.
        token_counts: tokens of the batches to time, increasing.
        row_tokens: most tokens of a row, `max_draft_len + 1`; a batch has as few rows of about
            equal length as that allows.
        context_length: tokens that each row has behind it.
        rounds: forwards timed for each batch, after one that is not.

    Returns:
        Pairs (tokens, steps a second).

    Raises:
        ValueError: a row would outgrow the target's `max_seq_len`.

    """
    store = target.store
    scratch = store.scratch_slot
    before = store.lengths[scratch]
    table = []
    store.lengths[scratch] = context_length
    try:
        for count in token_counts:
            num_rows = -(-count // row_tokens)
            length, longer = divmod(count, num_rows)
            rows = TargetRows(
                num_contexts=0,
                seq_lens=(length + 1,) * longer + (length,) * (num_rows - longer),
                slots=(scratch,) * num_rows,
            )
            input_ids = torch.zeros(count, dtype=torch.long, device=target.device)
            seconds = [_seconds(target, rows, input_ids) for _ in range(1 + rounds)][1:]
            table.append((count, 1 / median(seconds)))
    finally:
        store.lengths[scratch] = before
    return tuple(table)


def _seconds(target: TargetRunner, rows: TargetRows, input_ids: torch.Tensor) -> float:
    start = time.perf_counter()
    target.forward(rows, input_ids)
    if target.device.type == "cuda":
        torch.cuda.synchronize(target.device)
    return time.perf_counter() - start
