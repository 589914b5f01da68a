"""Workers of every kind whose accept lengths depend on all of their state, and requests."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import attrs
from torch import Tensor

from specmeta import DecodingType, Deployment, RequestId
from specmeta.testing import make_deployment
from specmeta_workers import (
    DFlashDraftModel,
    DFlashWorker,
    DSparkDraftModel,
    DSparkWorker,
    Executor,
    MTPDraftModel,
    MTPWorker,
    Request,
    RequestResult,
    TargetRunner,
)
from tests.workers.model_cases import randomized
from tests.workers.serving_cases import target_model
from tests.workers.tiny_targets import HIDDEN, LAYERS, VOCAB, greedy, random_prompt

WINDOW = 12
NEW_TOKENS = 14
DRAFT_LEN = 3
# Around the window and around the block size of a prefix cache.
PROMPT_LENGTHS = (1, 13, 30, 17, 47, 3, 16, 12)
KINDS = ("DSpark", "DFlash", "MTP", "MTP-windowed")


def deployment_of(kind: str, **overrides: Any) -> Deployment:
    """A drafter of the tiny target in float64; prompts of more than 20 tokens come in chunks."""
    decoding_type: Any = kind.removesuffix("-windowed")
    fields: dict[str, Any] = {
        "target": {"num_layers": LAYERS},
        "dtype": "float64",
        "hidden_size": HIDDEN,
        "vocab_size": VOCAB,
        "sliding_window": None if kind == "MTP" else WINDOW,
        "intermediate_size": 48,
        "max_position_embeddings": 256,
        "max_draft_len": DRAFT_LEN,
        "max_seq_len": 72,
        "max_num_requests": 4,
        "max_num_tokens": 20,
    }
    if decoding_type != "MTP":
        fields |= {"mask_token_id": VOCAB - 1, "target_layer_ids": (0, 2)}
    return make_deployment(decoding_type, **{**fields, **overrides})


_MODELS: dict[DecodingType, type[Any]] = {
    "DSpark": DSparkDraftModel,
    "DFlash": DFlashDraftModel,
    "MTP": MTPDraftModel,
}


@cache
def draft_model_of(kind: str) -> Any:
    drafter = deployment_of(kind).drafter
    return randomized(_MODELS[drafter.decoding_type](drafter), seed=7)


def prompt_of(index: int) -> list[int]:
    return random_prompt(100 + index, PROMPT_LENGTHS[index])


@cache
def right(prompt: tuple[int, ...]) -> tuple[int, ...]:
    """Plain greedy continuation."""
    return tuple(greedy(target_model(), list(prompt), NEW_TOKENS + DRAFT_LEN + 2))


def make_requests(count: int = len(PROMPT_LENGTHS), **overrides: Any) -> list[Request]:
    return [
        Request(
            **{
                "request_id": RequestId(500 + 11 * index),
                "prompt_token_ids": prompt_of(index),
                "max_new_tokens": NEW_TOKENS,
                **overrides,
            }
        )
        for index in range(count)
    ]


class Hinted:
    """Mixed into a worker: each draft is the right token unless the worker's own draft says no.

    So long acceptances occur with a random drafter, and yet every accept length depends on the
    drafts that the worker's state led to. Those are kept by request and position of the anchor.
    """

    requests: dict[RequestId, Request]
    drafts: dict[tuple[RequestId, int], list[int]]

    def expect(self, requests: Sequence[Request]) -> None:
        self.requests = {request.request_id: request for request in requests}
        self.drafts = {}

    def _draft(self, slots: Tensor, anchors: Tensor, choose: Any) -> Any:
        worker: Any = self
        drafts, lengths, confidence = super()._draft(slots, anchors, choose)  # type: ignore[misc]
        hinted = drafts.clone()
        owners = {worker.pool.lookup(i).slot: i for i in worker.pool}
        ends = worker.context_lens.tolist()
        for row, slot in enumerate(slots.tolist()):
            if slot not in owners:
                continue
            request = self.requests[owners[slot]]
            index = ends[slot] - len(request.prompt_token_ids)
            if index < 0:
                continue  # behind a chunk of the prompt
            own = drafts[row].tolist()
            known = self.drafts.setdefault((request.request_id, ends[slot]), own)
            assert known == own, f"other drafts at {ends[slot]} of {request.request_id}"
            tokens = right(request.prompt_token_ids)[index + 1 : index + 1 + len(own)]
            for column, token in enumerate(tokens):
                hinted[row, column] = (token + 1) % VOCAB if own[column] % 4 == 0 else token
        return hinted, lengths, confidence


class HintedDSpark(Hinted, DSparkWorker):
    pass


class HintedDFlash(Hinted, DFlashWorker):
    pass


class HintedMTP(Hinted, MTPWorker):
    pass


_WORKERS: dict[DecodingType, type[Any]] = {
    "DSpark": HintedDSpark,
    "DFlash": HintedDFlash,
    "MTP": HintedMTP,
}


@attrs.define(eq=False)
class Rig:
    """An executor with a hinted worker."""

    deployment: Deployment
    target: TargetRunner
    worker: Any
    executor: Executor
    steps: int = 0

    def serve(
        self, requests: Sequence[Request], act: Callable[[int], None] | None = None
    ) -> dict[RequestId, RequestResult]:
        """Serve to the end; `act` is called with the number of each step before it."""
        self.worker.expect(requests)
        for request in requests:
            self.executor.submit(request)
        return self.finish(act)

    def finish(self, act: Callable[[int], None] | None = None) -> dict[RequestId, RequestResult]:
        results: dict[RequestId, RequestResult] = {}
        while self.executor.unfinished:
            if act is not None:
                act(self.steps)
            results.update((r.request_id, r) for r in self.executor.step())
            self.steps += 1
            assert self.steps < 1000, "no progress"
        self.executor.flush()
        assert (len(self.target.pool), len(self.worker.pool)) == (0, 0)
        return results


def rig_of(kind: str, executor: dict[str, Any] | None = None, **overrides: Any) -> Rig:
    deployment = deployment_of(kind, **overrides)
    target = TargetRunner.for_deployment(target_model(), deployment)
    worker = _WORKERS[deployment.decoding_type](deployment, draft_model_of(kind))
    return Rig(deployment, target, worker, Executor(deployment, target, worker, **(executor or {})))


@attrs.frozen
class Undisturbed:
    """What a run without any event gives."""

    results: dict[RequestId, RequestResult]
    drafts: dict[tuple[RequestId, int], list[int]]


@cache
def undisturbed(kind: str) -> Undisturbed:
    """Each request alone, its prompt in one chunk."""
    results: dict[RequestId, RequestResult] = {}
    drafts: dict[tuple[RequestId, int], list[int]] = {}
    rig = rig_of(kind, max_num_requests=1, max_num_tokens=100)
    for request in make_requests():
        results |= rig.serve([request])
        drafts |= rig.worker.drafts
    return Undisturbed(results, drafts)


def check_same(rig: Rig, kind: str, results: dict[RequestId, RequestResult]) -> None:
    """Output, accept lengths and drafts equal the undisturbed run's, iteration by iteration."""
    reference = undisturbed(kind)
    for request_id, result in results.items():
        assert result == reference.results[request_id]
    for place, drafts in reference.drafts.items():
        if place[0] in results:
            assert rig.worker.drafts[place] == drafts, place
