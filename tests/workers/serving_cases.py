"""A tiny deployment to serve, prompts, and a worker that drafts by a plan."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specmeta import Deployment, DSparkSpecMetadata, RequestId
from specmeta.testing import make_deployment
from specmeta_workers import DraftOutput, DSparkDraftModel, DSparkWorker, Request, TargetRunner
from tests.workers.tiny_targets import (
    HIDDEN,
    LAYERS,
    VOCAB,
    greedy,
    random_prompt,
    tiny_qwen3,
)

WINDOW = 12
NEW_TOKENS = 20
# Shorter and longer than the window; 1 and more than one chunk of the small token budget.
PROMPT_LENGTHS = (1, 3, 11, 12, 13, 30, 47, 5, 2, 64, 9, 24, 12, 7, 33, 18)


def small_deployment(**overrides: Any) -> Deployment:
    """The tiny Qwen3 with a random DSpark drafter of window 12, 7 drafts, in float64."""
    fields: dict[str, Any] = {
        "target": {"num_layers": LAYERS},
        "dtype": "float64",
        "hidden_size": HIDDEN,
        "vocab_size": VOCAB,
        "mask_token_id": VOCAB - 1,
        "sliding_window": WINDOW,
        "target_layer_ids": (0, 2),
        "intermediate_size": 48,
        "max_position_embeddings": 256,
        "max_seq_len": 120,
        "cuda_graph_batch_sizes": (),
    }
    return make_deployment(**{**fields, **overrides})


@cache
def target_model() -> PreTrainedModel:
    return tiny_qwen3()


@cache
def draft_model() -> DSparkDraftModel:
    torch.manual_seed(5)
    drafter = small_deployment().drafter
    model = DSparkDraftModel(drafter).double().eval()  # type: ignore[arg-type] # a DSpark drafter
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2)
    return model


def make_target(deployment: Deployment) -> TargetRunner:
    return TargetRunner.for_deployment(target_model(), deployment)


def prompts() -> list[list[int]]:
    return [random_prompt(seed, length) for seed, length in enumerate(PROMPT_LENGTHS)]


@cache
def continuation(index: int) -> list[int]:
    """Plain greedy continuation of prompt `index`, long enough to plan drafts from."""
    return greedy(target_model(), prompts()[index], NEW_TOKENS + 8)


def make_requests(count: int = len(PROMPT_LENGTHS), **overrides: Any) -> list[Request]:
    """Requests with sparse ids; request i continues prompt i."""
    return [
        Request(
            **{
                "request_id": request_id_of(index),
                "prompt_token_ids": prompt,
                "max_new_tokens": NEW_TOKENS,
                **overrides,
            }
        )
        for index, prompt in enumerate(prompts()[:count])
    ]


def request_id_of(index: int) -> RequestId:
    return RequestId(1000 + 37 * index)


def index_of(request_id: int) -> int:
    return (request_id - 1000) // 37


class PlannedWorker(DSparkWorker):
    """Verifies for real, but drafts the plain continuation with an error here and there.

    Whether a draft is wrong depends on the request and the position alone, so the accept lengths
    are the same however requests are batched.
    """

    def __init__(self, deployment: Deployment, error_period: int = 5) -> None:
        super().__init__(deployment, draft_model())
        self.error_period = error_period
        self.committed: dict[int, int] = {}
        self.seen: list[DSparkSpecMetadata] = []

    def forward(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> DraftOutput:
        output = super().forward(metadata, **tensors)
        self.seen.append(metadata)
        return self._replace(metadata, output)

    def seed(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> DraftOutput:
        output = super().seed(metadata, **tensors)
        self.seen.append(metadata)
        return self._replace(metadata, output)

    def _replace(self, metadata: DSparkSpecMetadata, output: DraftOutput) -> DraftOutput:
        drafts = output.draft_tokens.clone()
        for row, request_id in enumerate(metadata.request_ids):
            if row < metadata.num_contexts:
                self.committed[request_id] = 1
            else:
                self.committed[request_id] += int(output.num_accepted[row])
            drafts[row] = torch.tensor(self.plan(request_id, self.committed[request_id]))
        return DraftOutput(output.tokens, output.num_accepted, drafts, output.draft_lens)

    def plan(self, request_id: int, committed: int) -> Sequence[int]:
        right = continuation(index_of(request_id))
        plan = []
        for position in range(committed, committed + self.deployment.decoding.max_draft_len):
            token = right[position] if position < len(right) else 0
            wrong = (request_id + position * position) % self.error_period == 0
            plan.append((token + 1) % VOCAB if wrong else token)
        return plan


def planned_accepts(request_id: int, plan: PlannedWorker, new_tokens: int) -> tuple[int, ...]:
    """Accept lengths that the plan of errors implies, from first principles."""
    right = continuation(index_of(request_id))
    committed, lengths = 1, []
    while committed < new_tokens:
        drafts = plan.plan(request_id, committed)
        matches = [d == t for d, t in zip(drafts, right[committed:], strict=False)]
        count = (matches.index(False) if False in matches else len(matches)) + 1
        lengths.append(count)
        committed += count
    return tuple(lengths)


class RecordingWorker(DSparkWorker):
    """The real worker with the random drafter; keeps each request's drafts in order."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment, draft_model())
        self.drafts: dict[int, list[list[int]]] = {}

    def forward(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> DraftOutput:
        return self._record(metadata, super().forward(metadata, **tensors))

    def seed(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> DraftOutput:
        return self._record(metadata, super().seed(metadata, **tensors))

    def _record(self, metadata: DSparkSpecMetadata, output: DraftOutput) -> DraftOutput:
        for row, request_id in enumerate(metadata.request_ids):
            drafts = self.drafts.setdefault(request_id, [])
            if row < metadata.num_contexts:
                drafts.clear()  # only the drafts behind a prompt's last chunk count
            drafts.append(output.draft_tokens[row].tolist())
        return output
