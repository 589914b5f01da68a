"""Drafts beyond the checkpoint's block, where the deployment overrides the rule against them."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from specmeta import DecodingType, RequestId, RuleOverride
from specmeta_workers import Executor, Request, TargetRunner, load_bundled, make_worker
from tests.workers import naive_dflash
from tests.workers.model_cases import raw_of
from tests.workers.naive_dspark import golden_round
from tests.workers.worker_cases import Rig, make_rig

Convention = Literal["anchor_first", "mask_at_position"]
OVERRIDE = RuleOverride(rule="draft_beyond_block", reason="measured on this pair")
BLOCKS: dict[Convention, int] = {"anchor_first": 7, "mask_at_position": 8}
"""Slots that yield 7 drafts."""
kinds = pytest.mark.parametrize("kind", ["DSpark", "DFlash"])
conventions = pytest.mark.parametrize("convention", BLOCKS)


def longer_rig(kind: DecodingType, convention: Convention, **fields: Any) -> Rig:
    """Seven drafts of a checkpoint whose block is five slots."""
    drafter: dict[str, Any] = {
        "block_size": 5,
        "anchor_convention": convention,
        "sliding_window": None,
    }
    if kind == "DSpark":
        drafter["markov_head_type"] = "rnn"
    return make_rig(
        kind=kind,
        dtype="float64",
        drafter=drafter,
        max_draft_len=7,
        overrides=(OVERRIDE,),
        **fields,
    )


def slow_round(rig: Rig, block_size: int, states: Tensor, anchor: int) -> dict[str, Tensor]:
    """What the slow DSpark makes of a block of this many slots."""
    config = rig.worker.draft_model.config
    raw = raw_of(config) | {
        "block_size": block_size,
        "sample_from_anchor": config.anchor_convention == "anchor_first",
    }
    weights = dict(rig.worker.draft_model.state_dict())
    return golden_round(raw, weights, states, anchor, states.shape[0])


def slow_drafts(rig: Rig, block_size: int, states: Tensor, anchor: int) -> list[int]:
    """What the slow implementation drafts with a block of this many slots."""
    if rig.deployment.decoding_type == "DSpark":
        drafts = slow_round(rig, block_size, states, anchor)["draft_tokens"]
        return [int(token) for token in drafts[0]]
    model = rig.worker.draft_model
    logits = naive_dflash.draft(
        raw_of(model.config) | {"block_size": block_size},
        dict(model.state_dict()),
        states,
        anchor,
        sample_from_anchor=model.config.anchor_convention == "anchor_first",
    )
    return [int(slot.argmax()) for slot in logits]


@conventions
@kinds
def test_seven_drafts_of_a_block_of_five_come_from_a_longer_block(
    kind: DecodingType, convention: Convention
) -> None:
    rig = longer_rig(kind, convention)
    size = BLOCKS[convention]
    assert rig.deployment.block_size == size
    states = rig.captured(9)
    output = rig.context(5, states, bonus=3)
    assert output.draft_tokens.tolist() == [slow_drafts(rig, size, states, 3)]
    assert output.draft_lens.tolist() == [7]
    for accepted in (8, 2):
        row = rig.row(accepted)
        output = rig.generate({5: row}, num_padding=1)
        states = torch.cat((states, row.captured[:accepted]))
        bonus = row.targets[accepted - 1]
        assert output.num_accepted[0] == accepted
        assert output.draft_tokens[0].tolist() == slow_drafts(rig, size, states, bonus)


@conventions
@kinds
def test_a_block_that_is_long_enough_is_run_as_the_checkpoint_has_it(
    kind: DecodingType, convention: Convention
) -> None:
    drafter = {"block_size": 7, "anchor_convention": convention, "sliding_window": None}
    rig = make_rig(kind=kind, dtype="float64", drafter=drafter, max_draft_len=3)
    assert rig.deployment.block_size == 7
    states = rig.captured(9)
    output = rig.context(5, states, bonus=3)
    assert output.draft_tokens.tolist() == [slow_drafts(rig, 7, states, 3)[:3]]


@conventions
def test_a_graph_and_a_threshold_see_all_drafts_of_the_longer_block(convention: Convention) -> None:
    fields = {"confidence_threshold": 1e-9, "max_num_requests": 2}
    eager = longer_rig("DSpark", convention, **fields)
    graphed = longer_rig("DSpark", convention, cuda_graph_batch_sizes=(2,), **fields)
    states = eager.captured(9)
    for rig in (eager, graphed):
        rig.context(5, states)
    row = eager.row(3)
    expected = eager.generate({5: row})
    metadata = graphed.metadata(request_ids=(RequestId(5),), seq_lens=(8,))
    output = graphed.run(metadata.create_cuda_graph_metadata(2), [row])
    assert output.draft_lens[0] == expected.draft_lens[0] == 7
    assert output.confidence is not None
    assert output.confidence.shape == (2, 7)
    assert torch.equal(output.draft_tokens[:1], expected.draft_tokens)
    states = torch.cat((states, row.captured[:3]))
    slow = slow_round(eager, BLOCKS[convention], states, row.targets[2])
    assert torch.equal(output.draft_tokens[:1], slow["draft_tokens"])
    torch.testing.assert_close(
        output.confidence[:1], slow["confidence_logits"].sigmoid(), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("kind", ["DSpark", "DFlash"])
def test_a_trained_drafter_serves_beyond_its_block_and_loses_nothing(kind: DecodingType) -> None:
    pair = load_bundled(kind)
    longest = pair.deployment.decoding.max_draft_len
    deployment = pair.deployment_for(
        engine=pair.deployment.engine, max_draft_len=longest + 2, overrides=(OVERRIDE,)
    )
    assert deployment.block_size == longest + (2 if kind == "DSpark" else 3)
    requests = [
        Request(RequestId(index), prompt.token_ids, 24)
        for index, prompt in enumerate(pair.prompts[:3], 1)
    ]
    target = TargetRunner.for_deployment(pair.target, deployment)
    try:
        drafted, plain = [
            Executor(deployment, target, worker).run(requests)
            for worker in (make_worker(deployment, pair.draft_model), None)
        ]
    finally:
        target.close()
    assert [result.token_ids for result in drafted] == [result.token_ids for result in plain]
    steps = [sum(result.accept_length for result in results) / 3 for results in (drafted, plain)]
    assert steps[0] > 2 > steps[1] == 1
