"""The quick training forwards compute what the served models compute."""

from collections.abc import Callable

import drafting
import pytest
import torch
import train_dflash
import train_dspark
import train_mtp
from lean_drafters import LeanBlock, LeanMTP
from lean_qwen3 import LeanQwen3
from torch import Tensor, nn

from specmeta_workers import (
    DFlashDraftModel,
    DSparkDraftModel,
    default_engine,
    load_bundled,
)

LENGTH = 150
VOCAB = 512
WIDTH = 256
DRAFTS = 7


def with_random_weights(model: nn.Module) -> None:
    """Wide enough that every part moves the output."""
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.06, generator=generator)
        else:
            nn.init.uniform_(parameter, 0.5, 1.5, generator=generator)


def random_text(layers: int) -> tuple[Tensor, Tensor]:
    """Tokens `[2, LENGTH]` and states `[2, LENGTH, layers * WIDTH]`."""
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(2, VOCAB, (2, LENGTH), generator=generator)
    return tokens, torch.randn(2, LENGTH, layers * WIDTH, generator=generator)


def test_the_lean_target_gives_the_logits_and_states_of_transformers() -> None:
    pair = load_bundled(engine=default_engine("float32"))
    tokens, _ = random_text(1)
    lean = LeanQwen3(pair.target, LENGTH, torch.float32)  # type: ignore[arg-type]  # a Qwen3
    with torch.inference_mode():
        expected = pair.target(input_ids=tokens, output_hidden_states=True)
        states = lean.hidden_states(tokens)
        logits = lean.logits(tokens)
    torch.testing.assert_close(logits, expected.logits, atol=2e-4, rtol=1e-4)
    # transformers normalises the last entry, so the raw output of the last layer is not in it.
    for mine, theirs in zip(states[:-2], expected.hidden_states[:-1], strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(states[-1], expected.hidden_states[-1], atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("make_model", [train_dspark.make_model, train_dflash.make_model])
@torch.inference_mode()
def test_the_lean_block_gives_the_blocks_that_serving_drafts(
    make_model: Callable[[int], DSparkDraftModel | DFlashDraftModel],
) -> None:
    model = make_model(VOCAB)
    with_random_weights(model)
    tokens, captured = random_text(3)
    anchors = torch.tensor([[20, 100, 140], [1, 30, 139]])  # before, at and beyond the window
    hidden = LeanBlock(model, LENGTH, torch.float32)(tokens, captured, anchors)
    position = torch.arange(LENGTH)
    for row in range(2):
        context = model.context_kv(model.project_context(captured[row]), position)
        for column, anchor in enumerate(anchors[row].tolist()):
            block = model.block(
                tokens[row, anchor : anchor + 1],
                torch.tensor([anchor]),
                context.transpose(0, 1)[None],
                ((position < anchor) & (position >= anchor - 128))[None],
            )
            torch.testing.assert_close(hidden[row, column], block[0], atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_the_lean_mtp_gives_the_drafts_of_serving_when_its_tokens_are_forced() -> None:
    model = train_mtp.make_model(VOCAB)
    with_random_weights(model)
    tokens, states = random_text(1)
    anchors = torch.tensor([[20, 100, 142], [1, 30, 139]])
    hidden = LeanMTP(model, LENGTH, torch.float32)(tokens, states, anchors, DRAFTS)
    position = torch.arange(LENGTH)
    for row in range(2):
        context = model.context_kv(tokens[row, 1:], states[row, :-1], position[:-1])
        for column, anchor in enumerate(anchors[row].tolist()):
            served: list[Tensor] = []

            def forced(k: int, logits: Tensor, text: Tensor = tokens[row, anchor + 1 :]) -> Tensor:
                served.append(logits[0])  # noqa: B023 - called before the next round
                return text[k : k + 1]

            model.draft(
                states[row, anchor - 1][None],
                tokens[row, anchor][None],
                torch.tensor([anchor - 1]),
                context.transpose(0, 1)[None],
                (position[:-1] < anchor - 1)[None],
                DRAFTS,
                forced,
            )
            lean = model.lm_head(hidden[row, column])
            torch.testing.assert_close(lean, torch.stack(served), atol=1e-4, rtol=1e-4)


def test_a_drafter_that_is_the_target_has_no_distance_and_full_blocks() -> None:
    logits = torch.tensor([[[[8.0, 0.0], [0.0, 9.0]]]])
    certain, labels = torch.full((1, 1, 2), 50.0), torch.tensor([[[0, 1]]])
    assert drafting.matched_length(logits, logits) == 3.0
    assert train_dspark.block_loss(logits, certain, logits, labels) < 1e-4
    swapped = logits.flip(-1)
    assert drafting.matched_length(swapped, logits) == 1.0
    assert train_dspark.block_loss(swapped, certain, logits, labels) > 40.0


def test_cross_entropy_weighs_early_drafts_more() -> None:
    labels = torch.zeros(1, 1, 2, dtype=torch.long)
    early = torch.tensor([[[[-4.0, 4.0], [4.0, -4.0]]]])  # the first draft is the wrong one
    loss = drafting.cross_entropy_loss(early, labels)
    share = 1 / (1 + torch.exp(torch.tensor(-0.25)))
    torch.testing.assert_close(loss, 8 * share + torch.log1p(torch.exp(torch.tensor(-8.0))))
    assert drafting.cross_entropy_loss(early.flip(2), labels) < loss


def test_the_budgets_of_the_drafters_are_equal() -> None:
    trainings = (train_dspark, train_dflash, train_mtp)
    sizes = [drafting.own_parameters(training.make_model(VOCAB)) for training in trainings]
    assert sizes == [1_444_225, 1_410_688, 1_279_296]
    assert max(sizes) < 1.5 * min(sizes)
