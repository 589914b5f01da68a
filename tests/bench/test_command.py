import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from specmeta._cli.bench import app

SMALL = ["--draft-len", "3", "--batch", "1,4", "--requests", "8", "--new-tokens", "24"]
BUNDLED = Path(__file__).parents[2] / "workers" / "specmeta_workers" / "bundled"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["accept-length", *arguments])


def test_json_is_one_object_with_a_row_a_setting() -> None:
    result = run(*SMALL, "--json", "--mode", "disaggregated", "--dtype", "float64")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [(row["batch"], row["draft_len"]) for row in document["rows"]] == [(1, 3), (4, 3)]
    for row in document["rows"]:
        assert row["decoding_type"] == "DSpark"
        assert row["mode"] == "disaggregated"
        assert row["requests"] == row["outputs_equal"] == 8
        assert row["accept_length_pooled"] > 1.5
        assert row["accept_length_mean"] > 1.5
        assert row["tokens_per_second"] > 0
        assert row["speedup"] > 0


def test_the_table_and_the_plot_are_written(tmp_path: Path) -> None:
    for name in ("figures.png", "figures.svg"):
        result = run(*SMALL, "--mode", "aggregated", "--plot", str(tmp_path / name))
        assert result.exit_code == 0, result.output
        assert "Accept length and speed" in result.stdout
        assert (tmp_path / name).stat().st_size > 5000


def test_another_pair_is_served_from_its_directories() -> None:
    result = run(
        *SMALL,
        "--mode",
        "aggregated",
        "--json",
        "--target",
        str(BUNDLED / "target"),
        "--drafter",
        str(BUNDLED / "dspark"),
    )
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["rows"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--draft-len", "one"], "--draft-len: 'one' is not a comma-separated list"),
        (["--draft-len", "9"], "draft_lens[0]: 9 is above the 7 drafts"),
        (["--batch", "0"], "batches[0]: 0 is not an int of at least 1"),
        (["--mode", "split"], "modes[0]: 'split' is none of"),
        (["--dtype", "float8"], "dtype"),
        (["--requests", "99999"], "requests: 99999, but there are"),
        (["--fault", "typo"], "fault: 'typo' is unknown"),
        (["--target", "nowhere"], "--target and --drafter belong together"),
        (["--target", "nowhere", "--drafter", "nowhere"], "nowhere"),
        (["--prompts", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--plot", "figure.pdf"], "ends in neither .png nor .svg"),
        (["--plot", "no/such/folder/figure.png"], "does not exist"),
        (["--graph-batch-sizes", "3,2"], "graph_batch_sizes[1]: 2; give sizes"),
        (["--graph-batch-sizes", "0"], "graph_batch_sizes[0]: 0; give sizes"),
        (["--new-tokens", "100000"], "exceeds the models' 1024 positions; ask for at most"),
        (["--processes", "0"], "processes: 0 is not an int of at least 1"),
    ],
)
def test_bad_input_is_one_message_and_exit_2(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_a_line_that_is_no_prompt_is_named(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"text": "The request is"}\n{"txt": 1}\n')
    result = run("--prompts", str(path), "--requests", "1")
    assert result.exit_code == 2
    assert f"{path}:2: not a prompt" in result.stderr
