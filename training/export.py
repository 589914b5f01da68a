"""Write the bundled models into the package: float16 weights, tokenizer, held-out prompts.

python training/export.py --cache training/cache
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import train_dflash
import train_dspark
import train_mtp
from drafting import ANCHORS
from safetensors.torch import save_file
from tokenizer import END_OF_TEXT
from tokenizers import Tokenizer
from torch import nn
from train_target import load_target

if TYPE_CHECKING:
    from transformers import Qwen3Config

    from specmeta import DFlashDrafterConfig, DrafterConfig, DSparkDrafterConfig

BUNDLED = Path(__file__).parents[1] / "workers" / "specmeta_workers" / "bundled"
PROMPTS = 128
PROMPT_TOKENS = (32, 48, 64, 80, 96)


def half(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights as they are shipped."""
    return {name: tensor.detach().half().contiguous() for name, tensor in state.items()}


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write readable JSON with a final newline."""
    path.write_text(json.dumps(value, indent=2) + "\n")


def export_target(cache: Path, folder: Path) -> Qwen3Config:
    """A directory that `AutoModelForCausalLM` and `AutoTokenizer` read; its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    model = load_target(cache)
    model.config.dtype = torch.float16
    model.config.architectures = ["Qwen3ForCausalLM"]
    model.config.save_pretrained(folder)
    state = half(dict(model.state_dict()))
    del state["lm_head.weight"]  # tied to the embedding
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(cache / "tokenizer.json", folder / "tokenizer.json")
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TEXT,
        "model_max_length": model.config.max_position_embeddings,
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", tokenizer)
    config: Qwen3Config = model.config
    return config


def export_drafter(
    checkpoint: Path, folder: Path, model: nn.Module, published: dict[str, Any]
) -> None:
    """The trained weights of `model`, embedding and head left to the target; its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    model.load_state_dict(torch.load(checkpoint, weights_only=True)["model"])
    state = half(dict(model.state_dict()))
    for shared in ("embed_tokens.weight", "lm_head.weight"):
        del state[shared]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", published)


def dense_keys(config: DrafterConfig, target: Qwen3Config) -> dict[str, Any]:
    """What the configurations of all layouts say of the layers."""
    return {
        "model_type": "qwen3",
        "hidden_act": "silu",
        "attention_bias": False,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": False,
        "num_target_layers": target.num_hidden_layers,
        "dtype": "float16",
    }


def block_keys(config: DSparkDrafterConfig | DFlashDrafterConfig) -> dict[str, Any]:
    """What the configurations of both block layouts say at the top level."""
    return {
        "num_hidden_layers": config.num_layers,
        "layer_types": ["sliding_attention"] * config.num_layers,
        "use_sliding_window": True,
        "sliding_window": config.sliding_window,
        "block_size": config.block_size,
    }


def export_dspark(cache: Path, folder: Path, target: Qwen3Config) -> None:
    """A directory in the DeepSpec layout."""
    model = train_dspark.make_model(target.vocab_size)
    config = model.config
    published = {
        "architectures": ["Qwen3DSparkModel"],
        **dense_keys(config, target),
        **block_keys(config),
        "target_layer_ids": list(config.target_layer_ids),
        "mask_token_id": config.mask_token_id,
        "num_anchors": ANCHORS,
        "markov_rank": config.markov_rank,
        "markov_head_type": config.markov_head_type,
        "enable_confidence_head": config.enable_confidence_head,
        "confidence_head_with_markov": config.confidence_head_with_markov,
    }
    export_drafter(cache / "dspark.pt", folder, model, published)


def export_dflash(cache: Path, folder: Path, target: Qwen3Config) -> None:
    """A directory in the z-lab layout."""
    model = train_dflash.make_model(target.vocab_size)
    config = model.config
    published = {
        "architectures": ["DFlashDraftModel"],
        **dense_keys(config, target),
        **block_keys(config),
        "dflash_config": {
            "mask_token_id": config.mask_token_id,
            "target_layer_ids": list(config.target_layer_ids),
        },
    }
    export_drafter(cache / "dflash.pt", folder, model, published)


def export_mtp(cache: Path, folder: Path, target: Qwen3Config) -> None:
    """A directory in this project's own layout: no published one has such a layer by itself."""
    model = train_mtp.make_model(target.vocab_size)
    published = {
        "architectures": ["Qwen3MTPModel"],
        **dense_keys(model.config, target),
        "num_nextn_predict_layers": model.config.num_layers,
        "target_hidden_state": model.config.target_hidden_state,
    }
    export_drafter(cache / "mtp.pt", folder, model, published)


def held_out_prompts(cache: Path) -> list[dict[str, str]]:
    """Prompts from paragraphs of held-out documents, of mixed lengths, cut between words.

    The documents take turns, so that a short list still covers them all.
    """
    tokenizer = Tokenizer.from_file(str(cache / "tokenizer.json"))
    documents = json.loads((cache / "held_out.json").read_text())
    queues = []
    for document in documents:
        lines = document["text"].split("\n")
        starts = range(0, len(lines), 2)
        queues.append([(document["name"], "\n".join(lines[i : i + 6])) for i in starts])
    prompts: list[dict[str, str]] = []
    for turn in range(max(map(len, queues))):
        for queue in queues:
            if turn >= len(queue) or len(prompts) == PROMPTS:
                continue
            name, text = queue[turn]
            wanted = PROMPT_TOKENS[len(prompts) % len(PROMPT_TOKENS)]
            encoding = tokenizer.encode(text)
            if len(encoding.ids) < wanted:
                continue
            end = encoding.offsets[wanted - 1][1]
            cut = text[: max(text.rfind(" ", 0, end), text.rfind("\n", 0, end))]
            if len(tokenizer.encode(cut).ids) < wanted // 2:
                continue  # a paragraph that is too short to cut between words
            if any(prompt["text"] == cut for prompt in prompts):
                continue
            prompts.append({"text": cut, "document": name})
    return prompts


def main() -> None:
    """Export what the cache holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("training/cache"))
    parser.add_argument("--to", type=Path, default=BUNDLED)
    options = parser.parse_args()
    target = export_target(options.cache, options.to / "target")
    export_dspark(options.cache, options.to / "dspark", target)
    export_dflash(options.cache, options.to / "dflash", target)
    export_mtp(options.cache, options.to / "mtp", target)
    prompts = held_out_prompts(options.cache)
    lines = [json.dumps(prompt) for prompt in prompts]
    (options.to / "prompts.jsonl").write_text("\n".join(lines) + "\n")
    size = sum(path.stat().st_size for path in options.to.rglob("*") if path.is_file())
    print(f"{len(prompts)} prompts; {size / 1e6:.2f} MB in {options.to}")


if __name__ == "__main__":
    main()
