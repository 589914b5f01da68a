"""A script of any size is answered soon."""

from __future__ import annotations

import time

import pytest

from specmeta import InputError
from specmeta._argument_files import parse_arguments


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 4_000_000,
        "a\n" * 4_000_000,
        "# a\n" * 3_000_000,
        "vllm " * 50_000,
        "'" * 100_001,
        "${" * 100_000,
        "$(a" * 60_000,
        "$(" + "(a)" * 80_000,
        "$(((((a" * 30_000,
        "cat <<" * 20_000 + "\n",
        "vllm serve" + " --a.b c" * 30_000,
        "bash -c '" * 20_000,
    ],
)
def test_a_large_script_is_answered_soon(text: str) -> None:
    began = time.perf_counter()
    with pytest.raises(InputError):
        parse_arguments(text.encode(), "run.sh", suffix=".sh")
    assert time.perf_counter() - began < 3
