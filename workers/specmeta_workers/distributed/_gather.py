"""The one collective of a step: how many rows every generation rank decodes, and is it the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch

from ._errors import RankLostError

if TYPE_CHECKING:
    from ._mailbox import Mailbox


@attrs.frozen
class Gathered:
    """What all generation ranks know of a step, the same on each."""

    num_generations: tuple[int, ...]
    """Rows of each generation rank, as `all_rank_num_generations` wants them."""
    is_end: bool
    """Whether every rank said that it has nothing left in this part."""


class StepGather:
    """Attention DP over the generation ranks: equal numbers of equal collectives on each.

    Args:
        group: process group of the generation ranks alone.
        index: this rank's place in it.
        size: its ranks.
        mailbox: knows which rank was lost when a collective breaks.
        device: where the group's tensors live.

    """

    def __init__(
        self,
        group: Any,
        index: int,
        size: int,
        mailbox: Mailbox,
        device: torch.device | str = "cpu",
    ) -> None:
        self._group, self._index, self._size = group, index, size
        self._mailbox, self._device = mailbox, device
        self._step = 0

    def __call__(self, num_generations: int, max_num_requests: int, *, finished: bool) -> Gathered:
        """Exchange this rank's rows of the step for everybody's; no rank has more than the maximum.

        Raises:
            RankLostError: a rank was lost, or the ranks disagree on what a step is.

        """
        self._step += 1
        own = (self._step, num_generations, int(finished))
        mine = torch.tensor(own, device=self._device)
        theirs = [torch.empty_like(mine) for _ in range(self._size)]
        try:
            self._group.allgather([theirs], [mine]).wait()
        except RuntimeError as error:
            self._mailbox.explain(error, f"the gather of step {self._step}")
        return check_gathered(torch.stack(theirs).tolist(), self._index, own, max_num_requests)


def check_gathered(
    rows: list[list[int]], index: int, own: tuple[int, int, int], max_num_requests: int
) -> Gathered:
    """Refuse what cannot be one step of ranks that run the same plan.

    Args:
        rows: step number, rows and end flag of each generation rank.
        index: this rank's place.
        own: what it sent.
        max_num_requests: most rows of a rank.

    Raises:
        RankLostError: another step, a count out of range, or another entry than this rank's own.

    """
    if tuple(rows[index]) != own:
        raise RankLostError(
            f"all_rank_num_generations[{index}]: gathered {rows[index]}, this rank sent "
            f"{list(own)}; give every generation rank its own index in the group"
        )
    for other, (step, count, _) in enumerate(rows):
        if step != own[0]:
            raise RankLostError(
                f"generation ranks disagree: index {other} is at step {step}, this one at "
                f"{own[0]}; run the same plan on every rank"
            )
        if not 0 <= count <= max_num_requests:
            raise RankLostError(
                f"all_rank_num_generations[{other}]: {count} is not from 0 to max_num_requests "
                f"({max_num_requests}); run the same plan on every rank"
            )
    return Gathered(tuple(row[1] for row in rows), all(row[2] for row in rows))
