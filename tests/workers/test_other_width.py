"""A drafter that is narrower, or wider, than the target whose states it reads."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specmeta import DecodingType, Deployment
from specmeta_workers import (
    ContextServer,
    DisaggregatedExecutor,
    Executor,
    GenerationServer,
    PrefixCache,
    make_worker,
)
from specmeta_workers._methods import METHODS
from tests.workers.serving_cases import (
    NEW_TOKENS,
    continuation,
    index_of,
    make_requests,
    make_target,
    small_deployment,
)
from tests.workers.tiny_targets import HIDDEN
from tests.workers.worker_cases import fill, make_rig

WIDTHS = pytest.mark.parametrize("width", [16, 48])
KINDS = pytest.mark.parametrize("kind", ["DSpark", "DFlash"])


def deployment_of(kind: DecodingType, width: int, **fields: Any) -> Deployment:
    """The tiny target with a drafter of another width."""
    sizes = {"hidden_size": width, "target_hidden_size": HIDDEN}
    return small_deployment(decoding_type=kind, drafter=sizes, **fields)


def model_of(deployment: Deployment) -> Any:
    drafter = deployment.drafter
    method = METHODS[drafter.decoding_type]
    return fill(method.draft_model(drafter), "float64")  # type: ignore[arg-type]


@WIDTHS
@KINDS
def test_metadata_and_captured_states_keep_the_targets_width(
    kind: DecodingType, width: int
) -> None:
    sizes = {"hidden_size": width, "target_hidden_size": 64}
    rig = make_rig(kind=kind, dtype="float64", drafter=sizes)
    model = rig.worker.draft_model
    assert (model.fc.in_features, model.fc.out_features) == (2 * 64, width)
    assert rig.metadata().hidden_size == 64
    states = rig.captured(9)
    assert states.shape == (9, 128)
    rig.context(5, states)
    assert rig.worker.kv_windows.shape[-2:] == (2, 16)
    with pytest.raises(ValueError, match=rf"captured: \[9, {2 * width}\] .*, expected \[9, 128\]"):
        rig.context(6, torch.zeros(9, 2 * width, dtype=torch.float64))


@WIDTHS
@KINDS
def test_a_pair_of_two_widths_serves_what_plain_decoding_would(
    kind: DecodingType, width: int
) -> None:
    deployment = deployment_of(kind, width)
    target = make_target(deployment)
    cache = PrefixCache(capacity_tokens=256)
    model = model_of(deployment)
    try:
        for _ in range(2):  # the second time from the prefix cache
            executor = Executor(
                deployment, target, make_worker(deployment, model), prefix_cache=cache
            )
            for result in executor.run(make_requests()):
                expected = continuation(index_of(result.request_id))[:NEW_TOKENS]
                assert list(result.token_ids) == expected
    finally:
        target.close()


@KINDS
def test_the_states_that_a_context_server_hands_over_have_the_targets_width(
    kind: DecodingType,
) -> None:
    deployment = deployment_of(kind, 16)
    targets = [make_target(deployment) for _ in range(2)]
    executor = DisaggregatedExecutor(
        ContextServer(deployment, targets[0]),
        GenerationServer(deployment, targets[1], make_worker(deployment, model_of(deployment))),
    )
    try:
        for result in executor.run(make_requests(4)):
            expected = continuation(index_of(result.request_id))[:NEW_TOKENS]
            assert list(result.token_ids) == expected
    finally:
        for target in targets:
            target.close()
