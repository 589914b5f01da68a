"""Every kind of input: what it is taken for, and what is found in it."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest
import yaml

from specmeta.testing import make_deployment, make_dspark_metadata

from .running import DATA, Result, check, write

BUNDLED = Path(__file__).parents[3] / "workers" / "specmeta_workers" / "bundled"
QWEN = DATA / "dspark_qwen3_8b_block7"
V4 = DATA / "deepseek_v4_flash_dspark"
STATED = ("--state", "anchor_convention=anchor_first")
SERVE = (
    "vllm serve models/target \\\n"
    '  --speculative-config \'{"method": "dspark", "num_speculative_tokens": 7}\' \\\n'
    "  --max-num-seqs 16 --max-num-batched-tokens 8192 --dtype bfloat16\n"
)


def kind_of(result: Result) -> tuple[str, str | None]:
    (item,) = result.report["inputs"]
    return item["kind"], item["dialect"]


@pytest.mark.parametrize(
    ("folder", "dialect", "note"),
    [
        ("dspark_qwen3_4b_block7", "deepspec", "DSpark drafter in the DeepSpec layout"),
        ("dspark_qwen3_8b_block7", "deepspec", "DSpark drafter in the DeepSpec layout"),
        ("zlab_qwen3_8b_dflash_b16", "zlab", "DFlash drafter in the z-lab layout"),
        ("speculators_dflash_qwen3_8b", "speculators", "DFlash drafter in the speculators layout"),
        ("speculators_dspark_qwen3_8b", "speculators", "DSpark drafter in the speculators layout"),
        (
            "deepseek_v4_flash_dspark",
            "deepseek_v4",
            "DeepSeek-V4 checkpoint with a bundled DSpark drafter",
        ),
        (
            "deepseek_v4_1_flash_dspark",
            "deepseek_v4",
            "DeepSeek-V4 checkpoint with a bundled DSpark drafter",
        ),
    ],
)
def test_a_published_pair_is_valid(folder: str, dialect: str, note: str) -> None:
    result = check(DATA / folder, "--json")
    assert (result.code, result.report["errors"]) == (0, 0)
    assert kind_of(result) == ("pair", dialect)
    assert result.report["inputs"][0]["notes"] == [
        note,
        "no engine is given: only the rules between target and drafter were checked",
    ]


def test_a_fact_that_no_file_states_is_asked_for() -> None:
    folder = DATA / "deepspec_dflash_qwen3_8b_block7"
    result = check(folder)
    assert result.code == 1
    place = f"{folder}/drafter/config.json:1"
    assert result.lines[1].startswith(f"{place}: error anchor_convention: is not stated")
    assert "--state anchor_convention=anchor_first" in result.lines[1]
    assert check(folder, *STATED).code == 0


def test_a_stated_fact_may_not_contradict_the_file() -> None:
    result = check(QWEN, "--state", "block_size=5")
    assert result.code == 1
    assert result.lines[1].startswith("--state: error block_size: 5 although block_size says 7; ")
    sarif = json.loads(check(QWEN, "--state", "block_size=5", "--format", "sarif").out)
    (place,) = sarif["runs"][0]["results"][0]["locations"]
    assert place["physicalLocation"] == {"artifactLocation": {"uri": QWEN.as_uri()}}
    github = check(QWEN, "--state", "block_size=5", "--format", "github")
    assert github.lines[0].startswith("::error title=facts_disagree::block_size: 5 although")


def test_a_drafter_is_checked_alone_or_with_its_target(tmp_path: Path) -> None:
    alone = check(QWEN / "drafter", "--json")
    assert (alone.code, kind_of(alone)) == (0, ("drafter", "deepspec"))
    assert alone.report["inputs"][0]["notes"][1].startswith("checked alone: give its target")
    assert kind_of(check(QWEN / "drafter", "--target", QWEN / "target", "--json"))[0] == "pair"
    other = DATA / "dspark_qwen3_4b_block7" / "target"
    wrong = check(QWEN / "drafter", "--target", other, "--json")
    assert wrong.found == [("hidden_size_differs", "hidden_size", 6)]
    assert wrong.code == 1
    assert wrong.found == check(other, "--drafter", QWEN / "drafter", "--json").found


def test_a_config_file_is_its_directory() -> None:
    assert kind_of(check(QWEN / "drafter" / "config.json", "--json")) == ("drafter", "deepspec")


def test_a_target_alone_is_read() -> None:
    result = check(QWEN / "target", "--json")
    assert (result.code, kind_of(result)) == (0, ("target", None))
    assert result.report["inputs"][0]["notes"] == ["target checkpoint without a drafter"]


def test_a_target_with_a_bundled_drafter_is_a_pair() -> None:
    result = check(V4 / "target", "--json")
    assert kind_of(result) == ("pair", "deepseek_v4")
    # Both parts are described by one file: what it does not state is said once.
    assert result.found == [("positions_not_stated", "max_position_embeddings", 1)]


def test_a_missing_part_of_a_pair_is_unreadable_and_the_other_is_checked(tmp_path: Path) -> None:
    pair = tmp_path / "pair"
    shutil.copytree(QWEN, pair)
    (pair / "drafter" / "config.json").write_text(
        (QWEN / "drafter" / "config.json").read_text().replace('"block_size": 7', '"block_size": 0')
    )
    (pair / "target" / "config.json").unlink()
    result = check(pair)
    assert result.code == 2
    assert result.err.startswith(f"specmeta check: {pair}/target/config.json: cannot be read")
    assert f"{pair}/drafter/config.json:25: error block_size" in result.out


def test_tensors_are_compared_with_the_configuration_beside_them(tmp_path: Path) -> None:
    for name in ("dspark", "dflash", "mtp"):
        result = check(BUNDLED / name, "--target", BUNDLED / "target")
        assert (result.code, result.lines[-1]) == (0, "0 errors, 0 warnings in 1 input")
    copy = tmp_path / "dspark"
    shutil.copytree(BUNDLED / "dspark", copy)
    config = json.loads((copy / "config.json").read_text())
    config["target_layer_ids"] = config["target_layer_ids"][:-1]
    (copy / "config.json").write_text(json.dumps(config, indent=1))
    assert "projection_width_differs" in {rule for rule, _, _ in check(copy, "--json").found}
    assert check(copy, "--no-weights").code == 0


def test_a_gguf_file_is_read(tmp_path: Path) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs))
    result = check(path, "--json")
    assert result.code == 1
    assert result.found == [("checkpoint_not_recognized", "general.architecture", None)]


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
        "not checked against a pair: give --target DIR and --drafter DIR",
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
        f"recorded metadata, not compared with {deployment}, which is not valid"
    ]


def test_a_line_that_is_no_json_ends_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    content = steps(path, {}, {"request_ids": [1, 0]})
    path.write_bytes(content + b"{\n" + content)
    result = check(path)
    assert result.code == 2
    assert result.err.startswith(f"specmeta check: {path}:3: is not valid JSON")
    assert f"{path}:2: error request_ids[1]" in result.out


def test_a_deployment_names_checkpoints_beside_it(tmp_path: Path) -> None:
    shutil.copytree(QWEN, tmp_path / "models")
    path = write(tmp_path / "deployment.yaml", text=PAIR)
    result = check(path)
    assert result.code == 0
    assert result.lines[0] == f"{path}: deployment of a DSpark drafter in the DeepSpec layout"
    config = tmp_path / "models" / "drafter" / "config.json"
    config.write_text(config.read_text().replace('"block_size": 7', '"block_size": 6'))
    write(path, ("max_draft_len: 7", "max_draft_len: 8"), text=PAIR)
    assert check(path, "--json").found == [("draft_beyond_block", "decoding.max_draft_len", 3)]
    config.write_text(config.read_text().replace('"block_size": 6', '"block_size": 0'))
    assert [(f[0], f[2]) for f in check(path, "--json").found] == [("greater_than", 25)]


def test_a_deployment_states_facts_and_finds_bundled_drafters(tmp_path: Path) -> None:
    shutil.copytree(DATA / "deepspec_dflash_qwen3_8b_block7", tmp_path / "models")
    path = write(tmp_path / "deployment.yaml", text=PAIR)
    assert [f[0] for f in check(path, "--json").found] == ["fact_not_stated"]
    assert check(path, *STATED).code == 0
    stating = (
        "drafter: models/drafter",
        "drafter: {checkpoint: models/drafter, stated: {anchor_convention: anchor_first}}",
    )
    write(path, stating, text=PAIR)
    assert check(path).code == 0
    twice = check(path, "--state", "anchor_convention=mask_at_position", "--json")
    assert [(f[0], f[2]) for f in twice.found] == [("facts_disagree", 2)]
    shutil.copytree(V4, tmp_path / "v4")
    for bundled in ("bundled", "{checkpoint: bundled}", "{stated: {}}"):
        write(
            path,
            ("target: models/target", "target: v4/target"),
            ("drafter: models/drafter", f"drafter: {bundled}"),
            ("max_draft_len: 7", "max_draft_len: 5"),
            text=PAIR,
        )
        (item,) = check(path, "--json").report["inputs"]
        assert item["notes"] == ["deployment of a DSpark drafter in the DeepSeek-V4 layout"]
        assert item["memory"]["slot_state"] == 17 * (3 * 128 * 512 * 2 + 17)


def test_a_deployment_reads_no_file_outside_its_directory(tmp_path: Path) -> None:
    shutil.copytree(QWEN, tmp_path / "models")
    inner = tmp_path / "inner"
    inner.mkdir()
    path = write(
        inner / "deployment.yaml",
        ("target: models", "target: ../models"),
        ("drafter: models/drafter", f"drafter: {tmp_path}/models/drafter"),
        text=PAIR,
    )
    result = check(path, "--json")
    assert result.found == [("path_outside", "target", 1), ("path_outside", "drafter", 2)]
    assert result.code == 1
    assert check(path, "--root", tmp_path / "models").code == 0
    (inner / "link").symlink_to(tmp_path / "models")
    write(path, ("target: models", "target: link"), ("er: models", "er: link"), text=PAIR)
    assert [f[0] for f in check(path, "--json").found] == ["path_outside", "path_outside"]


def test_a_checkpoint_that_cannot_be_read_is_found_where_it_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "deployment.yaml", text=PAIR)
    result = check(path)
    assert (result.code, result.err) == (2, "")
    assert result.lines[1] == (
        f"{path}:1: error target: {tmp_path}/models/target/config.json: cannot be read "
        "(No such file or directory); mend that file, or name another [part_unreadable]"
    )
    write(path, ("target: models/target", 'target: "a\\0b"'), text=PAIR)
    assert check(path, "--json").found[0] == ("path_outside", "target", 1)


@pytest.mark.parametrize(
    ("drafter", "expected"),
    [
        ("{checkpoint: models/drafter, state: {a: 1}}", ("extra_forbidden", "drafter.state", 2)),
        ("{checkpoint: 3}", ("string_type", "drafter.checkpoint", 2)),
        ("{stated: 3}", ("dict_type", "drafter.stated", 2)),
        ("3", ("dict_type", "drafter", 2)),
    ],
)
def test_a_drafter_in_another_form_is_an_error(
    tmp_path: Path, drafter: str, expected: tuple[str, str, int]
) -> None:
    shutil.copytree(QWEN, tmp_path / "models")
    change = ("drafter: models/drafter", f"drafter: {drafter}")
    path = write(tmp_path / "deployment.yaml", change, text=PAIR)
    assert check(path, "--json").found == [expected]


def test_a_target_that_is_written_out_bundles_no_drafter(tmp_path: Path) -> None:
    sizes = "{hidden_size: 8, num_layers: 4, vocab_size: 9, max_position_embeddings: null}"
    path = write(
        tmp_path / "deployment.yaml",
        ("target: models/target", f"target: {sizes}"),
        ("drafter: models/drafter", "drafter: bundled"),
        text=PAIR,
    )
    assert check(path, "--json").found == [("value_error", "drafter", 2)]


def test_a_method_is_known_where_the_choices_have_another_error(tmp_path: Path) -> None:
    shutil.copytree(V4, tmp_path / "models")
    path = write(
        tmp_path / "deployment.yaml",
        ("drafter: models/drafter", "drafter: bundled"),
        ("DSpark, max_draft_len: 7", "MTP, max_draft_len: 0"),
        text=PAIR,
    )
    found = {rule for rule, _, _ in check(path, "--json").found}
    # The MTP layers of the target are meant, and which state they read is not in its file.
    assert found == {"greater_than", "fact_not_stated"}


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


@pytest.mark.parametrize("form", ["object", "yaml", "flags"])
def test_a_deployment_takes_the_arguments_of_an_engine(tmp_path: Path, form: str) -> None:
    shutil.copytree(QWEN, tmp_path / "models")
    head = "target: models/target\ndrafter: models/drafter\n"
    fields = (
        "    speculative-config: {method: dspark, num_speculative_tokens: 8}\n"
        "    max-num-seqs: 16\n    max-num-batched-tokens: 8192\n    dtype: bfloat16\n"
    )
    path = tmp_path / "deployment.yaml"
    place = (str(path), 5)
    if form == "object":
        path.write_text(f"{head}arguments:\n  vllm:\n{fields}")
    elif form == "yaml":
        (tmp_path / "serve.yaml").write_text(fields)
        path.write_text(f"{head}arguments: {{vllm: serve.yaml}}\n")
        place = (str(tmp_path / "serve.yaml"), 1)
    else:
        (tmp_path / "serve.sh").write_text(SERVE.replace(": 7}", ": 8}"))
        path.write_text(f"{head}arguments: {{vllm: serve.sh}}\n")
        place = (str(tmp_path / "serve.sh"), 2)
    (item,) = check(path, "--json").report["inputs"]
    (found,) = item["findings"]
    assert (found["rule"], found["value"]) == ("draft_beyond_block", 8)
    assert (found["file"], found["line"]) == place
    assert found["field"].endswith("speculative-config.num_speculative_tokens")


PAIR = """\
target: models/target
drafter: models/drafter
decoding: {decoding_type: DSpark, max_draft_len: 7}
engine:
  max_num_requests: 16
  num_seq_slots: 16
  max_num_tokens: 8192
  max_seq_len: 32768
  dtype: bfloat16
"""
