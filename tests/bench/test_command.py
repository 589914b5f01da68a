import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from specmeta._cli.bench import _stoppable, app
from specmeta_workers.bench import ProcessLostError
from specmeta_workers.bench._processes import _interrupts_held

SMALL = ["--draft-len", "3", "--batch", "1,4", "--requests", "8", "--new-tokens", "16"]
BUNDLED = Path(__file__).parents[2] / "workers" / "specmeta_workers" / "bundled"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["accept-length", *arguments])


def test_json_is_one_object_with_a_row_a_setting() -> None:
    result = run(*SMALL, "--json", "--mode", "disaggregated", "--dtype", "float64")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [(row["batch"], row["decoding_type"]) for row in document["rows"]] == [
        (batch, decoding_type) for batch in (1, 4) for decoding_type in ("DSpark", "DFlash", "MTP")
    ]
    for row in document["rows"]:
        assert (row["mode"], row["draft_len"]) == ("disaggregated", 3)
        assert row["requests"] == row["outputs_equal"] == row["lengths_equal"] == 8
        assert row["accept_length_pooled"] > 1.3
        assert row["accept_length_mean"] > 1.3
        assert 0 < row["draft_share"] < 1
        assert row["tokens_per_second"] > 0
        assert row["speedup"] > 0


def test_the_tables_and_the_plot_are_written(tmp_path: Path) -> None:
    path = tmp_path / "figures.svg"
    result = run(
        *SMALL, "--mode", "aggregated", "--decoding-type", "MTP,DSpark", "--plot", str(path)
    )
    assert result.exit_code == 0, result.output
    assert "Accept length, aggregated" in result.stdout
    assert "Equality and speed" in result.stdout
    assert "DFlash" not in result.stdout
    assert path.stat().st_size > 5000
    result.stdout.encode("ascii")  # any stdout can take it


def test_another_pair_is_served_from_its_directories() -> None:
    result = run(
        *SMALL,
        "--mode",
        "aggregated",
        "--json",
        "--target",
        str(BUNDLED / "target"),
        "--drafter",
        str(BUNDLED / "mtp"),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert [(row["decoding_type"], row["batch"]) for row in rows] == [("MTP", 1), ("MTP", 4)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--draft-len", "one"], "--draft-len: 'one' is not a comma-separated list"),
        (["--draft-len", "9"], "--draft-len: 9 is above the 7 drafts of the DSpark drafter's"),
        (["--batch", "0"], "--batch: 0 is not an int of at least 1"),
        (["--mode", "split"], "--mode: 'split' is none of"),
        (["--launch", "mpirun"], "--launch: 'mpirun' is unknown"),
        (["--launch", "torchrun", "--mode", "aggregated"], "--mode: ranks serve disaggregated"),
        (["--launch", "torchrun", "--context-ranks", "0"], "--context-ranks: 0 is not an int of"),
        (["--generation-ranks", "2"], "--generation-ranks: 2 without --launch torchrun"),
        (["--mode", ","], "--mode: ',' names nothing"),
        (["--decoding-type", "EAGLE"], "--decoding-type: 'EAGLE' is none of DSpark, DFlash, MTP"),
        (["--dtype", "float8"], "dtype"),
        (["--requests", "99999"], "--requests: 99999 is above the number of prompts, 128"),
        (["--fault", "typo"], "--fault: 'typo' is unknown"),
        (["--target", "nowhere"], "--target and --drafter belong together"),
        (["--target", "nowhere", "--drafter", "nowhere"], "nowhere"),
        (
            ["--state", "anchor_convention=anchor_first"],
            "--state: anchor_convention without --drafter; the bundled drafters state everything",
        ),
        (["--state", "anchor_convention"], "--state 'anchor_convention' is not FACT=VALUE; write"),
        (["--prompts", "nowhere.jsonl"], "nowhere.jsonl: the prompts cannot be read: No such file"),
        (["--plot", "figure.pdf"], "ends in neither .png nor .svg"),
        (["--plot", "no/such/folder/figure.png"], "--plot: the folder no/such/folder does not"),
        (["--graph-batch-sizes", "3,2"], "--graph-batch-sizes: 2; give sizes"),
        (["--graph-batch-sizes", "0"], "--graph-batch-sizes: 0; give sizes"),
        (["--graph-batch-sizes", "4,17"], "--graph-batch-sizes: 17 is above every batch size"),
        (["--new-tokens", "100000"], "exceeds the models' 1024 positions; ask for at most"),
        (["--processes", "0"], "--processes: 0 is not an int of at least 1"),
        (["--temperature", "-1"], "--temperature: -1"),
        (["--top-k", "3"], "--top-k: 3 without a temperature"),
        (["--confidence-threshold", "0.5"], "--decoding-type: DFlash has no confidence head"),
        (
            ["--confidence-threshold", "2", "--decoding-type", "DSpark"],
            "--confidence-threshold: 2",
        ),
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


@pytest.fixture
def unstated(tmp_path: Path) -> Path:
    """A DeepSpec checkpoint without a Markov head: no file says what its anchor slot predicts."""
    folder = tmp_path / "unstated"
    folder.mkdir()
    raw = json.loads((BUNDLED / "dspark" / "config.json").read_text())
    raw |= {"markov_rank": 0, "enable_confidence_head": False}
    del raw["markov_head_type"], raw["confidence_head_with_markov"]
    (folder / "config.json").write_text(json.dumps(raw))
    weights = load_file(BUNDLED / "dspark" / "model.safetensors")
    heads = ("markov_head.", "confidence_head.")
    kept = {name: value for name, value in weights.items() if not name.startswith(heads)}
    save_file(kept, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("launch", [["--mode", "aggregated"], ["--launch", "torchrun"]])
def test_a_fact_that_no_file_states_is_stated(unstated: Path, launch: list[str]) -> None:
    settings = ["--draft-len", "3", "--batch", "2", "--requests", "2", "--new-tokens", "6"]
    pair = ["--target", str(BUNDLED / "target"), "--drafter", str(unstated)]
    refused = run(*settings, *launch, *pair)
    assert refused.exit_code == 2
    assert "anchor_convention: is not stated by this file" in refused.stderr
    assert "--state anchor_convention=anchor_first" in refused.stderr
    fact = ["--state", "anchor_convention=anchor_first"]
    result = run(*settings, *launch, *pair, *fact, "--json")
    assert result.exit_code == 0, result.output
    assert [row["decoding_type"] for row in json.loads(result.stdout)["rows"]] == ["DSpark"]


def test_ranks_serve_what_one_process_serves() -> None:
    settings = ["--draft-len", "7", "--batch", "2", "--requests", "4", "--new-tokens", "12"]
    arguments = [*settings, "--json", "--dtype", "float64", "--decoding-type", "DSpark,MTP"]
    result = run(*arguments, "--launch", "torchrun", "--generation-ranks", "2")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["ranks"], document["processes"]) == ("1 context, 2 generation", 3)
    alone = json.loads(run(*arguments, "--mode", "disaggregated").stdout)
    for name in ("decoding_type", "accept_length_pooled", "acceptance_by_position"):
        assert [row[name] for row in document["rows"]] == [row[name] for row in alone["rows"]]
    assert [row["outputs_equal"] for row in document["rows"]] == [4, 4]


def test_a_drafter_of_another_type_than_asked_for_is_named() -> None:
    pair = ["--target", str(BUNDLED / "target"), "--drafter", str(BUNDLED / "mtp")]
    result = run(*pair, "--decoding-type", "DSpark")
    assert result.exit_code == 2
    assert "--decoding-type: DSpark, but" in result.stderr
    assert "holds a drafter for MTP" in result.stderr


def test_no_flag_is_shown_as_if_it_took_a_value() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout
    assert "bool" not in result.stdout


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_ends_the_run_with_one_message(
    capsys: pytest.CaptureFixture[str], number: signal.Signals, code: int, word: str
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught, _stoppable():
        signal.raise_signal(number)
    assert caught.value.code == code
    assert capsys.readouterr().err == (
        f"specmeta bench accept-length: {word}; nothing was measured\n"
    )
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_interrupt_does_not_reach_what_is_started_while_it_is_held() -> None:
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"

    def blocked() -> str:
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()

    with _interrupts_held():
        inside = blocked()
    assert (inside, blocked()) == ("True", "False")


@pytest.mark.parametrize("seconds", ["0", "0.5", "nan", "100000"])
def test_a_timeout_that_is_none_is_refused_before_anything_is_loaded(seconds: str) -> None:
    result = run(*SMALL, "--launch", "torchrun", "--timeout", seconds)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"specmeta bench accept-length: --timeout: {seconds} is not")


def test_a_killed_helper_process_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object, **__: object) -> None:
        raise ProcessLostError("a process that served prompts was killed")

    monkeypatch.setattr("specmeta_workers.bench.measure_accept_length", lost)
    result = run(*SMALL)
    assert result.exit_code == 2
    assert result.stderr.strip() == (
        "specmeta bench accept-length: a process that served prompts was killed"
    )
