"""The MTP draft model against a slow one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specmeta import MTPDrafterConfig
from specmeta_workers import MTPDraftModel
from tests.workers import naive_mtp
from tests.workers.model_cases import DENSE, buffered, randomized, raw_of

LENGTHS = (1, 2, 9, 14)
K = 5
FREE: list[int | None] = [None] * K


def drafter(**changes: Any) -> MTPDrafterConfig:
    fields = {"num_layers": 1, "target_hidden_state": "before_final_norm"}
    return MTPDrafterConfig(**DENSE | fields | changes)


@pytest.fixture
def model() -> MTPDraftModel:
    return randomized(MTPDraftModel(drafter()))


def history() -> list[tuple[Tensor, list[int]]]:
    """Target states `[n, d]` of each request, and its tokens, the anchor behind them included."""
    generator = torch.Generator().manual_seed(7)
    width, vocab = DENSE["hidden_size"], DENSE["vocab_size"]
    return [
        (
            torch.randn(n, width, generator=generator, dtype=torch.float64),
            torch.randint(0, vocab, (n + 1,), generator=generator).tolist(),
        )
        for n in LENGTHS
    ]


def draft(
    model: MTPDraftModel,
    *,
    num_drafts: int = K,
    forced: list[int | None] = FREE,
    window: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Tokens `[B, K]` and logits `[B, K, V]`, the committed cells in a buffer of 16 columns."""
    rows: list[Tensor] = []
    for states, tokens in history():
        cells = torch.arange(states.shape[0] - 1)
        if window is not None:
            cells = cells[-window:]
        rows.append(model.context_kv(torch.tensor(tokens)[cells + 1], states[cells], cells))
    kv, mask = buffered(rows, 16)
    logits: list[Tensor] = []

    def choose(k: int, seen: Tensor) -> Tensor:
        assert k == len(logits)
        logits.append(seen)
        choice = forced[k]
        return seen.argmax(-1) if choice is None else torch.full(seen.shape[:1], choice)

    found = model.draft(
        torch.stack([states[-1] for states, _ in history()]),
        torch.tensor([tokens[-1] for _, tokens in history()]),
        torch.tensor(LENGTHS) - 1,
        kv,
        mask,
        num_drafts,
        choose,
    )
    return found, torch.stack(logits, 1)


def expected(
    model: MTPDraftModel, forced: list[int | None] = FREE, window: int | None = None
) -> tuple[Tensor, Tensor]:
    """The same of the slow implementation."""
    raw, weights = raw_of(model.config), dict(model.state_dict())
    tokens, logits = [], []
    for states, known in history():
        first = 0 if window is None else states.shape[0] - 1 - window
        found = naive_mtp.draft(raw, weights, states, known, forced, first_cell=first)
        tokens.append(torch.tensor(found[0]))
        logits.append(torch.stack(found[1]))
    return torch.stack(tokens), torch.stack(logits)


def check(found: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor]) -> None:
    assert torch.equal(found[0], wanted[0])
    torch.testing.assert_close(found[1], wanted[1], rtol=0, atol=1e-9)


def test_drafts_and_logits_equal_those_of_a_slow_implementation(model: MTPDraftModel) -> None:
    tokens, logits = draft(model)
    check((tokens, logits), expected(model))
    assert len(set(map(tuple, tokens.tolist()))) == len(LENGTHS)


def test_greedy_is_the_default_choice(model: MTPDraftModel) -> None:
    states, tokens = history()[2]
    cells = torch.arange(states.shape[0] - 1)
    kv, mask = buffered(
        [model.context_kv(torch.tensor(tokens)[cells + 1], states[cells], cells)], 8
    )
    position = torch.tensor([states.shape[0] - 1])
    found = model.draft(states[-1:], torch.tensor(tokens[-1:]), position, kv, mask, K)
    assert torch.equal(found, draft(model)[0][2:3])


def test_one_key_head_a_query_head_works_too() -> None:
    model = randomized(MTPDraftModel(drafter(num_key_value_heads=4)), seed=3)
    check(draft(model), expected(model))


@pytest.mark.parametrize("place", range(K - 1))
def test_a_draft_depends_on_every_token_drafted_before_it_and_on_none_behind(
    model: MTPDraftModel, place: int
) -> None:
    free_tokens, free = draft(model)
    forced: list[int | None] = [*FREE]
    forced[place] = next(t for t in range(41) if t not in free_tokens[:, place].tolist())
    found = draft(model, forced=forced)
    check(found, expected(model, forced))
    changes = (found[1] - free).abs().amax(-1)
    assert changes[:, : place + 1].max() == 0
    assert changes[:, place + 1 :].min() > 1e-3


def test_a_draft_cell_sees_the_draft_cells_before_it(model: MTPDraftModel) -> None:
    # The first request has no committed cell: its second draft's only other key is the first
    # draft's cell, without which it would attend to itself alone.
    states, tokens = history()[0]
    raw, weights = raw_of(model.config), dict(model.state_dict())
    drafts, logits = draft(model)
    first = naive_mtp.fuse(raw, weights, states[0], tokens[1])
    own = naive_mtp.layer(raw, weights, [(0, first)])
    second = naive_mtp.fuse(raw, weights, own, int(drafts[0, 0]))

    def head(state: Tensor) -> Tensor:
        return model.lm_head(model.norm(state))  # type: ignore[no-any-return]

    both = head(naive_mtp.layer(raw, weights, [(0, first), (1, second)]))
    alone = head(naive_mtp.layer(raw, weights, [(1, second)]))
    torch.testing.assert_close(logits[0, 1], both, rtol=0, atol=1e-9)
    assert (logits[0, 1] - alone).abs().max() > 1e-3


def test_only_the_readable_columns_count(model: MTPDraftModel) -> None:
    recent = draft(model, window=3)
    check(recent, expected(model, window=3))
    whole = draft(model)
    # Three cells are the whole context of the first two requests, and a part of the others'.
    torch.testing.assert_close(recent[1][:2], whole[1][:2], rtol=0, atol=1e-12)
    assert (recent[1][2:] - whole[1][2:]).abs().amax(-1).min() > 1e-3


def test_the_first_drafts_do_not_depend_on_how_many_are_asked_for(model: MTPDraftModel) -> None:
    tokens, logits = draft(model)
    for count in range(1, K):
        some_tokens, some = draft(model, num_drafts=count)
        assert torch.equal(some_tokens, tokens[:, :count])
        torch.testing.assert_close(some, logits[:, :count], rtol=0, atol=1e-12)


def test_a_draft_leaves_the_context_as_it_was(model: MTPDraftModel) -> None:
    states, tokens = history()[2]
    cells = torch.arange(states.shape[0] - 1)
    row = model.context_kv(torch.tensor(tokens)[cells + 1], states[cells], cells)
    kv, mask = buffered([row], 16)
    before = kv.clone(), mask.clone()
    model.draft(states[-1:], torch.tensor(tokens[-1:]), torch.tensor([8]), kv, mask, K)
    assert torch.equal(kv, before[0])
    assert torch.equal(mask, before[1])


def test_a_committed_cell_depends_on_its_own_state_and_token_alone(model: MTPDraftModel) -> None:
    states, tokens = history()[3]
    cells = torch.arange(13)
    together = model.context_kv(torch.tensor(tokens)[cells + 1], states[cells], cells)
    for p in range(13):
        alone = model.context_kv(
            torch.tensor(tokens[p + 1 : p + 2]), states[p : p + 1], torch.tensor([p])
        )
        torch.testing.assert_close(alone[0], together[p], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 2}, "num_layers: 2, but MTPDraftModel drafts with one layer in turn; use"),
        (
            {"target_hidden_state": "after_final_norm"},
            "target_hidden_state: after_final_norm is not implemented by MTPDraftModel; use",
        ),
    ],
)
def test_what_would_run_and_be_wrong_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MTPDraftModel(drafter(**changes))
