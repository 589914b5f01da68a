"""What ``specmeta convert`` keeps of the drafter, and what it says of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import Result

from tests.specmeta.arguments.test_convert import (
    CHECKPOINTS,
    COMMAND,
    DEPLOYMENT,
    SGLANG,
    TENSORRT_LLM,
    convert,
)

NOTE = "specmeta convert: note: "
BUNDLED = CHECKPOINTS / "deepseek_v4_flash_dspark" / "target"
PAIR = CHECKPOINTS / "deepspec_dflash_qwen3_8b_block7"
ANOTHER = "drafter: the target's own was read, and 'deepseek-ai/x', which is named, was not"
STATED = "drafter:\n  checkpoint: {drafter}\n  stated:\n    anchor_convention: anchor_first\n"


def notes(done: Result) -> str:
    return "".join(line for line in done.stderr.splitlines(keepends=True) if NOTE in line)


def bundled(draft_model: str) -> str:
    """Arguments for a target with a drafter inside, which may name one."""
    text = SGLANG.replace("tokens: 8\n", "tokens: 6\n")
    return text.replace("speculative-draft-model-path: deepseek-ai/x\n", draft_model)


@pytest.mark.parametrize(
    ("draft_model", "note"),
    [
        ("", ""),
        ("speculative-draft-model-path: Qwen/Qwen3-8B\n", ""),  # the target itself
        (
            "speculative-draft-model-path: deepseek-ai/x\n",
            f"{NOTE}{ANOTHER}; give its directory with --drafter, if it is another one\n",
        ),
    ],
)
def test_a_bundled_drafter_is_written_as_one(draft_model: str, note: str) -> None:
    done = convert("--to", "specmeta", "--target", BUNDLED, "-", text=bundled(draft_model))
    assert (done.exit_code, notes(done)) == (0, note)
    assert done.stdout.startswith(f"target: {BUNDLED}\ndrafter: bundled\n")


def test_a_bundled_drafter_is_not_asked_for() -> None:
    done = convert("--to", "vllm", "--target", BUNDLED, "-", text=bundled(""))
    assert (done.exit_code, notes(done)) == (0, "")


def test_stated_facts_are_said_or_written(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    text = DEPLOYMENT.format(target=PAIR / "target", drafter=PAIR / "drafter")
    stated = STATED.format(drafter=PAIR / "drafter")
    text = text.replace(f"drafter: {PAIR / 'drafter'}\n", stated)
    file.write_text(text)
    done = convert("--to", "vllm", "--root", PAIR, file)
    assert (done.exit_code, done.stderr) == (
        0,
        f"{NOTE}drafter.stated.anchor_convention ('anchor_first'): vLLM has no argument for it\n",
    )
    assert convert("--to", "specmeta", "--root", PAIR, file).stdout == text
    option = ("--state", "anchor_convention=anchor_first")
    pair = ("--target", PAIR / "target", "--drafter", PAIR / "drafter")
    done = convert("--to", "vllm", *pair, *option, "-", text=SGLANG)
    assert "drafter.stated.anchor_convention" in done.stderr


@pytest.mark.parametrize("stated", ["[1]", "true", "5", "abc", "[[a, b]]"])
def test_facts_that_are_no_object_are_refused(tmp_path: Path, stated: str) -> None:
    file = tmp_path / "deployment.yaml"
    text = DEPLOYMENT.format(target=PAIR / "target", drafter=PAIR / "drafter")
    written = STATED.format(drafter=PAIR / "drafter").replace(
        "\n    anchor_convention: anchor_first", f" {stated}"
    )
    file.write_text(text.replace(f"drafter: {PAIR / 'drafter'}\n", written))
    done = convert("--to", "vllm", "--root", PAIR, file)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "[dict_type]" in done.stderr


FACTS = "  block_size: 7\n  target_layer_ids: [1, 9, 17, 25, 33]\n"


def test_facts_in_arguments_are_kept_where_there_is_a_place() -> None:
    text = TENSORRT_LLM + FACTS
    done = convert("--to", "tensorrt-llm", "-", text=text)
    assert (done.exit_code, done.stdout) == (0, text)
    done = convert("--to", "sglang", "-", text=text)
    unsaid = "SGLang has no argument for it\n"
    assert f"{NOTE}drafter.stated.block_size (7): {unsaid}" in done.stderr
    assert f"drafter.stated.target_layer_ids ([1, 9, 17, 25, 33]): {unsaid}" in done.stderr
    done = convert("--to", "specmeta", "-", text=text)
    assert (
        "drafter:\n  checkpoint: deepseek-ai/x\n  stated:\n    block_size: 7\n"
        "    target_layer_ids: [1, 9, 17, 25, 33]\n"
    ) in done.stdout


def test_a_variable_in_a_name_is_said() -> None:
    done = convert("--to", "sglang", "-", text=COMMAND.replace("Qwen/Qwen3-8B", '"$MODEL"'))
    assert done.exit_code == 0
    assert f"{NOTE}target ('$MODEL'): a variable of the shell is written as any other name\n" in (
        done.stderr
    )


@pytest.mark.parametrize("spelled", ["tensorrt-llm", "tensorrt_llm"])
def test_an_engine_has_a_hyphen_or_an_underscore(spelled: str, tmp_path: Path) -> None:
    done = convert("--to", spelled, "--from", spelled, "-", text=TENSORRT_LLM)
    assert (done.exit_code, done.stdout) == (0, TENSORRT_LLM)
    pair = CHECKPOINTS / "dspark_qwen3_8b_block7"
    file = tmp_path / "deployment.yaml"
    (tmp_path / "args.yaml").write_text(TENSORRT_LLM)
    file.write_text(
        f"target: {pair / 'target'}\ndrafter: {pair / 'drafter'}\n"
        f"arguments: {{{spelled}: args.yaml}}\n"
    )
    done = convert("--to", "specmeta", "--root", pair, file)
    assert (done.exit_code, done.stderr) == (0, "")


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    done = convert("--to", "vllm", "--from", "specmeta", "-", text=SGLANG)
    assert done.exit_code == 2
    assert "'specmeta' is none of tensorrt-llm, vllm," in done.stderr


def test_a_command_of_another_engine_is_refused() -> None:
    done = convert("--to", "vllm", "--from", "sglang", "-", text=COMMAND)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "specmeta convert: <stdin>:1: the command starts vLLM, not SGLang; name the engine that it "
        "starts\n"
    )


def test_messages_hold_nothing_that_a_terminal_acts_on(tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[31m.yaml"
    file.write_text(SGLANG.replace("DSPARK", '"\\e[31m\\u202E\\n"'))
    done = convert("--to", "vllm", file)
    assert done.exit_code == 1
    assert all(line.isprintable() for line in done.stderr.split("\n"))
    assert "\\x1b[31m" in done.stderr
    assert convert("--to", "\x1b[31m", file).exit_code == 2
    assert "\x1b[31m" not in convert("--to", "\x1b[31m", file).stderr
