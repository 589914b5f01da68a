"""Arguments that are given twice, elsewhere than the engine has them, or with values it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta import Finding, InputError, MTPDecodingConfig
from specmeta._arguments import Arguments, parse_command, read_arguments
from tests.specmeta.arguments.reading import engine, only, read, refused

COMMAND = """vllm serve a --max-num-seqs 8 --max-num-batched-tokens 4096 --max-model-len 2048 \\
  --dtype bfloat16 \\
"""
DFLASH = """  --speculative-config '{"method": "dflash", "num_speculative_tokens": 7}' \\\n"""


def command(flags: str, speculation: str = DFLASH) -> Arguments:
    return read_arguments(parse_command(f"{COMMAND}{speculation}  {flags}\n", "run.sh"), "vllm")


def refused_command(flags: str, speculation: str = DFLASH) -> list[tuple[str, str, object]]:
    with pytest.raises(InputError) as caught:
        command(flags, speculation)
    return [place(found) for found in caught.value.findings]


def place(found: Finding) -> tuple[str, str, object]:
    assert found.file == "run.sh"
    return found.rule, f"{found.field}:{found.line}", found.fact


@pytest.mark.parametrize(
    ("flags", "field", "fact"),
    [
        ("--max-num-seqs 5", "max-num-seqs", "is given twice: 8 on line 1, then 5"),
        ("--max-num-seqs=true", "max-num-seqs", "is given twice: 8 on line 1, then True"),
        ("--dtype float16", "dtype", "is given twice: 'bfloat16' on line 2, then 'float16'"),
        ("--model b", "model", "is given twice: 'a' on line 1, then 'b'"),
        ("--max_num_seqs 5", "max_num_seqs", "5 although max-num-seqs is 8"),
        (
            '--speculative-config \'{"method": "dspark"}\'',
            "speculative-config",
            "is given twice: a dict of 2 on line 3, then a dict of 1",
        ),
        (  # the engine takes the parts alone
            "--speculative-config.num_speculative_tokens 5",
            "speculative-config",
            "is given twice: a dict of 2 on line 3, then a dict of 2",
        ),
    ],
)
def test_a_flag_with_two_values_is_refused(flags: str, field: str, fact: str) -> None:
    (found, *_) = refused_command(flags)
    assert found[0] == "arguments_disagree"
    assert found[1].startswith(f"{field}:")
    assert found[2] == fact
    assert not any(rule == "argument_required" for rule, *_ in refused_command(flags))


def test_the_line_of_a_repeated_flag_is_that_of_the_last_one() -> None:
    assert refused_command("--max-num-seqs 5")[0][1] == "max-num-seqs:4"


def test_a_flag_with_the_same_value_twice_is_fine() -> None:
    assert command("--max-num-seqs 8 --model a --port 1 --port 2").engine.max_num_requests == 8


def test_a_part_that_is_given_twice_is_refused() -> None:
    parts = (
        "  --speculative-config.method dspark --speculative-config.num_speculative_tokens 7 \\\n"
    )
    assert command("--seed 1", parts).decoding.max_draft_len == 7
    (found,) = refused_command("--speculative-config.method mtp", parts)
    assert found == (
        "arguments_disagree",
        "speculative-config.method:4",
        "is given twice: 'dspark' on line 3, then 'mtp'",
    )


REFUSES = "and the engine refuses both"
BRIEF = "  --spec-method mtp --spec-tokens 3 --spec-model d \\\n"


def test_speculation_may_be_told_in_brief() -> None:
    arguments = command("--seed 1", BRIEF)
    assert arguments.decoding == MTPDecodingConfig(max_draft_len=3)
    assert (arguments.draft_model, arguments.findings) == ("d", ())
    both = "  --spec-tokens 3 --speculative-config.method mtp \\\n"
    assert command("--seed 1", both).decoding == MTPDecodingConfig(max_draft_len=3)


def test_what_is_told_in_brief_and_in_the_object_is_refused() -> None:
    assert refused_command("--spec-tokens 7") == [
        (
            "arguments_disagree",
            "spec-tokens:4",
            f"is given beside speculative-config.num_speculative_tokens, {REFUSES}",
        )
    ]


def test_what_is_missing_in_brief_is_asked_for_by_its_name() -> None:
    missing = [(rule, field) for rule, field, _ in refused_command("--spec-model d", "")]
    assert missing == [
        ("argument_required", "spec-method:1"),
        ("argument_required", "spec-tokens:1"),
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num-speculative-tokens", "num_speculative_tokens"),
        ("speculative-model", "model"),
        ("speculative-draft-tensor-parallel-size", "draft_tensor_parallel_size"),
        ("ngram-prompt-lookup-max", "prompt_lookup_max"),
    ],
)
def test_arguments_that_have_moved_into_the_object_are_refused(name: str, meant: str) -> None:
    assert only(refused("vllm", **{name: 5})) == (
        "argument_misspelt",
        name,
        5,
        f"is no argument beside speculative-config, which has {meant!r}",
    )


def test_unknown_arguments_of_speculation_are_said_or_refused() -> None:
    (found,) = read("vllm", **{"speculative-disable-by-batch-size": 4}).findings
    assert (found.rule, found.field) == ("argument_not_read", "speculative-disable-by-batch-size")
    assert only(refused("vllm", **{"speculative-confg": 4}))[::3] == (
        "argument_misspelt",
        "is unknown to vLLM, which has 'speculative_config'",
    )


@pytest.mark.parametrize(
    ("top", "field", "fact"),
    [
        (
            {"cudagraph-capture-sizes": [8], "cuda-graph-sizes": [8, 16]},
            "cuda-graph-sizes",
            "is given beside cudagraph-capture-sizes, and the engine refuses both",
        ),
        (
            {
                "cudagraph-capture-sizes": [8],
                "compilation-config": {"cudagraph_capture_sizes": [8]},
            },
            "compilation-config.cudagraph_capture_sizes",
            "is given beside cudagraph-capture-sizes, and the engine refuses both",
        ),
        (
            {
                "max-cudagraph-capture-size": 8,
                "compilation-config": {"max_cudagraph_capture_size": 8},
            },
            "compilation-config.max_cudagraph_capture_size",
            "is given beside max-cudagraph-capture-size, and the engine refuses both",
        ),
        (
            {"cudagraph-capture-sizes": [8, 16], "max-cudagraph-capture-size": 64},
            "max-cudagraph-capture-size",
            "64 although the largest of cudagraph-capture-sizes is 16",
        ),
    ],
)
def test_graph_sizes_that_disagree_are_refused(top: dict[str, Any], field: str, fact: str) -> None:
    found = refused("vllm", **top)[0]
    assert (found.rule, found.field, found.fact) == ("arguments_disagree", field, fact)


@pytest.mark.parametrize(
    ("top", "sizes", "warned"),
    [
        ({"cudagraph-capture-sizes": [8, 64], "max-cudagraph-capture-size": 64}, (1, 8), []),
        # What is above the tokens of a batch is left out on both sides.
        ({"cuda-graph-sizes": [8, 4096, 9999], "max-cudagraph-capture-size": 8192}, (1,), []),
        ({"cuda-graph-sizes": [512]}, (), ["cuda-graph-sizes"]),  # up to it
        ({"cuda-graph-sizes": 512}, (), ["cuda-graph-sizes"]),
        ({"compilation-config": {"max_cudagraph_capture_size": 64}}, (), [
            "compilation-config.max_cudagraph_capture_size"
        ]),
        ({"compilation-config": 3, "cudagraph-capture-sizes": [8]}, (1,), []),
        ({"O": 3, "compilation-config": {"cudagraph_capture_sizes": [8]}}, (1,), []),
        ({"O": {"cudagraph_capture_sizes": [8]}}, (1,), []),
    ],
)  # fmt: skip
def test_graph_sizes_that_agree_are_fine(
    top: dict[str, Any], sizes: tuple[int, ...], warned: list[str]
) -> None:
    arguments = read("vllm", **top)
    assert arguments.engine == engine(cuda_graph_batch_sizes=sizes)
    assert [found.field for found in arguments.findings] == warned
