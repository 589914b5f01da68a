from typing import Any

import pytest

from specmeta_workers.distributed import Gathered, RankLostError, StepGather
from specmeta_workers.distributed._gather import check_gathered
from tests.distributed.group_cases import in_threads, make_groups


def make_gathers(size: int) -> list[StepGather]:
    mailbox: Any = None  # only asked where a collective breaks
    groups = make_groups(size, 20.0)
    return [StepGather(group, index, size, mailbox) for index, group in enumerate(groups)]


def test_every_rank_gets_the_rows_of_all_in_rank_order() -> None:
    gathers = make_gathers(3)
    for counts in ((4, 0, 2), (0, 0, 0), (4, 4, 1)):
        got = in_threads(
            [
                lambda gather=gather, count=count: gather(count, 4, finished=count == 0)  # type: ignore[misc]
                for gather, count in zip(gathers, counts, strict=True)
            ]
        )
        assert got == [Gathered(counts, counts == (0, 0, 0))] * 3


def test_the_end_needs_every_rank() -> None:
    assert check_gathered([[5, 0, 1], [5, 0, 0]], 0, (5, 0, 1), 4).is_end is False
    assert check_gathered([[5, 0, 1], [5, 0, 1]], 0, (5, 0, 1), 4).is_end is True


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[5, 1, 0], [5, 2, 0]], r"all_rank_num_generations\[0\]: gathered \[5, 1, 0\], this rank"),
        ([[5, 3, 0], [6, 2, 0]], "index 1 is at step 6, this one at 5"),
        ([[5, 3, 0], [5, -1, 0]], r"all_rank_num_generations\[1\]: -1 is not from 0 to max_num_r"),
        ([[5, 3, 0], [5, 5, 0]], r"all_rank_num_generations\[1\]: 5 is not from 0 to .*\(4\)"),
    ],
)
def test_what_cannot_be_one_step_is_refused(rows: list[list[int]], message: str) -> None:
    with pytest.raises(RankLostError, match=message):
        check_gathered(rows, 0, (5, 3, 0), 4)
