"""The DFlash draft model against a slow one, in both anchor conventions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specmeta import DFlashDrafterConfig
from specmeta_workers import DFlashDraftModel
from tests.workers import naive_dflash
from tests.workers.model_cases import DENSE, buffered, randomized, raw_of

CONVENTIONS = pytest.mark.parametrize("convention", ["mask_at_position", "anchor_first"])
LENGTHS = (0, 1, 9, 14)
ANCHORS = (3, 17, 17, 30)


def drafter(**changes: Any) -> DFlashDrafterConfig:
    return DFlashDrafterConfig(
        **DENSE
        | {
            "num_layers": 2,
            "block_size": 5,
            "mask_token_id": 40,
            "target_hidden_size": 16,
            "target_layer_ids": (0, 2),
            "layer_id_convention": "output_of_layer",
            "anchor_convention": "mask_at_position",
            "window_causality": "non_causal",
        }
        | changes
    )


def states_of(model: DFlashDraftModel) -> list[Tensor]:
    """Captured states `[n, m * d]` of each request."""
    generator = torch.Generator().manual_seed(7)
    width = model.fc.in_features
    return [torch.randn(n, width, generator=generator, dtype=torch.float64) for n in LENGTHS]


def block_of(model: DFlashDraftModel, window: int | None = None) -> Tensor:
    """Hidden states of one block of each request, from a buffer of 16 columns."""
    rows: list[Tensor] = []
    for states in states_of(model):
        first = max(0, states.shape[0] - window) if window else 0
        positions = torch.arange(first, states.shape[0])
        rows.append(model.context_kv(model.project_context(states[first:]), positions))
    kv, mask = buffered(rows, 16)
    return model.block(torch.tensor(ANCHORS), torch.tensor(LENGTHS), kv, mask)


def expected_logits(model: DFlashDraftModel) -> Tensor:
    """Logits `[B, K, V]` of the slow implementation."""
    config = model.config
    return torch.stack(
        [
            torch.stack(
                naive_dflash.draft(
                    raw_of(config),
                    dict(model.state_dict()),
                    states,
                    anchor,
                    sample_from_anchor=config.anchor_convention == "anchor_first",
                )
            )
            for states, anchor in zip(states_of(model), ANCHORS, strict=True)
        ]
    )


@CONVENTIONS
@pytest.mark.parametrize("window", [None, 5])
def test_drafts_and_logits_equal_those_of_a_slow_implementation(
    convention: str, window: int | None
) -> None:
    config = drafter(anchor_convention=convention, sliding_window=window)
    model = randomized(DFlashDraftModel(config))
    hidden = block_of(model, window)
    expected = expected_logits(model)
    assert expected.shape[1] == config.max_block_drafts
    logits = model.draft_logits(hidden, config.max_block_drafts)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-9)
    tokens = model.draft(hidden, torch.tensor(ANCHORS), config.max_block_drafts)
    assert torch.equal(tokens, expected.argmax(-1))
    assert len(set(map(tuple, tokens.tolist()))) == len(LENGTHS)


def test_only_the_readable_columns_count() -> None:
    model = randomized(DFlashDraftModel(drafter()))
    whole, recent = block_of(model), block_of(model, 5)
    # Five columns are the whole context of the first two requests, and a part of the others'.
    torch.testing.assert_close(recent[:2], whole[:2], rtol=0, atol=1e-12)
    assert (recent[2:] - whole[2:]).abs().amax((1, 2)).min() > 1e-3


def test_the_anchor_convention_alone_moves_the_drafts_by_one_slot() -> None:
    masked = randomized(DFlashDraftModel(drafter()))
    anchored = randomized(DFlashDraftModel(drafter(anchor_convention="anchor_first")))
    hidden = block_of(masked)
    assert torch.equal(hidden, block_of(anchored))
    assert (masked.first_slot, anchored.first_slot) == (1, 0)
    assert torch.equal(masked.draft_logits(hidden, 4), anchored.draft_logits(hidden, 5)[:, 1:])
    anchors = torch.tensor(ANCHORS)
    assert not torch.equal(masked.draft(hidden, anchors, 4), anchored.draft(hidden, anchors, 4))


@CONVENTIONS
def test_the_first_drafts_do_not_depend_on_how_many_are_asked_for(convention: str) -> None:
    config = drafter(anchor_convention=convention)
    model = randomized(DFlashDraftModel(config))
    hidden, anchors = block_of(model), torch.tensor(ANCHORS)
    every = model.draft(hidden, anchors, config.max_block_drafts)
    for count in range(1, config.max_block_drafts):
        assert torch.equal(model.draft(hidden, anchors, count), every[:, :count])


def test_another_choice_of_a_token_changes_no_other_draft() -> None:
    model = randomized(DFlashDraftModel(drafter()))
    hidden = block_of(model)
    seen: list[tuple[int, Tensor]] = []

    def least_likely(k: int, logits: Tensor) -> Tensor:
        seen.append((k, logits))
        return logits.argmin(-1)

    tokens = model.draft(hidden, torch.tensor(ANCHORS), 4, least_likely)
    logits = model.draft_logits(hidden, 4)
    assert [k for k, _ in seen] == [0, 1, 2, 3]
    assert torch.equal(torch.stack([logits for _, logits in seen], 1), logits)
    assert torch.equal(tokens, logits.argmin(-1))


def test_a_causal_window_is_refused() -> None:
    with pytest.raises(ValueError, match=r"window_causality: causal .* by DFlashDraftModel; use"):
        DFlashDraftModel(drafter(window_causality="causal"))
