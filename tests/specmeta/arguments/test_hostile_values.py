"""Names that begin as flags do, or hold what a shell or YAML would act on, are written as names."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specmeta import Deployment
from specmeta._arguments import Choices, parse_command, read_arguments, write_choices
from specmeta._arguments._written import flags_of, flags_text
from specmeta._files import parse_yaml
from specmeta.testing import make_deployment

DEPLOYMENT = make_deployment("DSpark", num_seq_slots=8)
HOSTILE = (
    "--max-num-seqs", "-tp", "-tp=8", "--", "-", "=x", "7", "true", "1e3", '{"a": 1}', "[1]", "$X",
    "`x`", "$(x)", "a'b", 'a"b', "a\\", "a\nb", "a\r\nb", "a b", "#x", "~", "*", "!x", "\x1b[31m",
    "\u2028", "\u202e", "; rm -rf x", "&& vllm serve", "<<EOF", "", "null", "*alias", "é",
)  # fmt: skip
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


def choices(model: str, draft_model: str, deployment: Deployment = DEPLOYMENT) -> Choices:
    return Choices(deployment.decoding, deployment.engine, draft_model, model)


def assert_read_back(engine: str, model: str, draft_model: str) -> None:
    written = write_choices(choices(model, draft_model), engine)
    texts = [read_arguments(parse_yaml(written.text.encode(), "x.yaml"), engine)]
    if written.flags:
        flags = parse_command(flags_text(written.flags), "flags")
        texts.append(read_arguments(flags, engine))
    for arguments in texts:
        assert (arguments.model, arguments.draft_model) == (model, draft_model)
        assert (arguments.decoding, arguments.engine) == (DEPLOYMENT.decoding, DEPLOYMENT.engine)
        assert arguments.findings == ()


@pytest.mark.parametrize("engine", ["tensorrt_llm", "vllm", "sglang"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_read_back(engine: str, name: str) -> None:
    assert_read_back(engine, name, "drafter")
    assert_read_back(engine, "target", name)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_takes_hostile_names_as_they_are(name: str) -> None:
    words = flags_of({"model": name, "sizes": [1, 2], "on": True, "last": name})
    script = f"printf '%s\\0' {flags_text(words)}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == words


@given(st.sampled_from(("tensorrt_llm", "vllm", "sglang")), names, names)
def test_any_names_are_read_back(engine: str, model: str, draft_model: str) -> None:
    assert_read_back(engine, model, draft_model)


@given(st.dictionaries(st.sampled_from(("a", "b-c", "d_e")), names, min_size=1))
@example({"a": "--b-c", "b-c": "\\\n"})
def test_any_values_are_read_back(fields: dict[str, str]) -> None:
    words = flags_of(fields)
    assert parse_command(flags_text(words), "flags").texts == {
        (name,): value for name, value in fields.items()
    }
