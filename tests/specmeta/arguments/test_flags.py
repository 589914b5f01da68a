"""Commands that start an engine, as documents of their flags."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmeta import InputError
from specmeta._arguments import ENGINES, engine_of, is_command, parse_command, read_arguments

SCRIPT = r"""#!/bin/bash
set -euo pipefail
export HF_HOME=/models
# vllm serve would be too early here
VLLM_USE_V2_MODEL_RUNNER=1 exec vllm serve Qwen/Qwen3-8B --trust-remote-code \
    --max-num-seqs 16 \
    --max-num-batched-tokens=8k -tp 8 \
    --speculative-config '{
        "method": "dspark",
        "num_speculative_tokens": 7
    }' \
    --served-model-name "qwen \"3\"" it''s\ mine \
    --temperature -0.5 --cudagraph-capture-sizes 8 16  # of tokens
  2>&1 | tee --append log.txt
echo --done
"""


NONE = (
    "flags: holds no flags of an engine; write vllm serve, sglang serve or trtllm-serve, or flags "
    "alone as --name value"
)


def test_a_script_is_read_to_the_flags_of_its_engine() -> None:
    document = parse_command(SCRIPT, "run.sh")
    assert document.data == {
        "model": "Qwen/Qwen3-8B",
        "trust-remote-code": True,
        "max-num-seqs": 16,
        "max-num-batched-tokens": "8k",
        "tp": 8,
        "speculative-config": {"method": "dspark", "num_speculative_tokens": 7},
        "served-model-name": ['qwen "3"', "its mine"],
        "temperature": -0.5,
        "cudagraph-capture-sizes": [8, 16],
    }
    assert engine_of(document) == "vllm"


def test_lines_are_those_of_the_script() -> None:
    document = parse_command(SCRIPT, "run.sh")
    assert document.line_of(("model",)) == 5
    assert document.line_of(("max-num-seqs",)) == 6
    assert document.line_of(("tp",)) == 7
    assert document.line_of(("speculative-config",)) == 8
    assert document.line_of(("speculative-config", "num_speculative_tokens")) == 10
    assert document.line_of(("cudagraph-capture-sizes", 1)) == 13
    assert document.line_of(("dtype",)) == 5  # of the command


def test_a_finding_names_the_line_of_the_script() -> None:
    with pytest.raises(InputError) as caught:
        read_arguments(parse_command(SCRIPT.replace(": 7", ": 0"), "run.sh"), "vllm")
    places = [(found.rule, found.field, found.line) for found in caught.value.findings]
    assert places == [
        ("greater_than", "speculative-config.num_speculative_tokens", 10),
        ("argument_required", "max-model-len", 5),
        ("argument_required", "dtype", 5),
    ]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("--a 1\n--b\n--c x y\n", {"a": 1, "b": True, "c": ["x", "y"]}),
        ("--a=1 --b= --c='x y'", {"a": 1, "b": "", "c": "x y"}),
        ("--a true --b False --c TRUEST", {"a": True, "b": False, "c": "TRUEST"}),
        ("--a 1.5 --b 1e-3 --c 1.2.3 --d 0x10", {"a": 1.5, "b": 0.001, "c": "1.2.3", "d": "0x10"}),
        (
            "--a {broken --b [1,2] --c '{\"x\": [1]}'",
            {"a": "{broken", "b": [1, 2], "c": {"x": [1]}},
        ),
        ("--a 1 --a 1 --b 1 --b 2", {"a": 1, "b": 2}),
        ("--a.b 1 --a.c.d x --a.b.c 2", {"a": {"b": {"c": 2}, "c": {"d": "x"}}}),
        ('--a \'{"x": 1, "y": 2}\' --a.y 3', {"a": {"x": 1, "y": 3}}),
        ("--a.y 3 --a '{\"x\": 1}'", {"a": {"y": 3, "x": 1}}),
        ("python3 -m sglang.launch_server --a 1", {"a": 1}),
        ("/opt/venv/bin/vllm serve x/y --a 1 && vllm bench serve --b 2", {"model": "x/y", "a": 1}),
        ("trtllm-serve x/y --tp_size 8", {"model": "x/y", "tp_size": 8}),
        ("sglang serve --model-path x", {"model-path": "x"}),
        ("vllm serve x \\\n  --a 1\n  --b 2\nsleep 3", {"model": "x", "a": 1, "b": 2}),
        ("vllm serve x --a $K --b ${N:-7}", {"model": "x", "a": "$K", "b": "${N:-7}"}),
        ("--a 1\r\n--b 2\r\n", {"a": 1, "b": 2}),
        ("--a x\\\ny", {"a": "xy"}),
        ("--a 99999999999999999999999", {"a": "99999999999999999999999"}),
    ],
)
def test_flags_are_typed_as_they_are_meant(text: str, data: object) -> None:
    assert parse_command(text, "flags").data == data


def test_a_long_dotted_name_is_no_deep_document() -> None:
    name = ".".join("a" * 5000)
    data = parse_command(f"--{name} 1", "flags").data
    for _ in range(8):
        assert isinstance(data, dict)
        (data,) = data.values()
    assert data == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--a 'x", "flags:1: a quote is not closed; close it, or escape it with a backslash"),
        (
            'vllm serve \\\n --a "x\n',
            "flags:2: a quote is not closed; close it, or escape it with a backslash",
        ),
        ("echo hello", NONE),
        ("", NONE),
        (
            f"vllm serve{' --a.b 1' * 3000}",
            "flags: the command has 6000 words, more than the limit of 4096; pass an engine's",
        ),
    ],
)
def test_a_text_without_flags_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_command(text, "flags")
    assert str(caught.value) == message
    assert caught.value.findings == ()


@pytest.mark.parametrize(
    "text",
    [
        SCRIPT,
        "vllm serve x",
        "--max-num-seqs 16",
        "\n\n  # note\nCUDA_VISIBLE_DEVICES=0 python -m sglang.launch_server",
        "exec /usr/bin/trtllm-serve x",
        "-tp 8",
    ],
)
def test_a_command_is_known_from_its_beginning(text: str) -> None:
    assert is_command(text)


@pytest.mark.parametrize(
    "text",
    ["max-num-seqs: 16", "---\nvllm: 1", "- a\n- b", "{}", "", "# --a", "vllm: {}", "set: 1"],
)
def test_a_document_is_no_command(text: str) -> None:
    assert not is_command(text)


pieces = st.sampled_from(
    (*"-ab= .'\"\\\n{}[]$#|1()<>&;`\t\r\u2028é", "vllm serve ", "sglang serve ", "--", " --tp ",
     "$(", "${", "<<E\n", "\nE\n", " -c ", "bash ", "\\\n", "--speculative-config ",
     "-sc.method mtp ", "--spec-tokens 3 ", "--model x ", "2>&1", "true")
)  # fmt: skip


@given(st.lists(pieces, max_size=24).map("".join), st.sampled_from(tuple(ENGINES)))
def test_any_text_is_flags_or_refused(text: str, name: str) -> None:
    is_command(text)
    try:
        document = parse_command(text, "flags")
    except InputError:
        return
    with contextlib.suppress(InputError):
        assert read_arguments(document, name).engine_name == name
    assert isinstance(document.data, dict)
    lines = text.count("\n") + 1
    for key in document.data:
        line = document.line_of((key,))
        assert line is not None
        assert 1 <= line <= lines
