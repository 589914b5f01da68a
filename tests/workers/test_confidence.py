"""Drafts end before the first one that the confidence head does not trust."""

from __future__ import annotations

import pytest
import torch

from tests.workers.worker_cases import make_rig

CONFIDENCE = torch.tensor(
    [
        [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3],  # falling
        [0.9, 0.2, 0.9, 0.9, 0.9, 0.9, 0.9],  # what comes behind an untrusted draft is of no use
        [0.1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9],
        [0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9],
    ]
)


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.5, [5, 1, 0, 7]),  # a confidence at the threshold is trusted
        (0.85, [1, 1, 0, 7]),
        (0.95, [0, 0, 0, 0]),
        (0.0, [7, 7, 7, 7]),
    ],
)
def test_drafts_end_before_the_first_below_the_threshold(
    threshold: float, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig(confidence_threshold=threshold)
    monkeypatch.setattr(rig.worker.draft_model, "confidence", lambda *_: CONFIDENCE)
    metadata = rig.metadata(request_ids=(1, 2, 3, 4), num_contexts=4, seq_lens=(3,) * 4)
    output = rig.worker.forward(
        metadata,
        input_ids=rig.tokens(12),
        logits=torch.zeros(4, 256),
        captured=rig.captured(12),
    )
    assert output.draft_lens.tolist() == expected
    assert output.confidence is CONFIDENCE


def test_the_confidence_is_that_of_the_drafts_behind_their_anchor() -> None:
    """The head reads each slot's hidden state and the token before it: the anchor, then drafts."""
    rig = make_rig(confidence_threshold=0.5)
    model = rig.worker.draft_model
    hidden = torch.randn(2, 7, 64, generator=rig.generator)
    anchors, tokens = rig.tokens(2), rig.tokens(14).view(2, 7)
    found = model.confidence(hidden, anchors, tokens)
    before = torch.cat((anchors[:, None], tokens[:, :-1]), 1)
    features = torch.cat((hidden, model.markov_head.markov_w1.weight[before]), -1)
    head = model.confidence_head.proj
    expected = torch.sigmoid(features @ head.weight[0] + head.bias)
    torch.testing.assert_close(found, expected)
