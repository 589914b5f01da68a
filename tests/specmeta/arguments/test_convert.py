"""``specmeta convert``."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from specmeta import read_deployment
from specmeta._cli import app

CHECKPOINTS = Path(__file__).parents[2] / "data" / "checkpoints"
PAIR = CHECKPOINTS / "dspark_qwen3_8b_block7"
COMMAND = """vllm serve Qwen/Qwen3-8B --max-num-seqs 16 --max-num-batched-tokens 8192 \\
  --max-model-len 4096 --dtype bfloat16 --cudagraph-capture-sizes 8 128 \\
  --speculative-config '{"method": "dspark", "model": "deepseek-ai/x", "num_speculative_tokens": 7}'
"""
SGLANG = """\
model-path: Qwen/Qwen3-8B
dtype: bfloat16
max-running-requests: 16
max-prefill-tokens: 8192
chunked-prefill-size: 8192
context-length: 4096
cuda-graph-bs: [1, 16]
speculative-algorithm: DSPARK
speculative-draft-model-path: deepseek-ai/x
speculative-num-draft-tokens: 8
"""
TENSORRT_LLM = """\
model: Qwen/Qwen3-8B
dtype: bfloat16
max_batch_size: 16
max_num_tokens: 8192
max_seq_len: 4096
cuda_graph_config:
  batch_sizes: [1, 16]
  enable_padding: true
speculative_config:
  decoding_type: DSpark
  max_draft_len: 7
  speculative_model: deepseek-ai/x
"""
FLAGS = """\
--model=Qwen/Qwen3-8B \\
--dtype=bfloat16 \\
--max-num-seqs=16 \\
--max-num-batched-tokens=8192 \\
--max-model-len=4096 \\
--cudagraph-capture-sizes 8 128 \\
--speculative-config='{"method": "dspark", "model": "deepseek-ai/x", "num_speculative_tokens": 7}'
"""
DEPLOYMENT = """\
target: {target}
drafter: {drafter}
decoding:
  decoding_type: DSpark
  max_draft_len: 7
engine:
  max_num_requests: 16
  num_seq_slots: 16
  max_num_tokens: 8192
  max_seq_len: 4096
  dtype: bfloat16
  cuda_graph_batch_sizes: [1, 16]
"""
NOT_READ = (
    "specmeta convert: note: target and drafter: were not read, so the arguments alone are "
    "checked\n"
)


def convert(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["convert", *map(str, arguments)], input=text)


@pytest.fixture
def command(tmp_path: Path) -> Path:
    path = tmp_path / "run.sh"
    path.write_text(COMMAND)
    return path


@pytest.mark.parametrize(("to", "text"), [("sglang", SGLANG), ("tensorrt-llm", TENSORRT_LLM)])
def test_a_command_becomes_the_arguments_of_another_engine(
    command: Path, to: str, text: str
) -> None:
    done = convert("--to", to, command)
    assert (done.exit_code, done.stdout, done.stderr) == (0, text, NOT_READ)


def test_flags_come_out_as_a_command_takes_them(command: Path) -> None:
    done = convert("--to", "vllm", "--as", "flags", command)
    assert (done.exit_code, done.stdout) == (0, FLAGS)


def test_standard_input_is_read() -> None:
    done = convert("--to", "vllm", "--as", "flags", "-", text=SGLANG)
    assert (done.exit_code, done.stdout) == (0, FLAGS)
    done = convert("--to", "sglang", "-", text=FLAGS)
    assert (done.exit_code, done.stdout) == (0, SGLANG)


def test_a_pair_is_checked_where_it_is_given(command: Path) -> None:
    pair = ("--target", PAIR / "target", "--drafter", PAIR / "drafter")
    done = convert("--to", "sglang", *pair, command)
    assert (done.exit_code, done.stdout, done.stderr) == (0, SGLANG, "")
    command.write_text(COMMAND.replace(": 7", ": 9"))
    done = convert("--to", "sglang", *pair, command)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"specmeta convert: error: {command}:3: speculative-config.num_speculative_tokens: 9 is "
        "above the 7 drafts of a block of 7 (anchor_first); "
    )


def test_a_deployment_file_is_written_and_read(command: Path, tmp_path: Path) -> None:
    target, drafter = PAIR / "target", PAIR / "drafter"
    done = convert("--to", "specmeta", "--target", target, "--drafter", drafter, command)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == DEPLOYMENT.format(target=target, drafter=drafter)
    file = tmp_path / "deployment.yaml"
    file.write_text(done.stdout)
    assert read_deployment(file, roots=[PAIR]).engine.max_num_requests == 16
    again = convert("--to", "specmeta", "--root", PAIR, file)
    assert (again.exit_code, again.stdout, again.stderr) == (0, done.stdout, "")
    vllm = convert("--to", "vllm", "--root", PAIR, file)
    assert vllm.exit_code == 0
    assert f'"model": "{drafter}"' in vllm.stdout
    assert vllm.stdout.startswith(f"model: {target}\n")


def test_what_no_argument_says_goes_into_the_deployment_file(tmp_path: Path) -> None:
    file = tmp_path / "sglang.yaml"
    file.write_text(SGLANG)
    folder = CHECKPOINTS / "deepspec_dflash_qwen3_8b_block7"
    pair = ("--target", folder / "target", "--drafter", folder / "drafter")
    done = convert("--to", "specmeta", *pair, file)
    assert done.exit_code == 1
    assert "[fact_not_stated]" in done.stderr
    done = convert("--to", "specmeta", *pair, "--state", "anchor_convention=anchor_first", file)
    assert done.exit_code == 0
    assert done.stdout.startswith(
        f"target: {folder / 'target'}\ndrafter:\n  checkpoint: {folder / 'drafter'}\n"
        "  stated:\n    anchor_convention: anchor_first\ndecoding:\n"
    )


def test_a_bundled_drafter_is_found_in_its_target(tmp_path: Path) -> None:
    file = tmp_path / "args.yaml"
    file.write_text(
        SGLANG.replace("tokens: 8\n", "tokens: 6\n").replace(
            "speculative-draft-model-path: deepseek-ai/x\n", "speculative-dspark-block-size: 5\n"
        )
    )
    target = CHECKPOINTS / "deepseek_v4_flash_dspark" / "target"
    done = convert("--to", "specmeta", "--target", target, file)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"target: {target}\ndrafter: bundled\n")
    shorter = file.read_text().replace("size: 5", "size: 4").replace("tokens: 6", "tokens: 5")
    file.write_text(shorter)  # no weight has the size of the block, so a run may draft fewer
    assert convert("--to", "specmeta", "--target", target, file).exit_code == 0
    file.write_text(shorter.replace("size: 4", "size: 6").replace("tokens: 5", "tokens: 7"))
    done = convert("--to", "specmeta", "--target", target, file)
    assert done.exit_code == 1
    assert "speculative-num-draft-tokens" in done.stderr
    assert "[draft_beyond_block]" in done.stderr


def test_overrides_and_compiled_artefacts_are_kept(tmp_path: Path) -> None:
    target, drafter = PAIR / "target", PAIR / "drafter"
    text = DEPLOYMENT.format(target=target, drafter=drafter).replace("draft_len: 7", "draft_len: 9")
    text += "overrides:\n  - rule: draft_beyond_block\n    reason: measured here\n"
    text += (
        "compiled_for:\n  decoding_type: DSpark\n  max_draft_len: 9\n  dtype: bfloat16\n"
        "  layers_to_capture: [1, 9, 17, 25, 33]\n  window_size: 4096\n  block_size: 9\n"
        "  anchor_convention: anchor_first\n  window_causality: non_causal\n"
    )
    file = tmp_path / "deployment.yaml"
    file.write_text(text)
    done = convert("--to", "specmeta", "--root", PAIR, file)
    assert (done.exit_code, done.stdout) == (0, text)
    assert done.stderr.startswith("specmeta convert: overridden: ")
    done = convert("--to", "sglang", "--root", PAIR, file)
    assert done.exit_code == 0
    assert [line.split(": ")[2] for line in done.stderr.splitlines()[1:]] == [
        "decoding.max_draft_len (9)",
        "overrides (draft_beyond_block)",
        "compiled_for",
    ]


def test_names_that_are_no_directories_are_said(command: Path) -> None:
    done = convert("--to", "specmeta", command)
    assert done.exit_code == 0
    assert done.stdout == DEPLOYMENT.format(target="Qwen/Qwen3-8B", drafter="deepseek-ai/x")
    assert done.stderr == NOT_READ + (
        "specmeta convert: note: target and drafter: a deployment file needs their directories; "
        "give --target and --drafter, or correct the names\n"
    )


def test_warnings_are_shown(command: Path) -> None:
    command.write_text(COMMAND.replace(": 7}", ': 7, "enable_adaptive_verification": true}'))
    done = convert("--to", "sglang", command)
    assert done.exit_code == 0
    assert done.stderr.startswith(
        f"specmeta convert: warning: {command}:3: speculative-config.enable_adaptive_verification: "
    )
