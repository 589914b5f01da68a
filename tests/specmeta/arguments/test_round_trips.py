"""What is written for an engine is read back, and conversions between engines are stable."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmeta import DecodingConfig, Deployment, EngineConfig, InputError
from specmeta._arguments import (
    ENGINES,
    Arguments,
    Choices,
    Written,
    engine_of,
    parse_command,
    read_arguments,
    write_arguments,
    write_choices,
)
from specmeta._arguments._sglang import OWN as SGLANG
from specmeta._arguments._tensorrt_llm import OWN as TENSORRT_LLM
from specmeta._arguments._vllm import OWN as VLLM
from specmeta._arguments._written import flags_text
from specmeta._files import Document, parse_yaml
from specmeta.testing import deployments, make_deployment

GATE = {"acceptance_rate_window_size": None, "acceptance_rate_threshold": None}
engines = st.sampled_from(tuple(ENGINES))
parallel = st.integers(1, 8)


@st.composite
def _deployments(draw: st.DrawFn) -> Deployment:
    deployment = draw(deployments())
    sizes = {"tensor_parallel_size": draw(parallel), "pipeline_parallel_size": draw(parallel)}
    engine = deployment.engine.model_copy(update=sizes)
    return deployment.model_copy(update={"engine": engine})


def expressed(deployment: Deployment, name: str) -> tuple[DecodingConfig, EngineConfig]:
    """What the engine can be told of a deployment."""
    decoding, engine = deployment.decoding, deployment.engine
    unknown: dict[str, Any] = {} if name == "tensorrt_llm" else dict(GATE)
    if decoding.decoding_type == "DSpark":
        unknown |= {"confidence_threshold": None, "steps_per_second": None}
    if name == "sglang" and decoding.decoding_type != "MTP":
        unknown["use_rejection_sampling"] = False
    stages = engine.pipeline_parallel_size if name == "tensorrt_llm" else 1
    pool = {"num_seq_slots": engine.max_num_requests * stages}
    return decoding.model_copy(update=unknown), engine.model_copy(update=pool)


def write(deployment: Deployment, name: str, draft_model: str | None, **known: Any) -> Written:
    choices = Choices(
        deployment.decoding, deployment.engine, draft_model, drafter=deployment.drafter, **known
    )
    return write_arguments(deployment, choices, name)


def read(written: Written, name: str, engine: EngineConfig) -> Arguments:
    """The text, with the type that no engine runs as the target's."""
    document = parse_yaml(written.text.encode(), "written.yaml")
    assert engine_of(document) == name
    return read_arguments(document, name, defaults={"dtype": engine.dtype})


@given(_deployments(), engines)
def test_what_is_written_is_read_back(deployment: Deployment, name: str) -> None:
    written = write(deployment, name, "models/drafter", model="a/target")
    arguments = read(written, name, deployment.engine)
    assert (arguments.decoding, arguments.engine) == expressed(deployment, name)
    assert arguments.draft_model == "models/drafter"
    assert arguments.model == "a/target"
    assert arguments.findings == ()
    choices = Choices(arguments.decoding, arguments.engine, "models/drafter", "a/target")
    again = write_choices(choices, name)
    assert again.text == written.text
    assert again.flags == written.flags


@given(_deployments(), st.sampled_from(("vllm", "sglang")))
def test_flags_say_what_the_text_says(deployment: Deployment, name: str) -> None:
    written = write(deployment, name, "models/drafter")
    document = parse_command(flags_text(written.flags), "flags")
    assert engine_of(document) == name
    by_flags = read_arguments(document, name, defaults={"dtype": deployment.engine.dtype})
    by_text = read(written, name, deployment.engine)
    assert by_flags._replace(origins={}) == by_text._replace(origins={})


@given(_deployments(), engines, engines)
def test_there_and_back_and_there_again_is_the_same(
    deployment: Deployment, one: str, other: str
) -> None:
    def to(name: str, source: Arguments) -> Arguments:
        choices = Choices(source.decoding, source.engine, source.draft_model)
        return read(write_choices(choices, name), name, deployment.engine)

    first = read(write(deployment, one, "d"), one, deployment.engine)
    there = to(other, first)
    back = to(one, there)
    again = to(other, back)
    same = again._replace(origins={}), there._replace(origins={})
    assert same[0] == same[1]


def test_vllm_and_sglang_lose_nothing_of_each_other_without_sampled_drafts() -> None:
    deployment = make_deployment("DFlash", num_seq_slots=8)
    vllm = read(write(deployment, "vllm", "d"), "vllm", deployment.engine)
    choices = Choices(vllm.decoding, vllm.engine, vllm.draft_model)
    sglang = read(write_choices(choices, "sglang"), "sglang", deployment.engine)
    assert (sglang.decoding, sglang.engine) == (deployment.decoding, deployment.engine)


def test_everything_that_is_lost_is_said() -> None:
    deployment = make_deployment(
        "DSpark",
        max_draft_len=3,
        use_rejection_sampling=True,
        acceptance_rate_window_size=64,
        acceptance_rate_threshold=0.5,
        confidence_threshold=0.25,
        steps_per_second=((1, 100.0), (64, 50.0)),
        max_kv_tokens_per_request=512,
        kv_reserved_steps=2,
        supported_window_sizes=(32,),
        uniform_rows=True,
        state_memory_limit=2**30,
        dtype="float64",
        cuda_graph_batch_sizes=(),
    )
    written = write(deployment, "sglang", None)
    assert "\n".join(written.notes) == (
        "decoding.use_rejection_sampling (True): SGLang has no argument for it\n"
        "decoding.acceptance_rate_window_size (64): SGLang has no argument for it\n"
        "decoding.acceptance_rate_threshold (0.5): SGLang has no argument for it\n"
        "decoding.confidence_threshold (0.25): SGLang has no argument for it\n"
        "decoding.steps_per_second (((1, 100.0), (64, 50.0))): SGLang has no argument for it\n"
        "engine.max_kv_tokens_per_request (512): SGLang has no argument for it\n"
        "engine.kv_reserved_steps (2): SGLang has no argument for it\n"
        "engine.supported_window_sizes ((32,)): SGLang has no argument for it\n"
        "engine.uniform_rows (True): SGLang has no argument for it\n"
        "engine.state_memory_limit (1073741824): SGLang has no argument for it\n"
        "engine.dtype (float64): SGLang does not run it; it is left out\n"
        "engine.num_seq_slots (16): is no argument; SGLang computes 8 from these\n"
        "engine.cuda_graph_batch_sizes (): SGLang captures sizes of its own choice; add "
        "disable-cuda-graph to run every batch eagerly\n"
        "drafter: is not named; add speculative-draft-model-path, unless the target's checkpoint "
        "holds it\n"
        "decoding.max_draft_len (3): SGLang drafts DSpark by the checkpoint's block (7) and may "
        "refuse another length"
    )


def test_nothing_is_said_where_nothing_is_lost() -> None:
    deployment = make_deployment("MTP", num_seq_slots=8, use_rejection_sampling=True)
    for name in ENGINES:
        assert write(deployment, name, None).notes == ()


def test_overrides_and_artefacts_are_no_arguments() -> None:
    deployment = make_deployment("DSpark", num_seq_slots=8)
    deployment = deployment.model_copy(
        update={
            "decoding": deployment.decoding.model_copy(update={"max_draft_len": 9}),
            "overrides": ({"rule": "draft_beyond_block", "reason": "measured"},),
        }
    )
    deployment = deployment.model_copy(update={"compiled_for": deployment.compile_key})
    written = write(deployment, "vllm", "d")
    assert written.notes == (
        "overrides (draft_beyond_block): vLLM knows none, and may refuse what they allow",
        "compiled_for: vLLM keeps no such record",
    )


def test_tensorrt_llm_has_no_flags() -> None:
    assert write(make_deployment(), "tensorrt_llm", "d").flags == []


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"speculative_config": {"decoding_type": "MTP"}}, "tensorrt_llm"),
        ({"speculative_config": {"method": "mtp"}, "max_num_seqs": 1}, "vllm"),
        ({"speculative_config": {}, "max_batch_size": 1}, "tensorrt_llm"),
        ({"max-num-seqs": 8}, "vllm"),
        ({"context-length": 8}, "sglang"),
        ({"speculative_config": {}}, None),
        ({"dtype": "float16"}, None),
        ({"max-num-seqs": 8, "max_batch_size": 8}, None),
        ([], None),
        ({}, None),
    ],
)
def test_arguments_are_known_by_their_names(data: object, name: str | None) -> None:
    assert engine_of(Document("x", data)) == name


@pytest.mark.parametrize("at", [(), ("arguments",), ("arguments", "vllm"), ("nothing", 0)])
def test_what_holds_no_arguments_is_refused(at: tuple[str | int, ...]) -> None:
    data = [] if not at else {"arguments": {"vllm": 7} if len(at) == 2 else 7}
    with pytest.raises(InputError) as caught:
        read_arguments(Document("x.yaml", data), "vllm", at=at)
    assert str(caught.value).endswith(
        "holds no arguments of vLLM; write them as an object, or as flags"
    )


def test_arguments_in_another_file_keep_their_places() -> None:
    text = b"arguments:\n  vllm:\n    max-num-seqs: 0\n    speculative-config: {method: ngram}\n"
    with pytest.raises(InputError) as caught:
        read_arguments(parse_yaml(text, "d.yaml"), "vllm", at=("arguments", "vllm"))
    places = [(found.rule, found.field, found.line) for found in caught.value.findings]
    assert places == [
        ("method_not_supported", "arguments.vllm.speculative-config.method", 4),
        ("argument_required", "arguments.vllm.speculative-config.num_speculative_tokens", 4),
        ("argument_required", "arguments.vllm.max-num-batched-tokens", 2),
        ("argument_required", "arguments.vllm.max-model-len", 2),
        ("argument_required", "arguments.vllm.dtype", 2),
        ("greater_than", "arguments.vllm.max-num-seqs", 3),
    ]


OTHERS = {"dtype", "method", "decoding_type", "num_speculative_tokens", "max_draft_len"}
WORDS = ("dspark", "DSpark", "DSPARK", "bfloat16", '{"method": "mtp"}', "auto", "8k")
names = st.sampled_from(sorted(TENSORRT_LLM | VLLM | SGLANG | OTHERS))
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats()
anything = st.recursive(
    scalars | st.text(max_size=8) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=6,
)


@given(st.dictionaries(names, anything, max_size=8), engines)
def test_any_document_is_read_or_refused(data: dict[str, object], name: str) -> None:
    document = Document("x.yaml", data)
    engine_of(document)
    with contextlib.suppress(InputError):
        assert read_arguments(document, name).engine_name == name
