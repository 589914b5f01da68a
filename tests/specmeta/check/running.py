"""Runs `specmeta check` in this process, and writes what it checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from specmeta._cli import app

DATA = Path(__file__).parents[2] / "data" / "checkpoints"

QWEN = DATA / "dspark_qwen3_8b_block7"
V4 = DATA / "deepseek_v4_flash_dspark"
STATED = ("--state", "anchor_convention=anchor_first")

DEPLOYMENT = """\
target:
  hidden_size: 64
  num_layers: 8
  vocab_size: 512
  max_position_embeddings: 4096
drafter:
  decoding_type: DSpark
  hidden_size: 64
  target_hidden_size: 64
  num_layers: 2
  vocab_size: 512
  draft_vocab_size: 512
  max_position_embeddings: 4096
  attention_kind: grouped_query
  num_attention_heads: 4
  num_key_value_heads: 2
  head_dim: 16
  intermediate_size: 128
  rms_norm_eps: 1.0e-6
  rope_theta: 10000
  sliding_window: 128
  block_size: 5
  mask_token_id: 511
  target_layer_ids: [1, 4, 6]
  layer_id_convention: output_of_layer
  anchor_convention: anchor_first
  window_causality: non_causal
  markov_rank: 8
  markov_head_type: vanilla
  enable_confidence_head: true
  confidence_head_with_markov: true
decoding:
  decoding_type: DSpark
  max_draft_len: 5
engine:
  max_num_requests: 8
  num_seq_slots: 16
  max_num_tokens: 256
  max_seq_len: 2048
  dtype: bfloat16
"""

PAIR = """\
target: models/target
drafter: models/drafter
decoding: {decoding_type: DSpark, max_draft_len: 7}
engine:
  max_num_requests: 16
  num_seq_slots: 16
  max_num_tokens: 8192
  max_seq_len: 32768
  dtype: bfloat16
"""

SERVE = (
    "vllm serve models/target \\\n"
    '  --speculative-config \'{"method": "dspark", "num_speculative_tokens": 7}\' \\\n'
    "  --max-num-seqs 16 --max-num-batched-tokens 8192 --dtype bfloat16\n"
)


class Result(NamedTuple):
    """What a check printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def report(self) -> dict[str, Any]:
        return dict(json.loads(self.out))

    @property
    def found(self) -> list[tuple[str, str, int | None]]:
        """Rule, field and line of each finding of a JSON report."""
        return [
            (f["rule"], f["field"], f["line"])
            for item in self.report["inputs"]
            for f in item["findings"]
        ]


def check(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    done = CliRunner().invoke(
        app, ["check", *map(str, arguments)], input=stdin, catch_exceptions=False
    )
    return Result(done.exit_code, done.stdout, done.stderr)


def write(path: Path, *changes: tuple[str, str], text: str = DEPLOYMENT) -> Path:
    """A deployment file with parts of its text replaced, each of which it has once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text)
    return path


def kind_of(result: Result) -> tuple[str, str | None]:
    """Kind and dialect of the one input of a JSON report."""
    (item,) = result.report["inputs"]
    return item["kind"], item["dialect"]
