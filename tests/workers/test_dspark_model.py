"""The draft model beyond the parity numbers: its general form, its types, its gradients."""

from __future__ import annotations

import pytest
import torch

from specmeta import DSparkDrafterConfig
from specmeta.testing import make_deployment
from specmeta_workers import DSparkDraftModel
from specmeta_workers._layers import RMSNorm
from tests.workers.worker_cases import make_model


def drafter(**changes: object) -> DSparkDrafterConfig:
    config = make_deployment(drafter=changes).drafter
    assert isinstance(config, DSparkDrafterConfig)
    return config


def context_of(
    model: DSparkDraftModel, batch: int, length: int, seed: int = 3
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random captured states `[B, length, m * d]` and their context keys and values."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(batch, length, model.fc.in_features, generator=generator)
    states = states.to(model.dtype)
    kv = [
        model.context_kv(model.project_context(row), torch.arange(length)).transpose(0, 1)
        for row in states
    ]
    return states, torch.stack(kv)


def test_many_anchors_of_one_sequence_equal_one_block_each() -> None:
    model = make_model(drafter(), "float64")
    size = model.config.block_size
    _, kv = context_of(model, 1, 20)
    anchors = torch.tensor([4, 11, 19])
    tokens = torch.tensor([7, 8, 9])
    apart = [
        model.block(
            tokens[i : i + 1], anchors[i : i + 1], kv, (torch.arange(20) < anchors[i])[None]
        )
        for i in range(3)
    ]
    noise = torch.full((1, 3, size), model.config.mask_token_id)
    noise[0, :, 0] = tokens
    positions = (anchors[:, None] + torch.arange(size)).view(1, -1)
    owner = torch.arange(3).repeat_interleave(size)
    before = torch.arange(20) < anchors[owner][:, None]
    same = owner[:, None] == owner
    together = model.forward_block(
        model.embed_tokens(noise.view(1, -1)),
        positions,
        kv,
        torch.cat((before, same), 1)[None, None],
    )
    torch.testing.assert_close(together.view(3, size, -1), torch.cat(apart), rtol=0, atol=1e-12)


def test_the_order_of_the_columns_does_not_matter_and_masked_ones_do_not_count() -> None:
    model = make_model(drafter(), "float64")
    _, kv = context_of(model, 2, 12)
    tokens, positions = torch.tensor([5, 6]), torch.tensor([12, 12])
    straight = model.block(tokens, positions, kv, torch.ones(2, 12, dtype=torch.bool))
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    shuffled = torch.cat((kv[:, :, order], 50 * kv[:, :, :3]), 2)
    mask = torch.arange(15).expand(2, -1) < 12
    torch.testing.assert_close(
        model.block(tokens, positions, shuffled, mask), straight, rtol=0, atol=1e-12
    )


def test_only_distances_between_positions_matter() -> None:
    model = make_model(drafter(), "float64")
    states, kv = context_of(model, 1, 12)
    far = model.context_kv(model.project_context(states[0]), torch.arange(12) + 300)
    mask = torch.ones(1, 12, dtype=torch.bool)
    near = model.block(torch.tensor([5]), torch.tensor([12]), kv, mask)
    shifted = model.block(torch.tensor([5]), torch.tensor([312]), far.transpose(0, 1)[None], mask)
    torch.testing.assert_close(shifted, near, rtol=0, atol=1e-11)


def test_the_first_drafts_do_not_depend_on_how_many_are_asked_for() -> None:
    model = make_model(drafter(markov_head_type="rnn"), "float64")
    _, kv = context_of(model, 3, 12)
    tokens = torch.tensor([5, 6, 7])
    hidden = model.block(tokens, torch.full((3,), 12), kv, torch.ones(3, 12, dtype=torch.bool))
    every, logits, confidence = model.sample(hidden, tokens, 7)
    assert confidence is not None
    for count in range(1, 7):
        some, some_logits, some_confidence = model.sample(hidden, tokens, count)
        assert some_confidence is not None
        assert torch.equal(some, every[:, :count])
        torch.testing.assert_close(some_logits, logits[:, :count], rtol=0, atol=1e-12)
        torch.testing.assert_close(some_confidence, confidence[:, :count], rtol=0, atol=1e-12)


def test_confidence_is_refused_where_the_checkpoint_has_no_head_for_it() -> None:
    changes = {"enable_confidence_head": False, "confidence_head_with_markov": False}
    model = make_model(drafter(**changes), "float64")
    tokens = torch.tensor([5])
    with pytest.raises(ValueError, match="enable_confidence_head: this drafter has no confidence"):
        model.confidence(torch.zeros(1, 7, 64, dtype=torch.float64), tokens, tokens[:, None])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_lower_precision_stays_near_float64_at_far_positions(dtype: str) -> None:
    exact, rough = make_model(drafter(), "float64"), make_model(drafter(), dtype)
    generator = torch.Generator().manual_seed(3)
    context = torch.randn(12, 64, generator=generator)
    positions = torch.arange(12) + 30_000
    expected = exact.context_kv(context.double(), positions)
    found = rough.context_kv(context.to(rough.dtype), positions)
    assert found.dtype == rough.dtype
    # Phases of low-precision frequencies would be random here: errors of the size of the values.
    assert (found.double() - expected).abs().max() < {"float32": 0.02}.get(dtype, 0.2)
    assert expected.abs().max() > 2


def test_frequencies_survive_a_cast_in_full_precision() -> None:
    model = DSparkDraftModel(drafter()).to(torch.bfloat16)
    expected = 10000.0 ** -(torch.arange(0, 16, 2, dtype=torch.float64) / 16)
    assert torch.equal(model.rotary.frequencies, torch.cat((-expected, expected)))
    assert "rotary.frequencies" not in model.state_dict()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_norm_for_inference_equals_the_norm_for_training(dtype: torch.dtype) -> None:
    norm = RMSNorm(24, 1e-3).to(dtype)
    norm.weight.data += 0.1 * torch.randn(24)
    x = (
        torch.randn(3, 5, 24, dtype=dtype)
        * torch.tensor([1e-3, 1.0, 1e3], dtype=dtype)[:, None, None]
    )
    with torch.no_grad():
        inference = norm(x)
    torch.testing.assert_close(inference, norm(x).detach(), rtol=1e-6, atol=1e-7)


def test_the_norms_epsilon_survives_casts_and_assigned_weights_in_full_precision() -> None:
    cast = RMSNorm(24, 1e-6).half().double()
    assigned = RMSNorm(24, 1e-6)
    assigned.load_state_dict(cast.state_dict(), assign=True)
    x = 1e-3 * torch.randn(7, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()
    with torch.no_grad():
        for norm in (cast, assigned):
            torch.testing.assert_close(norm(x), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("head", ["vanilla", "gated", "rnn"])
def test_training_reaches_every_parameter_through_the_general_form(head: str) -> None:
    model = make_model(drafter(markov_head_type=head), "float32").requires_grad_(True)
    size = model.config.block_size
    states = torch.randn(2, 9, model.fc.in_features)
    context = model.project_context(states)
    kv = torch.stack([model.context_kv(row, torch.arange(9)).transpose(0, 1) for row in context])
    tokens = torch.randint(0, 255, (2, size))
    hidden = model.forward_block(
        model.embed_tokens(tokens),
        torch.arange(9, 9 + size).expand(2, -1),
        kv,
        torch.ones(1, 1, size, 9 + size, dtype=torch.bool),
    )
    logits, confidence = model.head_logits(hidden.view(2, 1, size, -1), tokens[:, None])
    assert logits.shape == (2, 1, size, 256)
    assert confidence is not None
    assert confidence.shape == (2, 1, size)
    (logits.logsumexp(-1).sum() + confidence.sum()).backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.count_nonzero() > 0, name
