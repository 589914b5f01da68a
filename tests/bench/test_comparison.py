import attrs
import pytest
import torch

from specmeta import RequestId
from specmeta_workers import Executor, Pair, Request, RequestResult, TargetRunner
from specmeta_workers.bench import _comparison as comparison


@pytest.mark.parametrize(
    ("one", "other", "index"),
    [((1, 2), (1, 2), None), ((1, 2), (1, 3), 1), ((1, 2), (1, 2, 3), 2), ((), (4,), 0)],
)
def test_the_first_difference_is_the_index_at_which_sequences_part(
    one: tuple[int, ...], other: tuple[int, ...], index: int | None
) -> None:
    assert comparison.first_difference(one, other) == index


def plain_result(pair: Pair) -> RequestResult:
    runner = TargetRunner.for_deployment(pair.target, pair.deployment)
    try:
        request = Request(RequestId(5), pair.prompts[0].token_ids, 12)
        return Executor(pair.deployment, runner, None).run([request])[0]
    finally:
        runner.close()


def test_an_output_that_differs_is_reported_with_the_gap_of_the_target_there(pair: Pair) -> None:
    plain = plain_result(pair)
    wrong = (plain.token_ids[3] + 1) % 512
    changed = attrs.evolve(plain, token_ids=(*plain.token_ids[:3], wrong, *plain.token_ids[4:]))
    assert comparison.output_differences(pair, [plain], [plain]) == []
    (difference,) = comparison.output_differences(pair, [changed], [plain])
    assert (difference.request, difference.what, difference.token) == (0, "output", 3)
    prefix = pair.prompts[0].token_ids + plain.token_ids[:3]
    model = pair.target
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([prefix])).logits[0, -1]
    best, second = logits.topk(2).values.tolist()
    assert logits.argmax() == plain.token_ids[3]
    assert difference.gap == pytest.approx(best - second, abs=1e-9)


def test_lengths_that_differ_are_reported_with_the_gap_of_the_drafter_there(pair: Pair) -> None:
    plain = plain_result(pair)
    one = attrs.evolve(plain, accepted_lengths=(2, 3, 1))
    other = attrs.evolve(plain, accepted_lengths=(2, 1, 3))
    assert comparison.length_differences(pair, [one], [one], 7) == []
    (difference,) = comparison.length_differences(pair, [one], [other], 7)
    assert (difference.what, difference.token) == ("accept length", 3)
    assert 0 < difference.gap < 20
