"""Agreement with the published implementation, and with a slow one where it gave none.

Every folder of tests/data/parity is run, or of the directory that SPECMETA_PARITY_DIR names.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.workers import naive_dflash
from tests.workers.naive_dspark import golden_round
from tests.workers.parity_cases import check_model, check_worker, read_case

DATA = Path(__file__).parents[1] / "data" / "parity"
ROOT = Path(os.environ.get("SPECMETA_PARITY_DIR", DATA))
FOLDERS = sorted(path.parent for path in ROOT.glob("*/config.json"))
BATCHES = {
    "alone": ((), 0, 0),
    "first of four": ((40, 3, 21), 0, 0),
    "third of four, padded": ((1, 35, 8), 2, 3),
    "last of sixteen": (tuple(range(2, 47, 3)), 15, 0),
}
EVERY_FOLDER = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
EVERY_BATCH = pytest.mark.parametrize("batch", BATCHES)


def test_there_are_folders_to_run() -> None:
    assert FOLDERS, f"no */config.json in {ROOT}"


@EVERY_FOLDER
def test_a_loaded_drafter_computes_the_published_numbers(folder: Path) -> None:
    check_model(read_case(folder))


@EVERY_BATCH
@EVERY_FOLDER
def test_a_worker_drafts_the_published_tokens_in_any_batch(folder: Path, batch: str) -> None:
    others, row, padding = BATCHES[batch]
    check_worker(read_case(folder), others, row, num_padding=padding)


_BASE: dict[str, Any] = {
    "architectures": ["Qwen3DSparkModel"],
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_target_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "vocab_size": 41,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    "block_size": 5,
    "mask_token_id": 40,
    "target_layer_ids": [-1, 2],
    "sliding_window": None,
    "layer_types": ["full_attention", "full_attention"],
    "tie_word_embeddings": False,
    "markov_rank": 7,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}
_WINDOW = {"sliding_window": 9, "layer_types": ["sliding_attention", "sliding_attention"]}
VARIANTS: dict[str, dict[str, Any]] = {
    "vanilla": {},
    "gated": {"markov_head_type": "gated"},
    "gated without bias": {"markov_head_type": "gated", "drop": "gate_proj.bias"},
    "rnn": {"markov_head_type": "rnn"},
    "rnn, window": {"markov_head_type": "rnn", **_WINDOW},
    "confidence without Markov": {"markov_rank": 0, "confidence_head_with_markov": False},
    "confidence of the hidden state alone": {"confidence_head_with_markov": False},
    "confidence without bias": {"drop": "confidence_head.proj.bias"},
    "no heads, window": {
        "markov_rank": 0,
        "enable_confidence_head": False,
        "sample_from_anchor": True,
        **_WINDOW,
    },
    "fill-in": {"sample_from_anchor": False},
    "fill-in, gated": {"sample_from_anchor": False, "markov_head_type": "gated"},
    "fill-in, rnn, window": {
        "sample_from_anchor": False,
        "markov_head_type": "rnn",
        **_WINDOW,
    },
    "fill-in, no heads": {
        "sample_from_anchor": False,
        "markov_rank": 0,
        "enable_confidence_head": False,
    },
    "fill-in, confidence of the hidden state alone": {
        "sample_from_anchor": False,
        "confidence_head_with_markov": False,
    },
    "a wider target": {"target_hidden_size": 20},
    "a narrower target, rnn, window": {
        "target_hidden_size": 10,
        "markov_head_type": "rnn",
        **_WINDOW,
    },
    "window": _WINDOW,
    "tied head": {"tie_word_embeddings": True, "drop": "lm_head.weight"},
    "embedding and head of the target": {"drop": ("embed_tokens.weight", "lm_head.weight")},
    "one key head a query head, one layer": {
        "num_key_value_heads": 4,
        "num_hidden_layers": 1,
        "layer_types": ["full_attention"],
    },
}


def write_case(folder: Path, changes: dict[str, Any]) -> None:
    """Write a folder whose golden numbers come from the slow implementation."""
    raw = {**_BASE, **changes}
    dropped = raw.pop("drop", ())
    (folder / "config.json").write_text(json.dumps(raw))
    generator = torch.Generator().manual_seed(11)
    weights = {
        name: torch.randn(shape, generator=generator).mul(0.6) + ("norm" in name)
        for name, shape in shapes_of(raw).items()
    }
    kept = {name: weight for name, weight in weights.items() if not name.endswith(dropped or "-")}
    golden = {
        f"target.{name}": weights[name]
        for name in ("embed_tokens.weight", "lm_head.weight")
        if name not in kept and not raw["tie_word_embeddings"]
    }
    exact = {
        name: weight.double()
        for name, weight in (
            kept | {name.removeprefix("target."): weight for name, weight in golden.items()}
        ).items()
    }
    states = torch.empty(0, shapes_of(raw)["fc.weight"][1], dtype=torch.float64)
    for index, count in enumerate((11, 3, 1, 6, 14)):
        new = torch.randn(count, states.shape[1], generator=generator).double()
        states = torch.cat((states, new))
        anchor = int(torch.randint(0, 40, (1,), generator=generator))
        numbers = golden_round(raw, exact, states, anchor, states.shape[0])
        numbers["context_hidden"] = new[None]
        golden |= {f"round{index}.{name}": value for name, value in numbers.items()}
    save_file(kept, folder / "model.safetensors")
    save_file(golden, folder / "golden.safetensors")
    assert load_file(folder / "golden.safetensors").keys() == golden.keys()


def shapes_of(raw: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The published tensors of a configuration."""
    width, inner, rank = raw["hidden_size"], raw["intermediate_size"], raw["markov_rank"]
    queries = raw["num_attention_heads"] * raw["head_dim"]
    keys = raw["num_key_value_heads"] * raw["head_dim"]
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (raw["vocab_size"], width),
        "fc.weight": (width, 2 * raw.get("target_hidden_size", width)),
        "hidden_norm.weight": (width,),
        "norm.weight": (width,),
        "lm_head.weight": (raw["vocab_size"], width),
    }
    for layer in range(raw["num_hidden_layers"]):
        shapes |= {
            f"layers.{layer}.input_layernorm.weight": (width,),
            f"layers.{layer}.post_attention_layernorm.weight": (width,),
            f"layers.{layer}.self_attn.q_proj.weight": (queries, width),
            f"layers.{layer}.self_attn.k_proj.weight": (keys, width),
            f"layers.{layer}.self_attn.v_proj.weight": (keys, width),
            f"layers.{layer}.self_attn.o_proj.weight": (width, queries),
            f"layers.{layer}.self_attn.q_norm.weight": (raw["head_dim"],),
            f"layers.{layer}.self_attn.k_norm.weight": (raw["head_dim"],),
            f"layers.{layer}.mlp.gate_proj.weight": (inner, width),
            f"layers.{layer}.mlp.up_proj.weight": (inner, width),
            f"layers.{layer}.mlp.down_proj.weight": (width, inner),
        }
    if rank:
        shapes["markov_head.markov_w1.weight"] = (raw["vocab_size"], rank)
        shapes["markov_head.markov_w2.weight"] = (raw["vocab_size"], rank)
        if raw["markov_head_type"] == "gated":
            shapes["markov_head.gate_proj.weight"] = (rank, width + rank)
            shapes["markov_head.gate_proj.bias"] = (rank,)
        if raw["markov_head_type"] == "rnn":
            shapes["markov_head.joint_proj.weight"] = (3 * rank, 2 * rank + width)
            shapes["markov_head.joint_proj.bias"] = (3 * rank,)
    if raw["enable_confidence_head"]:
        extra = rank if raw["confidence_head_with_markov"] else 0
        shapes["confidence_head.proj.weight"] = (1, width + extra)
        shapes["confidence_head.proj.bias"] = (1,)
    return shapes


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_agrees_with_an_independent_computation(variant: str, tmp_path: Path) -> None:
    write_case(tmp_path, VARIANTS[variant])
    case = read_case(tmp_path)
    check_model(case)
    for others, row, padding in list(BATCHES.values())[:3]:
        check_worker(case, others, row, num_padding=padding)


@pytest.mark.parametrize("folder", ["dspark_vanilla", "dflash_no_markov"])
def test_the_independent_computation_agrees_with_the_published_numbers(folder: str) -> None:
    raw = json.loads((DATA / folder / "config.json").read_text())
    golden = load_file(DATA / folder / "golden.safetensors")
    stored = load_file(DATA / folder / "model.safetensors")
    weights = {name: weight.double() for name, weight in stored.items()}
    states = golden["round0.context_hidden"][0].double()
    numbers = golden_round(raw, weights, states, int(golden["round0.anchor_token"]), 13)
    for name, value in numbers.items():
        torch.testing.assert_close(
            value.double(), golden[f"round0.{name}"].double(), rtol=1e-4, atol=1e-4
        )


def test_the_independent_dflash_agrees_with_the_published_numbers() -> None:
    raw = json.loads((DATA / "zlab_dflash" / "config.json").read_text())
    raw |= raw["dflash_config"]
    golden = load_file(DATA / "zlab_dflash" / "golden.safetensors")
    stored = load_file(DATA / "zlab_dflash" / "model.safetensors")
    for name in ("embed_tokens.weight", "lm_head.weight"):
        stored[name] = golden[f"target.{name}"]
    weights = {name: weight.double() for name, weight in stored.items()}
    states = golden["round0.context_hidden"][0].double()
    anchor = int(golden["round0.anchor_token"])
    logits = naive_dflash.draft(raw, weights, states, anchor, sample_from_anchor=False)
    expected = golden["round0.draft_logits"].double()
    torch.testing.assert_close(torch.stack(logits)[None], expected, rtol=1e-4, atol=1e-4)
