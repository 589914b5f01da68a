"""Tiny random target models for the tests of the runner and the executors."""

from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCAB = 97
HIDDEN = 32
LAYERS = 3


def tiny_qwen3(
    *, dtype: torch.dtype = torch.float64, seed: int = 0, max_position_embeddings: int = 256
) -> PreTrainedModel:
    """A random Qwen3: hidden 32, 3 layers, 4 heads on 2 key/value heads, vocabulary 97."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=max_position_embeddings,
        tie_word_embeddings=False,
        initializer_range=0.2,
    )
    return _as(Qwen3ForCausalLM(config), dtype)


def tiny_llama(
    *, dtype: torch.dtype = torch.float64, seed: int = 0, max_position_embeddings: int = 256
) -> PreTrainedModel:
    """A random Llama: hidden 32, 3 layers, 4 heads without grouping, vocabulary 97."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=max_position_embeddings,
        tie_word_embeddings=False,
        initializer_range=0.2,
    )
    return _as(LlamaForCausalLM(config), dtype)


def _as(model: Any, dtype: torch.dtype) -> PreTrainedModel:
    converted: PreTrainedModel = model.to(dtype).eval()
    return converted


def modules_of(model: Any) -> list[torch.nn.Module]:
    """The embedding, then the decoder layers."""
    return [model.get_input_embeddings(), *model.get_decoder().layers]


@torch.no_grad()
def full_forward(
    model: PreTrainedModel, tokens: list[int]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Logits ``[n, vocab]`` and raw hidden states of a forward over the sequence without a cache.

    Hidden states: entry 0 is the embedding output, entry ``i + 1`` the raw output of layer i.
    """
    states: list[torch.Tensor] = []

    def keep(module: torch.nn.Module, args: object, output: torch.Tensor) -> None:
        states.append(output[0])

    hooks = [module.register_forward_hook(keep) for module in modules_of(model)]
    try:
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    finally:
        for hook in hooks:
            hook.remove()
    return logits, states


def greedy(model: PreTrainedModel, prompt: list[int], max_new_tokens: int) -> list[int]:
    """Plain greedy decoding by full forwards without a cache: the slow and certain reference."""
    tokens = list(prompt)
    for _ in range(max_new_tokens):
        logits, _ = full_forward(model, tokens)
        tokens.append(int(logits[-1].argmax()))
    return tokens[len(prompt) :]


def random_prompt(seed: int, length: int) -> list[int]:
    """Reproducible prompt over the whole vocabulary, token 0 included."""
    generator = torch.Generator().manual_seed(seed)
    prompt: list[int] = torch.randint(0, VOCAB, (length,), generator=generator).tolist()
    return prompt
