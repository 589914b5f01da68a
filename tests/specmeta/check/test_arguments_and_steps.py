"""Engine arguments and recorded metadata, alone and with what they belong to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from specmeta.testing import make_deployment, make_dspark_metadata

from .running import QWEN, SERVE, V4, check, kind_of


@pytest.mark.parametrize("name", ["serve.sh", "serve.yaml"])
def test_engine_arguments_are_checked_with_their_pair(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    speculation = {"method": "dspark", "model": "d", "num_speculative_tokens": 7}
    fields = {
        "speculative-config": speculation,
        "max-num-seqs": 16,
        "max-num-batched-tokens": 8192,
        "dtype": "bfloat16",
    }
    path.write_text(SERVE if name == "serve.sh" else yaml.safe_dump(fields, sort_keys=False))
    pair = ("--target", QWEN / "target", "--drafter", QWEN / "drafter")
    result = check(path, *pair, "--json")
    assert (result.code, result.report["errors"]) == (0, 0)
    assert kind_of(result) == ("arguments", "vllm")
    (item,) = result.report["inputs"]
    assert item["notes"][0] == "vLLM arguments"
    assert item["slots"]["num_seq_slots"] == 16
    assert item["memory"]["draft_probs"] == 0
    path.write_text(path.read_text().replace("8192", "100"))
    line = 3 if name == "serve.sh" else 6
    assert check(path, *pair, "--json").found == [
        ("max_num_tokens_too_small", "max-num-batched-tokens", line)
    ]


def test_engine_arguments_without_a_pair_say_so(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    path.write_text(SERVE.replace("--dtype", "--max-model-len 4096 --dtype"))
    result = check(path, "--json")
    assert (result.code, result.report["errors"]) == (0, 0)
    assert result.report["inputs"][0]["notes"] == [
        "vLLM arguments",
        "not checked against a whole pair: give --target DIR and --drafter DIR",
    ]
    bundled = check(path, "--target", V4 / "target", "--json")
    assert ("draft_beyond_block", "speculative-config.num_speculative_tokens", 2) in bundled.found
    absent = check(path, "--target", tmp_path / "absent")
    assert (absent.code, absent.lines[0]) == (2, f"{path}: vLLM arguments")


def steps(path: Path, *rows: dict[str, object]) -> bytes:
    metadata = make_dspark_metadata(
        make_deployment("DSpark"), request_ids=(1, 2), num_contexts=2
    ).model_dump(mode="json")
    content = "".join(f"{json.dumps({**metadata, **row})}\n" for row in rows).encode()
    path.write_bytes(content)
    return content


def test_recorded_steps_are_checked_one_by_one_and_between_each_other(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    generation = {"num_contexts": 0, "context_positions": []}
    content = steps(
        path,
        {},
        {**generation, "request_ids": [1, 0]},
        {},
        {**generation, "request_ids": [1, 9], "seq_lens": [1, 1]},
    )
    result = check(path, "--json")
    assert kind_of(result) == ("steps", None)
    assert (result.found[0], result.code) == (("request_id_not_positive", "request_ids", 2), 1)
    streamed = check("-", "--json", stdin=content)
    assert streamed.report["inputs"][0]["path"] == "<stdin>"
    assert streamed.found == result.found
    steps(path, {}, {**generation, "request_ids": [1, 9], "seq_lens": [1, 1]})
    assert check(path, "--json").found == [("request_not_seeded", "request_ids", 2)]
    steps(path, {**generation, "request_ids": [1, 9], "seq_lens": [1, 1]})
    assert check(path).code == 1
    assert check(path, "--mid-run").code == 0


def test_recorded_steps_are_compared_with_their_deployment(tmp_path: Path) -> None:
    deployment = tmp_path / "deployment.json"
    model = make_deployment("DSpark").model_dump(mode="json")
    deployment.write_text(json.dumps(model))
    path = tmp_path / "steps.json"
    rows = {
        "request_ids": [1, 2],
        "num_contexts": 2,
        "seq_lens": [4, 4],
        "context_positions": [0, 0],
    }
    path.write_text(json.dumps([rows, {**rows, "context_positions": [4, 5]}]))
    result = check(path, "--deployment", deployment, "--json")
    assert [item["path"] for item in result.report["inputs"]] == [str(deployment), str(path)]
    assert result.found == [("chunk_not_contiguous", "context_positions", 1)]
    assert result.report["inputs"][1]["notes"] == [f"recorded metadata, compared with {deployment}"]
    model["decoding"]["max_draft_len"] = 9
    deployment.write_text(json.dumps(model))
    result = check(path, deployment, "--deployment", deployment, "--json")
    assert [item["path"] for item in result.report["inputs"]] == [str(path), str(deployment)]
    assert result.report["inputs"][0]["notes"] == [
        f"recorded metadata, compared with each other alone: {deployment} is no valid deployment",
        "2 steps are arguments alone: not checked without the deployment",
    ]


def test_a_line_that_is_no_json_ends_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    content = steps(path, {}, {"request_ids": [1, 0]})
    path.write_bytes(content + b"{\n" + content)
    result = check(path)
    assert result.code == 2
    assert result.err.startswith(f"specmeta check: {path}:3: is not valid JSON")
    assert f"{path}:2: error request_ids[1]" in result.out


def test_an_engine_takes_its_dtype_from_the_target(tmp_path: Path) -> None:
    shutil.copytree(QWEN, tmp_path / "models")
    config = tmp_path / "models" / "target" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "torch_dtype": "float16"}))
    path = tmp_path / "serve.sh"
    path.write_text(SERVE.replace(" --dtype bfloat16", ""))
    pair = ("--target", tmp_path / "models" / "target", "--drafter", QWEN / "drafter")
    capture = 8192 * 5 * 4096 * 2  # two bytes of float16
    (item,) = check(path, *pair, "--json").report["inputs"]
    assert item["memory"]["captured_states"] == capture
    config.write_text((QWEN / "target" / "config.json").read_text())
    assert check(path, *pair, "--json").found == [("argument_required", "dtype", 1)]
