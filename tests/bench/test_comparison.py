import attrs
import pytest
import torch

from specmeta import RequestId
from specmeta_workers import (
    DSparkDraftModel,
    Executor,
    Pair,
    Request,
    RequestResult,
    TargetRows,
    TargetRunner,
)
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


@pytest.mark.parametrize("index", [0, 1, 2], ids=["DSpark", "DFlash", "MTP"])
def test_lengths_that_differ_are_reported_with_the_gap_of_the_drafter_there(
    pairs: tuple[Pair, ...], index: int
) -> None:
    pair = pairs[index]
    plain = plain_result(pair)
    one = attrs.evolve(plain, accepted_lengths=(2, 3, 1))
    other = attrs.evolve(plain, accepted_lengths=(2, 1, 3))
    assert comparison.length_differences(pair, [one], [one], 7) == []
    (difference,) = comparison.length_differences(pair, [one], [other], 7)
    assert (difference.what, difference.token) == ("accept length", 3)
    assert difference.gap is not None
    assert 0 < difference.gap < 20


def test_the_gap_of_a_draft_is_the_least_lead_in_its_block(pair: Pair) -> None:
    model = pair.draft_model
    assert isinstance(model, DSparkDraftModel)
    plain = plain_result(pair)
    tokens = torch.tensor(pair.prompts[0].token_ids + plain.token_ids[:3])
    end = len(tokens) - 1
    runner = TargetRunner(pair.target, model.config.layers_to_capture, num_slots=1, max_seq_len=end)
    rows = TargetRows(num_contexts=1, seq_lens=(end,), slots=(0,))
    _, captured = runner.forward(rows, tokens[:end])
    runner.close()
    with torch.inference_mode():
        context = model.context_kv(model.project_context(captured), torch.arange(end))
        readable = torch.ones(1, end, dtype=torch.bool)
        kv = context.transpose(0, 1)[None]
        hidden = model.block(tokens[end:], torch.tensor([end]), kv, readable)
        _, logits, _ = model.sample(hidden, tokens[end:], 5)
    best, second = logits[0].topk(2, -1).values.unbind(-1)
    gap = comparison.draft_gap(pair, pair.prompts[0], plain.token_ids[:3], 5)
    assert end <= pair.deployment.window_size
    assert gap == pytest.approx(float((best - second).min()), abs=1e-9)


def test_sampled_decisions_have_no_gap(pair: Pair) -> None:
    plain = plain_result(pair)
    changed = attrs.evolve(plain, token_ids=(*plain.token_ids[:3], 0), accepted_lengths=(9,))
    (output,) = comparison.output_differences(pair, [changed], [plain], sampled=True)
    (length,) = comparison.length_differences(pair, [changed], [plain], 7, sampled=True)
    assert output.gap is None
    assert length.gap is None
