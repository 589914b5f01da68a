"""What the tests of the engines share: minimal arguments of each, and what is wrong with others."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta import EngineConfig, Finding, InputError
from specmeta._arguments import Arguments, read_arguments
from specmeta._arguments._emit import to_yaml
from specmeta._files import parse_yaml

TENSORRT_LLM: dict[str, Any] = {
    "max_batch_size": 8,
    "max_num_tokens": 4096,
    "max_seq_len": 2048,
    "dtype": "bfloat16",
    "speculative_config": {"decoding_type": "DSpark", "max_draft_len": 7},
}
VLLM: dict[str, Any] = {
    "max-num-seqs": 8,
    "max-num-batched-tokens": 4096,
    "max-model-len": 2048,
    "dtype": "bfloat16",
    "speculative-config": {"method": "dspark", "num_speculative_tokens": 7},
}
SGLANG: dict[str, Any] = {
    "max-running-requests": 8,
    "max-prefill-tokens": 4096,
    "context-length": 2048,
    "dtype": "bfloat16",
    "speculative-algorithm": "DSPARK",
    "speculative-num-draft-tokens": 8,
}
MINIMAL = {"tensorrt_llm": TENSORRT_LLM, "vllm": VLLM, "sglang": SGLANG}
SECTION = {"tensorrt_llm": "speculative_config", "vllm": "speculative-config", "sglang": None}


def engine(**changes: Any) -> EngineConfig:
    """The sizes that the minimal arguments of every engine stand for."""
    sizes: dict[str, Any] = {
        "max_num_requests": 8,
        "num_seq_slots": 8,
        "max_num_tokens": 4096,
        "max_seq_len": 2048,
        "dtype": "bfloat16",
    }
    return EngineConfig(**{**sizes, **changes})


def text(engine_name: str, top: dict[str, Any], speculation: dict[str, Any]) -> bytes:
    """The minimal arguments with changes, None to leave one out, as YAML."""
    section = SECTION[engine_name]
    fields = {**MINIMAL[engine_name], **top}
    if section is None:
        fields |= speculation
    elif isinstance(fields[section], dict):
        fields[section] = changed({**fields[section], **speculation})
    return to_yaml(changed(fields)).encode()


def changed(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def read(engine_name: str, speculation: dict[str, Any] | None = None, /, **top: Any) -> Arguments:
    """The minimal arguments with changes, read; ``_`` in the names of `top` is as spelled."""
    content = text(engine_name, top, speculation or {})
    return read_arguments(parse_yaml(content, "arguments.yaml"), engine_name)


def refused(
    engine_name: str, speculation: dict[str, Any] | None = None, /, **top: Any
) -> tuple[Finding, ...]:
    """What is found in the minimal arguments with changes."""
    with pytest.raises(InputError) as caught:
        read(engine_name, speculation, **top)
    return caught.value.findings


def only(findings: tuple[Finding, ...]) -> tuple[str, str, object, str | None]:
    """Rule, field, value and fact of the only finding."""
    (found,) = findings
    assert found.file == "arguments.yaml"
    assert found.line is not None
    return found.rule, found.field, found.value, found.fact
