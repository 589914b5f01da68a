"""Which command of a script starts an engine, and which words are told to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from specmeta import InputError
from specmeta._argument_files import open_arguments
from specmeta._arguments import engine_of, is_command, parse_command, read_arguments
from specmeta._arguments._command import Command

SIZES = "--max-num-seqs 8 --max-num-batched-tokens 4096 --max-model-len 2048 --dtype bfloat16"
DFLASH = (
    """--speculative-config '{"method": "dflash", "model": "d", "num_speculative_tokens": 7}'"""
)


def parse(text: str) -> Command:
    return parse_command(text, "run.sh")


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        (f"vllm serve target {DFLASH}", "vllm"),
        ("vllm bench throughput --model x", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model x", "vllm"),
        ("python3 -m vllm.entrypoints.cli.main serve x", "vllm"),
        ("docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.26 --model x", "vllm"),
        ("docker run --rm --name vllm img:1 vllm serve x", "vllm"),
        ("docker run img bash -c 'vllm serve x --port 1'", "vllm"),
        ("numactl -N 0 python3 -m sglang.launch_server --model-path x", "sglang"),
        ("sglang serve --model-path x", "sglang"),
        ("trtllm-serve x --tp_size 8", "tensorrt_llm"),
        ("trtllm-serve serve x", "tensorrt_llm"),
        ("mpirun -n 8 trtllm-llmapi-launch trtllm-serve x", "tensorrt_llm"),
        ("trtllm-bench --model x throughput --max_batch_size 8", "tensorrt_llm"),
        ("python -m tensorrt_llm.commands.serve x", "tensorrt_llm"),
    ],
)
def test_the_words_of_the_command_decide_the_engine(text: str, engine: str) -> None:
    document = parse(text)
    assert engine_of(document) == engine
    assert {"model", "model-path"} & {*map(str, vars_of(document))}


def vars_of(document: Command) -> dict[str, object]:
    assert isinstance(document.data, dict)
    return document.data


def test_a_minimal_command_is_asked_for_the_rest() -> None:
    with pytest.raises(InputError) as caught:
        read_arguments(parse(f"vllm serve target {DFLASH}"), "vllm")
    assert [(found.rule, found.field) for found in caught.value.findings] == [
        ("argument_required", "max-num-seqs"),
        ("argument_required", "max-num-batched-tokens"),
        ("argument_required", "max-model-len"),
        ("argument_required", "dtype"),
    ]


def test_a_command_is_not_read_as_that_of_another_engine() -> None:
    with pytest.raises(InputError) as caught:
        read_arguments(parse(f"\nvllm serve target {DFLASH}"), "sglang")
    assert str(caught.value) == (
        "run.sh:2: the command starts vLLM, not SGLang; name the engine that it starts"
    )


@pytest.mark.parametrize(
    "other",
    [
        "vllm bench serve --model x --num-prompts 8",
        "sglang.bench_serving --backend vllm",
        "pip install vllm sglang",
        "echo vllm serve nothing",
        "pkill -f vllm serve",
        "docker pull vllm/vllm-openai:latest",
        "trtllm-serve disaggregated -c config.yaml",
        "curl -s localhost:8000/v1/models",
    ],
)
def test_what_starts_no_engine_is_passed_over(other: str) -> None:
    document = parse(f"{other}\nvllm serve a --port 1 &\n{other}\n")
    assert document.data == {"model": "a", "port": 1}


@pytest.mark.parametrize(
    "other", ["vllm serve b", "if true; then\n  sglang serve --model-path b\nfi", "(vllm serve b)"]
)
def test_a_second_engine_is_refused(other: str) -> None:
    text = f"vllm serve a &\n\n{other}\n"
    with pytest.raises(InputError) as caught:
        parse(text)
    line = text[: text.index(" b")].count("\n") + 1
    assert str(caught.value) == (
        f"run.sh: line 1 starts an engine, and so does line {line}; pass each command in a text of "
        "its own"
    )
    assert caught.value.findings == ()


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("nohup vllm serve x --a 1 > log.txt 2>&1 &", {"model": "x", "a": 1}),
        ("vllm serve x --c 8 16 2>/dev/null --b 2", {"model": "x", "c": [8, 16], "b": 2}),
        ("vllm serve x &> all.log --b 2 < in", {"model": "x", "b": 2}),
        ("vllm serve x > >(tee log) --b 2", {"model": "x", "b": 2}),
        ("vllm serve x --a 1 && sleep 3 || true", {"model": "x", "a": 1}),
        ("A=1 B='x y' exec vllm serve x --a 1", {"model": "x", "a": 1}),
        ("{ vllm serve x --a 1; }", {"model": "x", "a": 1}),
        ("(cd /models && vllm serve x --a 1)", {"model": "x", "a": 1}),
        ("vllm serve x --a $(nproc --all) --b 2", {"model": "x", "a": "$(nproc --all)", "b": 2}),
        (
            "vllm serve x --a $(($(nproc) / (1 + 1)))",
            {"model": "x", "a": "$(($(nproc) / (1 + 1)))"},
        ),
        ("vllm serve x --a `nproc --all` --b 2", {"model": "x", "a": "`nproc --all`", "b": 2}),
        ("vllm serve x --a 1#2 --b 'y'#z", {"model": "x", "a": "1#2", "b": "y#z"}),
        ("vllm serve x --a 'y\r\nz'", {"model": "x", "a": "y\r\nz"}),
        ("vllm serve x \\\r\n  --a 1\r\n", {"model": "x", "a": 1}),
        ("vllm serve x --a \u00a0\u2028", {"model": "x", "a": "\u00a0\u2028"}),
        ("vllm serve --tensor-parallel-size 4 x", {"tensor-parallel-size": 4, "model": "x"}),
        ("vllm serve --enforce-eager x", {"enforce-eager": True, "model": "x"}),
        ("vllm serve --enforce-eager false x", {"enforce-eager": False, "model": "x"}),
        ("vllm serve x -- --a 1", {"model": "x", "a": 1}),
        ("vllm serve --a.b 1 x", {"a": {"b": 1}, "model": "x"}),
        ("vllm serve x --a ٣", {"model": "x", "a": "٣"}),
        ("cat <<EOF > c.yaml\nit's: 1\nEOF\nvllm serve x --a 1", {"model": "x", "a": 1}),
        ("cat <<-'E F' <<G\n\t'\n\tE F\n'\nG\nvllm serve x", {"model": "x"}),
        ('cat <<< "it\'s"\nvllm serve x --a 1', {"model": "x", "a": 1}),
        ("bash <<EOF\nvllm serve x --a 1\nEOF\n", {"model": "x", "a": 1}),
        ("srun bash -lc \"vllm serve x --a '1 2'\"", {"model": "x", "a": "1 2"}),
    ],
)
def test_the_words_are_those_of_a_shell(text: str, data: object) -> None:
    assert parse(text).data == data


def test_lines_in_heredocs_and_in_scripts_of_a_shell_are_those_of_the_file() -> None:
    document = parse("cat <<E\n'\nE\nbash <<E\n\nvllm serve x \\\n  --a 1\nE\n")
    assert [document.line_of((key,)) for key in ("model", "a")] == [6, 7]
    document = parse("\nbash -c '\nvllm serve x\n  --a 1\n'")
    assert [document.line_of((key,)) for key in ("model", "a")] == [3, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vllm serve x --a $(echo (x) --b 2", "1: a command in $( ) is not closed"),
        ("vllm serve <model> --a 1", "1: > leads to '--a', which is no file"),
        ("cat <<EOF\nvllm serve x\n", "2: the heredoc up to 'EOF' is not closed"),
        ("vllm serve a b", "1: 'b' stands behind no flag, and the target is 'a'"),
        ("vllm serve a \\\n --seed 1 b", "2: 'b' stands behind no flag, and the target is 'a'"),
        ("vllm serve a '\nb", "1: a quote is not closed"),
    ],
)
def test_what_cannot_be_told_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value).startswith(f"run.sh:{message}; ")


@pytest.mark.parametrize("words", ['"$@"', "$EXTRA_ARGS", '"${ARGS[@]}"', "${VLLM_FLAGS}"])
def test_variables_that_hold_flags_are_said(words: str) -> None:
    text = f"vllm serve $MODEL {SIZES} {DFLASH} \\\n  {words}\n"
    arguments = read_arguments(parse(text), "vllm")
    assert arguments.model == "$MODEL"
    (found,) = arguments.findings
    assert (found.rule, found.line, found.fact) == (
        "argument_not_read",
        2,
        "may hold further flags, not known here",
    )
    assert found.field == words.strip('"')


@pytest.mark.parametrize(
    ("flag", "field"),
    [
        ("--max-num-seqs $N", "max-num-seqs"),
        ('--max-num-seqs "${N:-8}"', "max-num-seqs"),
        ("--enforce-eager=$EAGER", "enforce-eager"),
        ("--dtype `cat dtype`", "dtype"),
        ("--spec-method $METHOD", "spec-method"),
    ],
)
def test_a_variable_is_no_value(flag: str, field: str) -> None:
    others = SIZES.replace("--max-num-seqs 8 ", "" if "seqs" in flag else "--max-num-seqs 8 ")
    others = others.replace("--dtype bfloat16", "" if "dtype" in flag else "--dtype bfloat16")
    speculation = "--spec-tokens 7" if "method" in flag else DFLASH
    with pytest.raises(InputError) as caught:
        read_arguments(parse(f"vllm serve x {others} {speculation} \\\n  {flag}"), "vllm")
    (found,) = caught.value.findings
    assert (found.rule, found.field, found.line) == ("argument_invalid", field, 2)
    assert found.fact.endswith("holds a variable of the shell, which is not known here")


def test_a_variable_in_an_object_is_one_of_its_field() -> None:
    speculation = '--speculative-config "{\\"method\\": \\"dspark\\", \\"model\\": \\"$DRAFT\\", '
    kept = speculation + '\\"num_speculative_tokens\\": 7}"'
    assert read_arguments(parse(f"vllm serve x {SIZES} {kept}"), "vllm").draft_model == "$DRAFT"
    open_ = speculation + '\\"num_speculative_tokens\\": $K}"'
    with pytest.raises(InputError) as caught:
        read_arguments(parse(f"vllm serve x {SIZES} {open_}"), "vllm")
    (found,) = caught.value.findings
    assert (found.rule, found.field) == ("argument_invalid", "speculative-config")


def test_what_a_quote_protects_is_no_variable() -> None:
    arguments = read_arguments(parse(f"vllm serve '$x' {SIZES} {DFLASH}"), "vllm")
    assert (arguments.model, arguments.findings) == ("$x", ())


@pytest.mark.parametrize(
    "text", ["#!/bin/bash\nulimit -n 1", "docker run x", "if true; then", "# x\n\nsrun -N 2 x"]
)
def test_scripts_are_known_from_their_beginning(text: str) -> None:
    assert is_command(text)


def test_scripts_are_known_by_their_suffix(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("model=x\nwait\nvllm serve $model --port 1")
    assert open_arguments(path).data == {"model": "$model", "port": 1}
