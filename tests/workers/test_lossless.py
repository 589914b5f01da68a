"""Sampled serving: distributed as the target alone, and the same for a seed at any batch size."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from specmeta import Deployment, RequestId, SamplingParams
from specmeta.testing import make_deployment
from specmeta_workers import Executor, Request, RequestResult, TargetRunner, make_worker
from specmeta_workers._methods import METHODS
from specmeta_workers._sampling import SamplingTensors, probabilities
from tests.workers.chi_square import count, p_value
from tests.workers.model_cases import randomized

VOCAB = 6
LENGTH = 3
BATCH = 1024
PROMPT = (1, 4, 2)
PARAMS: dict[str, Any] = {"temperature": 0.9, "top_k": 5, "top_p": 0.97}
KINDS: dict[str, Any] = {
    "DSpark": {"mask_token_id": 5, "target_layer_ids": (0, 1), "sliding_window": 8},
    "DFlash": {"mask_token_id": 5, "target_layer_ids": (0, 1), "sliding_window": 8},
    "MTP": {},
}


@cache
def target_model() -> PreTrainedModel:
    torch.manual_seed(2)
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=32,
        tie_word_embeddings=False,
        initializer_range=0.4,
    )
    model: Any = Qwen3ForCausalLM(config)
    typed: PreTrainedModel = model.double().eval()
    return typed


def deployment_of(kind: Any, batch: int) -> Deployment:
    return make_deployment(
        kind,
        **KINDS[kind],
        target={"num_layers": 2},
        hidden_size=16,
        vocab_size=VOCAB,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=16,
        max_position_embeddings=32,
        max_seq_len=16,
        max_draft_len=2,
        max_num_requests=batch,
        max_num_tokens=4 * batch,
        dtype="float64",
        cuda_graph_batch_sizes=(),
        use_rejection_sampling=True,
    )


@cache
def draft_model_of(kind: str) -> Any:
    drafter = deployment_of(kind, 1).drafter
    return randomized(METHODS[drafter.decoding_type].draft_model(drafter), seed=3)  # type: ignore[arg-type]


def serve(kind: str, batch: int, requests: list[Request], *, drafts: bool = True) -> Any:
    deployment = deployment_of(kind, batch)
    target = TargetRunner.for_deployment(target_model(), deployment)
    worker = make_worker(deployment, draft_model_of(kind)) if drafts else None
    executor = Executor(deployment, target, worker)
    try:
        parts = [requests[i : i + BATCH] for i in range(0, len(requests), BATCH)]
        return [result for part in parts for result in executor.run(part)]
    finally:
        target.close()


@cache
def sampled(kind: str, batches: int, *, drafts: bool = True) -> Any:
    requests = [request(number) for number in range(batches * BATCH)]
    return serve(kind, BATCH, requests, drafts=drafts)


def request(number: int, **fields: Any) -> Request:
    sampling = SamplingParams(**{**PARAMS, "seed": number, **fields})
    return Request(RequestId(number + 1), PROMPT, LENGTH, sampling=sampling)


def tokens_of(results: list[RequestResult]) -> Tensor:
    return torch.tensor([result.token_ids for result in results])


@cache
def expected() -> Tensor:
    """Distribution of the first tokens by enumeration of the target alone."""
    model: Any = target_model()
    prefixes = list(product(range(VOCAB), repeat=LENGTH - 1))
    ids = torch.tensor([PROMPT + prefix for prefix in prefixes])
    with torch.inference_mode():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    params = SamplingTensors.of(
        [SamplingParams(**PARAMS, seed=0)] * len(ids),
        num_padding=0,
        vocab_size=VOCAB,
        device=torch.device("cpu"),
    )
    probs = probabilities(logits[:, len(PROMPT) - 1 :], params)
    chance = torch.ones(len(ids), dtype=torch.float64)
    for place in range(LENGTH - 1):
        chance = chance * probs[:, place].gather(1, ids[:, len(PROMPT) + place, None]).squeeze(1)
    return (chance[:, None] * probs[:, LENGTH - 1]).flatten()


@pytest.mark.parametrize(("kind", "batches"), [("DSpark", 30), ("DFlash", 8), ("MTP", 8)])
def test_speculative_output_is_distributed_as_the_target(kind: str, batches: int) -> None:
    results = sampled(kind, batches)
    steps = sum(r.decode_iterations for r in results)
    drafts = sum(sum(r.accepted_lengths) for r in results) - steps
    assert 0.1 * steps < drafts < 1.9 * steps  # some are accepted, and some are not
    assert p_value(count(tokens_of(results), VOCAB), expected()) > 1e-3


def test_plain_sampling_has_the_same_distribution() -> None:
    results = sampled("DSpark", 8, drafts=False)
    assert p_value(count(tokens_of(results), VOCAB), expected()) > 1e-3


@pytest.mark.parametrize("place", range(LENGTH))
def test_a_shift_of_one_percent_would_be_seen(place: int) -> None:
    """The same samples, were one hundredth of the mass on another token of the target."""
    counts = count(tokens_of(sampled("DSpark", 30))[:, place : place + 1], VOCAB)
    right = expected().view([VOCAB] * LENGTH).movedim(place, 0).flatten(1).sum(1)
    # From the likeliest to the least likely that is possible at all.
    likely = right.argsort(descending=True)
    possible = likely[right[likely] > 0]
    shifted = right.clone()
    shifted[possible[0]] -= 0.01
    shifted[possible[-1]] += 0.01
    assert p_value(counts, right) > 1e-3
    assert p_value(counts, shifted) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_output_at_any_batch_size(kind: str) -> None:
    prompts = [(1, 4, 2), (3,), (0, 0, 5, 2, 1), (2, 2)]
    requests = [
        Request(
            RequestId(70 + index),
            prompts[index % 4],
            10,
            sampling=SamplingParams(seed=index // 2, temperature=0.4 * (index % 4)),
        )
        for index in range(24)
    ]
    alone = serve(kind, 1, requests)
    for batch in (3, 16):
        together = serve(kind, batch, requests)
        assert [r.token_ids for r in together] == [r.token_ids for r in alone]
        assert [r.accepted_lengths for r in together] == [r.accepted_lengths for r in alone]
    # Another seed, another output.
    outputs = [r.token_ids for r in alone]
    assert len({outputs[i] for i in (3, 11, 19)}) > 1


def test_temperature_zero_is_greedy_decoding() -> None:
    greedy = [request(number, temperature=0.0) for number in range(3)]
    outputs = {r.token_ids for r in serve("DSpark", 2, greedy)}
    model: Any = target_model()
    ids = list(PROMPT)
    for _ in range(LENGTH):
        given = torch.tensor([ids])
        with torch.inference_mode():
            ids.append(int(model(input_ids=given, use_cache=False).logits[0, -1].argmax()))
    assert outputs == {tuple(ids[len(PROMPT) :])}
