"""Do two runs agree, request by request; and where not, how near was the tie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch

from .._target import TargetRunner
from .._target_layout import TargetRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._pairs import Pair, Prompt
    from .._requests import RequestResult


@attrs.frozen
class Difference:
    """A request on which two runs disagree, and the decision that tipped."""

    request: int
    """Index of the prompt."""
    what: str
    """`output`, or `accept length` where only the drafts differ."""
    token: int
    """Index of the generated token at which the runs part."""
    gap: float
    """Lead of the best over the second-best logit at the decision that tipped, computed alone: a
    near-tie when it is of the order of the dtype's rounding."""


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Index of the first element in which the sequences differ; None when they are equal."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))


def output_differences(
    pair: Pair, results: Sequence[RequestResult], plain: Sequence[RequestResult]
) -> list[Difference]:
    """Requests whose output is not that of plain decoding, with the target's gap there."""
    found = []
    for index, (result, reference) in enumerate(zip(results, plain, strict=True)):
        at = first_difference(result.token_ids, reference.token_ids)
        if at is not None:
            prefix = pair.prompts[index].token_ids + reference.token_ids[:at]
            found.append(Difference(index, "output", at, target_gap(pair, prefix)))
    return found


def length_differences(
    pair: Pair, results: Sequence[RequestResult], base: Sequence[RequestResult], draft_len: int
) -> list[Difference]:
    """Requests whose accepted lengths differ between two runs, with the drafter's gap there."""
    found = []
    for index, (result, reference) in enumerate(zip(results, base, strict=True)):
        at = first_difference(result.accepted_lengths, reference.accepted_lengths)
        if at is not None:
            token = 1 + sum(reference.accepted_lengths[:at])
            gap = draft_gap(pair, pair.prompts[index], reference.token_ids[:token], draft_len)
            found.append(Difference(index, "accept length", token, gap))
    return found


def target_gap(pair: Pair, prefix: Sequence[int]) -> float:
    """Lead of the target's best next token over its second best."""
    # Any: transformers' forward is untyped.
    model: Any = pair.target
    ids = torch.tensor([list(prefix)])
    with torch.inference_mode():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, -1]
    best, second = logits.double().topk(2).values.tolist()
    return float(best - second)


@torch.inference_mode()
def draft_gap(pair: Pair, prompt: Prompt, generated: Sequence[int], draft_len: int) -> float:
    """Least lead of a draft over the second-best token, in the block behind `generated`."""
    tokens = prompt.token_ids + tuple(generated)
    end = len(tokens) - 1  # the anchor's own state is not captured yet
    model = pair.draft_model
    window = model.config.sliding_window
    first = 0 if window is None else max(0, end - window)
    runner = TargetRunner(pair.target, model.config.layers_to_capture, num_slots=1, max_seq_len=end)
    try:
        rows = TargetRows(num_contexts=1, seq_lens=(end,), slots=(0,))
        _, captured = runner.forward(rows, torch.tensor(tokens[:end]))
    finally:
        runner.close()
    positions = torch.arange(first, end)
    context = model.context_kv(model.project_context(captured[first:]), positions)
    anchor = torch.tensor([tokens[-1]])
    readable = torch.ones(1, end - first, dtype=torch.bool)
    hidden = model.block(anchor, torch.tensor([end]), context.transpose(0, 1)[None], readable)
    _, logits, _ = model.sample(hidden, anchor, draft_len)
    best, second = logits[0].double().topk(2, -1).values.unbind(-1)
    return float((best - second).min())
