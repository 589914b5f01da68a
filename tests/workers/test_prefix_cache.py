"""Prompts that begin alike are computed once, and nothing shows in output or accept lengths."""

from typing import Any

import pytest
import torch

from specmeta import RequestId
from specmeta_workers import Executor, PrefixCache, Request
from tests.workers.life_cycle_cases import (
    KINDS,
    NEW_TOKENS,
    check_same,
    deployment_of,
    make_requests,
    prompt_of,
    rig_of,
    right,
    undisturbed,
)
from tests.workers.tiny_targets import tiny_qwen3

KIND = pytest.mark.parametrize("kind", KINDS)


def spy(rig: Any) -> list[tuple[int, int, int]]:
    """Keep (id, position, length) of the context rows that the target computes."""
    seen: list[tuple[int, int, int]] = []
    forward = rig.target.forward

    def recorded(rows: Any, input_ids: torch.Tensor) -> Any:
        owners = {rig.target.pool.lookup(i).slot: i for i in rig.target.pool}
        for row in range(rows.num_contexts):
            slot = rows.slots[row]
            seen.append((owners[slot], rig.target.store.lengths[slot], rows.seq_lens[row]))
        return forward(rows, input_ids)

    rig.target.forward = recorded
    return seen


@KIND
def test_a_second_run_computes_only_what_no_block_holds(kind: str) -> None:
    cache = PrefixCache(capacity_tokens=400)
    rig = rig_of(kind, {"prefix_cache": cache}, max_num_tokens=100)
    check_same(rig, kind, rig.serve(make_requests()))
    assert cache.num_tokens == 16 + 16 + 32 + 16  # prompts of 30, 17, 47 and 16 tokens
    seen = spy(rig)
    check_same(rig, kind, rig.serve(make_requests()))
    starts = {request_id: start for request_id, start, _ in seen}
    lengths = [len(r.prompt_token_ids) for r in make_requests()]
    # A whole prompt is never taken from the cache: 16 tokens in a block are computed again.
    assert starts == {
        r.request_id: max(0, n - 1) // 16 * 16
        for r, n in zip(make_requests(), lengths, strict=True)
    }


@KIND
def test_a_hit_seeds_the_worker_under_a_budget_below_its_window(kind: str) -> None:
    cache = PrefixCache(block_size=4, capacity_tokens=400)
    rig = rig_of(kind, {"prefix_cache": cache}, max_num_requests=2, max_num_tokens=9)
    for _ in range(2):
        check_same(rig, kind, rig.serve(make_requests()))


@KIND
def test_prompts_share_the_blocks_of_their_common_beginning(kind: str) -> None:
    cache = PrefixCache(block_size=8, capacity_tokens=400)
    rig = rig_of(kind, {"prefix_cache": cache}, max_num_tokens=100)
    common = tuple(prompt_of(4)[:24])
    first, second = (
        Request(RequestId(700 + i), (*common, *prompt_of(i)[:12]), NEW_TOKENS) for i in (1, 2)
    )
    alone = rig_of(kind, max_num_tokens=100)
    expected = alone.serve([second])
    rig.serve([first])
    seen = spy(rig)
    results = rig.serve([second])
    assert results == expected
    assert results[second.request_id].token_ids == right(second.prompt_token_ids)[:NEW_TOKENS]
    assert rig.worker.drafts == alone.worker.drafts
    assert seen == [(702, 24, 12)]
    assert cache.num_tokens == 24 + 8 + 8


@KIND
def test_a_preempted_request_takes_its_prompt_from_the_cache(kind: str) -> None:
    rig = rig_of(kind, {"prefix_cache": PrefixCache(capacity_tokens=400)}, max_num_tokens=100)
    request = make_requests()[4]  # 47 tokens
    seen = spy(rig)

    def act(step: int) -> None:
        if step == 3:
            rig.executor.preempt(request.request_id)

    results = rig.serve([request], act)
    check_same(rig, kind, results)
    known = 47 + sum(undisturbed(kind).results[request.request_id].accepted_lengths[:2])
    assert seen == [(request.request_id, 0, 47), (request.request_id, 32, known - 32)]


def blocks_of(cache: PrefixCache, tokens: list[int]) -> list[float]:
    return [float(block.captured[0, 0]) for block in cache.find(tokens)]


def fill(cache: PrefixCache, tokens: list[int], *, start: int = 0) -> None:
    """Keep a sequence whose state at each position is its token."""
    values = torch.tensor(tokens, dtype=torch.float64)
    kv = values.view(1, 1, -1, 1)
    cache.add(tokens, kv, kv, values[start:, None], start)


def test_equal_blocks_behind_different_beginnings_are_different() -> None:
    cache = PrefixCache(block_size=2, capacity_tokens=20)
    fill(cache, [1, 2, 3, 4])
    assert blocks_of(cache, [3, 4]) == []
    assert blocks_of(cache, [1, 2, 3, 4, 9]) == [1, 3]
    fill(cache, [5, 6, 3, 4])
    assert cache.num_tokens == 8
    assert blocks_of(cache, [5, 6, 3, 4]) == [5, 3]
    assert blocks_of(cache, [1, 2, 3, 5]) == [1]


def test_what_is_kept_is_a_copy() -> None:
    cache = PrefixCache(block_size=2, capacity_tokens=20)
    values = torch.ones(1, 1, 4, 1)
    states = torch.ones(4, 3)
    cache.add([1, 2, 3, 4], values, values, states, 0)
    values.zero_()
    states.zero_()
    for block in cache.find([1, 2, 3, 4]):
        assert block.keys.min() == block.values.min() == block.captured.min() == 1
        assert (block.keys.shape, block.captured.shape) == ((1, 1, 2, 1), (2, 3))


def test_the_least_recently_used_goes_first_and_ends_before_beginnings() -> None:
    cache = PrefixCache(block_size=1, capacity_tokens=4)
    fill(cache, [1, 2, 3])
    fill(cache, [7])
    assert blocks_of(cache, [1, 2]) == [1, 2]  # used: 3 is the oldest now
    fill(cache, [8])
    assert blocks_of(cache, [1, 2, 3]) == [1, 2]
    fill(cache, [9])
    assert blocks_of(cache, [7]) == []
    assert [blocks_of(cache, [t]) for t in (1, 8, 9)] == [[1], [8], [9]]
    assert cache.num_tokens == 4


def test_a_prompt_longer_than_the_cache_keeps_its_beginning() -> None:
    cache = PrefixCache(block_size=2, capacity_tokens=5)
    fill(cache, list(range(20)))
    assert blocks_of(cache, list(range(20))) == [0, 2]


def test_blocks_whose_states_were_not_captured_are_not_kept() -> None:
    cache = PrefixCache(block_size=2, capacity_tokens=20)
    fill(cache, [1, 2, 3, 4, 5, 6], start=2)  # the first block has been dropped in the meantime
    assert cache.num_tokens == 0
    fill(cache, [1, 2])
    fill(cache, [1, 2, 3, 4, 5, 6], start=2)
    assert blocks_of(cache, [1, 2, 3, 4, 5, 6]) == [1, 3, 5]


@KIND
@pytest.mark.parametrize("capacity", [16, 48])
def test_a_small_cache_under_churn_changes_no_output(kind: str, capacity: int) -> None:
    cache = PrefixCache(capacity_tokens=capacity)
    rig = rig_of(kind, {"prefix_cache": cache}, max_num_requests=2)
    for _ in range(2):
        check_same(rig, kind, rig.serve(make_requests()))
        assert cache.num_tokens <= capacity


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"block_size": 0, "capacity_tokens": 9}, "block_size: 0 is not an int of at least 1"),
        ({"capacity_tokens": True}, "capacity_tokens: True is not an int of at least 1"),
        ({"capacity_tokens": 15}, "capacity_tokens: 15 is below block_size 16, so nothing"),
    ],
)
def test_a_cache_that_keeps_nothing_is_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PrefixCache(**sizes)


def test_a_cache_serves_one_deployment_and_target() -> None:
    cache = PrefixCache(capacity_tokens=400)
    rig = rig_of("DSpark", {"prefix_cache": cache})
    deployment, target = rig.deployment, rig.target
    Executor(deployment, target, None, prefix_cache=cache)
    other = type(target).for_deployment(tiny_qwen3(seed=9), deployment)
    with pytest.raises(ValueError, match="prefix_cache: it holds prompts of another target; give"):
        Executor(deployment, other, None, prefix_cache=cache)
    other_budget = deployment_of("DSpark", max_num_tokens=50)
    with pytest.raises(ValueError, match="prompts of another deployment; give each"):
        Executor(other_budget, target, None, prefix_cache=cache)
