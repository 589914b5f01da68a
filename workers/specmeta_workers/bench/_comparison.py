"""Do two runs agree, request by request; and where not, how near was the tie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch

from specmeta import EngineConfig, RequestId, get_spec_metadata

from .._methods import make_worker
from .._target import TargetRunner
from .._target_layout import TargetRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from .._choosing import Choose
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
    gap: float | None
    """Lead of the best over the second-best logit at the decision that tipped, computed alone: a
    near-tie when it is of the order of the dtype's rounding. None where tokens are sampled."""


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Index of the first element in which the sequences differ; None when they are equal."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))


def output_differences(
    pair: Pair,
    results: Sequence[RequestResult],
    reference: Sequence[RequestResult],
    *,
    sampled: bool = False,
) -> list[Difference]:
    """Requests whose output is not the reference's, with the target's gap there."""
    found = []
    for index, (result, other) in enumerate(zip(results, reference, strict=True)):
        at = first_difference(result.token_ids, other.token_ids)
        if at is not None:
            prefix = pair.prompts[index].token_ids + other.token_ids[:at]
            gap = None if sampled else target_gap(pair, prefix)
            found.append(Difference(index, "output", at, gap))
    return found


def length_differences(
    pair: Pair,
    results: Sequence[RequestResult],
    base: Sequence[RequestResult],
    draft_len: int,
    *,
    sampled: bool = False,
) -> list[Difference]:
    """Requests whose accepted lengths differ between two runs, with the drafter's gap there."""
    found = []
    for index, (result, other) in enumerate(zip(results, base, strict=True)):
        at = first_difference(result.accepted_lengths, other.accepted_lengths)
        if at is not None:
            token = 1 + sum(other.accepted_lengths[:at])
            generated = other.token_ids[:token]
            gap = None if sampled else draft_gap(pair, pair.prompts[index], generated, draft_len)
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


def draft_gap(pair: Pair, prompt: Prompt, generated: Sequence[int], draft_len: int) -> float:
    """Least lead of a draft over the second-best token, in the drafts behind `generated`.

    A worker of its own is seeded with the sequence and drafts for it alone.
    """
    tokens = prompt.token_ids + tuple(generated)
    end = len(tokens) - 1  # the anchor's own state is not captured yet
    engine = EngineConfig.sized(
        max_num_requests=1,
        max_num_tokens=max(end, draft_len + 1),
        max_seq_len=end + draft_len + 1,
        dtype=pair.deployment.engine.dtype,
        overlap_headroom=False,
        disaggregated=False,
    )
    deployment = pair.deployment_for(engine=engine, max_draft_len=draft_len)
    runner = TargetRunner.for_deployment(pair.target, deployment)
    try:
        rows = TargetRows(num_contexts=1, seq_lens=(end,), slots=(0,))
        _, captured = runner.forward(rows, torch.tensor(tokens[:end]))
    finally:
        runner.close()
    first = max(0, end - deployment.window_size)
    recorder = _LeadRecorder()
    # Any: the metadata of the worker's own deployment is of its type.
    worker: Any = make_worker(deployment, pair.draft_model)
    worker._acceptance = recorder  # noqa: SLF001 - it sees the logits that the drafts come from
    worker.seed(
        get_spec_metadata(
            deployment,
            request_ids=(RequestId(1),),
            num_contexts=1,
            seq_lens=(end - first,),
            context_positions=(first,),
        ),
        input_ids=torch.tensor(tokens[first:end]),
        next_tokens=torch.tensor(tokens[end:]),
        captured=captured[first:],
    )
    return min(recorder.leads)


class _LeadRecorder:
    """Drafts greedily, and notes by how much each draft led."""

    def __init__(self) -> None:
        self.leads: list[float] = []

    def sampling(self, metadata: object) -> None:
        """Nothing: the drafts are greedy."""

    def chooser(self, slots: Tensor, positions: Tensor, sampling: object) -> Choose:
        """Greedy, with notes."""
        del slots, positions, sampling
        return self._choose

    def _choose(self, _: int, logits: Tensor) -> Tensor:
        best, second = logits[0].double().topk(2).values.tolist()
        self.leads.append(best - second)
        return logits.argmax(-1)
