"""The quick training forwards compute what the served models compute."""

import torch
from lean_qwen3 import LeanQwen3
from train_dspark import LeanDSpark, block_loss

from specmeta_workers import Pair, default_engine, load_bundled

LENGTH = 150


def bundled() -> Pair:
    return load_bundled(engine=default_engine("float32"))


def test_the_lean_target_gives_the_logits_and_states_of_transformers() -> None:
    pair = bundled()
    tokens = torch.randint(2, 512, (2, LENGTH), generator=torch.Generator().manual_seed(1))
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


def test_the_lean_drafter_gives_the_blocks_that_serving_drafts() -> None:
    model = bundled().draft_model
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(2, 512, (2, LENGTH), generator=generator)
    captured = torch.randn(2, LENGTH, 3 * 256, generator=generator)
    anchors = torch.tensor([[20, 100, 140], [1, 30, 139]])  # before, at and beyond the window
    with torch.inference_mode():
        hidden = LeanDSpark(model, LENGTH, torch.float32)(tokens, captured, anchors)
        for row in range(2):
            context = model.context_kv(
                model.project_context(captured[row]), torch.arange(LENGTH)
            ).transpose(0, 1)[None]
            for column, anchor in enumerate(anchors[row].tolist()):
                position = torch.arange(LENGTH)
                readable = (position < anchor) & (position >= anchor - 128)
                block = model.block(
                    tokens[row, anchor : anchor + 1],
                    torch.tensor([anchor]),
                    context,
                    readable[None],
                )
                torch.testing.assert_close(hidden[row, column], block[0], atol=2e-4, rtol=1e-4)


def test_a_drafter_that_is_the_target_has_no_distance_and_full_blocks() -> None:
    logits = torch.tensor([[[[8.0, 0.0], [0.0, 9.0]]]])
    certain = torch.full((1, 1, 2), 50.0)
    loss, matched = block_loss(logits, certain, logits, torch.tensor([[[0, 1]]]))
    assert matched == 3.0
    assert loss < 1e-4
    swapped, none = block_loss(logits.flip(-1), certain, logits, torch.tensor([[[0, 1]]]))
    assert none == 1.0
    assert swapped > 40.0
