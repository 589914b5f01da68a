"""The target runner against the model's own forward over whole sequences without a cache."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from specmeta_workers._target import TargetRunner
from specmeta_workers._target_layout import TargetRows
from tests.workers.tiny_targets import (
    HIDDEN,
    VOCAB,
    full_forward,
    modules_of,
    random_prompt,
    tiny_llama,
    tiny_qwen3,
)

MODELS = pytest.mark.parametrize("make_model", [tiny_qwen3, tiny_llama])


def make_runner(model: PreTrainedModel, layer_ids: tuple[int, ...] = (0, 2)) -> TargetRunner:
    return TargetRunner(model, layer_ids, num_slots=5, max_seq_len=48)


@MODELS
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_ragged_batches_match_the_full_forward(
    make_model: Callable[..., PreTrainedModel], dtype: torch.dtype, tolerance: float
) -> None:
    model = make_model(dtype=dtype)
    runner = make_runner(model)
    a, b, c = (random_prompt(seed, 30) for seed in range(3))
    chunks: list[tuple[int, list[tuple[int, list[int], int, int]]]] = [
        # (num_contexts, rows of (slot, sequence, start, end))
        (2, [(0, a, 0, 9), (3, b, 0, 4)]),
        (1, [(3, b, 4, 20), (0, a, 9, 13)]),
        (1, [(1, c, 0, 1), (0, a, 13, 14), (3, b, 20, 24)]),
        (0, [(0, a, 14, 18), (1, c, 1, 5), (3, b, 24, 28)]),
        (0, [(0, a, 18, 22), (1, c, 5, 9)]),
    ]
    references = {id(s): full_forward(model, s) for s in (a, b, c)}
    for num_contexts, rows in chunks:
        target_rows = TargetRows(
            num_contexts=num_contexts,
            seq_lens=tuple(end - start for _, _, start, end in rows),
            slots=tuple(slot for slot, _, _, _ in rows),
        )
        flat = torch.tensor([t for _, s, start, end in rows for t in s[start:end]])
        logits, captured = runner.forward(target_rows, flat)
        wanted_logits, wanted_states = [], []
        for row, (_, sequence, start, end) in enumerate(rows):
            reference, states = references[id(sequence)]
            wanted_logits.append(
                reference[end - 1 : end] if row < num_contexts else reference[start:end]
            )
            wanted_states.append(torch.cat([states[1][start:end], states[3][start:end]], dim=-1))
        torch.testing.assert_close(logits, torch.cat(wanted_logits), rtol=0, atol=tolerance)
        torch.testing.assert_close(captured, torch.cat(wanted_states), rtol=0, atol=tolerance)
    assert runner.store.lengths[:4] == [22, 9, 0, 28]


def test_rejected_tokens_leave_no_trace() -> None:
    model = tiny_qwen3()
    runner = make_runner(model)
    sequence = random_prompt(7, 20)
    runner.forward(TargetRows(1, (8,), (2,)), torch.tensor(sequence[:8]))
    wrong = torch.tensor([sequence[8], 5, 5, 5, 5])
    runner.forward(TargetRows(0, (5,), (2,)), wrong)
    runner.store.truncate(2, 9)
    logits, _ = runner.forward(TargetRows(0, (3,), (2,)), torch.tensor(sequence[9:12]))
    torch.testing.assert_close(logits, full_forward(model, sequence)[0][9:12], rtol=0, atol=1e-10)


def test_stale_values_beyond_the_length_never_matter() -> None:
    model = tiny_qwen3()
    clean, dirty = make_runner(model), make_runner(model)
    for slot in (0, 1, 2, 4):
        dirty.store.keys[:, slot] = 1e200
        dirty.store.values[:, slot] = -1e200
    rows = TargetRows(2, (6, 3), (0, 2))
    prompt = torch.tensor(random_prompt(1, 9))
    later = TargetRows(0, (2, 2, 4), (0, 2, 5))
    tokens = torch.tensor(random_prompt(2, 8))
    for first, second in (
        (clean.forward(rows, prompt), dirty.forward(rows, prompt)),
        (clean.forward(later, tokens), dirty.forward(later, tokens)),
    ):
        assert torch.equal(first[0], second[0])
        assert torch.equal(first[1], second[1])


def test_nan_of_one_request_reaches_neither_its_neighbour_nor_its_successor() -> None:
    model = tiny_qwen3()
    runner, reference = make_runner(model), make_runner(model)
    rows = TargetRows(2, (4, 7), (0, 1))
    tokens = torch.tensor(random_prompt(3, 11))
    for each in (runner, reference):
        each.forward(rows, tokens)
    runner.store.values[:, 0] = torch.nan
    runner.store.keys[:, 0] = torch.nan
    step = TargetRows(0, (2, 2), (0, 1))
    poisoned, _ = runner.forward(step, tokens[:4])
    healthy, _ = reference.forward(step, tokens[:4])
    assert poisoned[:2].isnan().all()
    assert torch.equal(poisoned[2:], healthy[2:])
    # The slot changes hands.
    runner.store.open(0)
    logits, _ = runner.forward(TargetRows(1, (5,), (0,)), tokens[:5])
    expected = full_forward(model, tokens[:5].tolist())[0][-1:]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)


def test_padding_and_ragged_cells_write_only_to_the_scratch_row() -> None:
    runner = make_runner(tiny_qwen3())
    for slot in range(5):
        runner.store.open(slot)
    runner.forward(TargetRows(2, (9, 2), (1, 3)), torch.tensor(random_prompt(0, 11)))
    runner.forward(TargetRows(0, (1, 4, 4, 4), (1, 3, 5, 5)), torch.tensor(random_prompt(0, 13)))
    used = runner.store.keys.abs().sum(dim=(0, 2, 4)) > 0  # [slots, capacity]
    assert used[:5].sum(dim=1).tolist() == [0, 10, 0, 6, 0]
    assert runner.store.lengths == [0, 10, 0, 6, 0, 0]


def test_only_asked_layers_are_captured_and_hooks_come_off() -> None:
    model = tiny_qwen3()
    prompt = random_prompt(0, 6)
    _, states = full_forward(model, prompt)
    runner = make_runner(model, (-1, 1))
    _, captured = runner.forward(TargetRows(1, (6,), (0,)), torch.tensor(prompt))
    assert captured.shape == (6, 2 * HIDDEN)
    torch.testing.assert_close(
        captured, torch.cat([states[0], states[2]], dim=-1), rtol=0, atol=1e-10
    )
    modules = modules_of(model)
    assert [len(m._forward_hooks) for m in modules] == [1, 0, 1, 0]
    runner.close()
    assert not any(m._forward_hooks for m in modules)

    plain = make_runner(model, ())
    logits, captured = plain.forward(TargetRows(1, (6,), (0,)), torch.tensor(prompt))
    assert logits.shape == (1, VOCAB)
    assert captured.shape == (6, 0)


def test_a_failed_forward_leaves_the_lengths_and_can_be_repeated() -> None:
    model = tiny_qwen3()
    runner = make_runner(model)
    sequence = random_prompt(4, 10)
    runner.forward(TargetRows(1, (6,), (0,)), torch.tensor(sequence[:6]))
    handle = modules_of(model)[3].register_forward_pre_hook(_fail)
    with pytest.raises(RuntimeError, match="device lost"):
        runner.forward(TargetRows(0, (4,), (0,)), torch.tensor(sequence[6:]))
    handle.remove()
    assert runner.store.lengths[0] == 6
    assert runner.store.cache.view is None
    logits, _ = runner.forward(TargetRows(0, (4,), (0,)), torch.tensor(sequence[6:]))
    torch.testing.assert_close(logits, full_forward(model, sequence)[0][6:], rtol=0, atol=1e-10)


def _fail(module: torch.nn.Module, args: object) -> None:
    raise RuntimeError("device lost")


def test_a_row_may_fill_the_store_but_not_exceed_it() -> None:
    runner = make_runner(tiny_qwen3())
    runner.forward(TargetRows(1, (48,), (0,)), torch.tensor(random_prompt(0, 48)))
    with pytest.raises(
        ValueError, match="1 more tokens after the 48 of slot 0 exceed max_seq_len 48"
    ):
        runner.forward(TargetRows(0, (1,), (0,)), torch.tensor([1]))


def test_token_count_must_match_the_rows() -> None:
    runner = make_runner(tiny_qwen3())
    with pytest.raises(ValueError, match=r"input_ids: shape \(3,\) for rows of 4 tokens"):
        runner.forward(TargetRows(1, (4,), (0,)), torch.tensor([1, 2, 3]))
    assert runner.store.lengths[0] == 0


def test_forward_warns_about_nothing() -> None:
    runner = make_runner(tiny_qwen3())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.forward(TargetRows(1, (4,), (0,)), torch.tensor([0, 0, 1, 2]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((0, (1, 2), (0,)), "slots: 1 entries for 2 seq_lens"),
        ((0, (), ()), "at least one row"),
        ((0, (0,), (0,)), "at least 1 token"),
        ((2, (1,), (0,)), "num_contexts: 2 is outside 0 to 1"),
    ],
)
def test_inconsistent_rows_are_refused(
    rows: tuple[int, tuple[int, ...], tuple[int, ...]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TargetRows(*rows)


@pytest.mark.parametrize("ids", [(3,), (-2,), (1, 1), (2, 0)])
def test_layers_that_do_not_exist_are_refused(ids: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"target_layer_ids\[\d\]"):
        make_runner(tiny_qwen3(), ids)


def test_sequences_beyond_the_models_positions_are_refused() -> None:
    with pytest.raises(ValueError, match="max_position_embeddings 32"):
        make_runner(tiny_qwen3(max_position_embeddings=32))


def test_a_sliding_window_shorter_than_the_sequence_is_refused() -> None:
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        use_sliding_window=True,
        sliding_window=16,
        max_window_layers=1,
    )
    with pytest.raises(ValueError, match="sliding window 16"):
        make_runner(Qwen3ForCausalLM(config).double(), ())


def test_models_that_the_runner_cannot_drive_are_refused() -> None:
    sizes: dict[str, Any] = {"vocab_size": VOCAB, "num_hidden_layers": 1, "hidden_size": HIDDEN}
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_layer=1, n_head=2, n_embd=HIDDEN))
    with pytest.raises(ValueError, match="model: GPT2LMHeadModel has no decoder layers to hook"):
        make_runner(gpt2)
    encoder: Any = BertForMaskedLM(BertConfig(**sizes, num_attention_heads=2, intermediate_size=8))
    with pytest.raises(ValueError, match="the forward of BertForMaskedLM takes no logits_to_keep"):
        make_runner(encoder)
