"""The pair that ships in the wheel is what its cards say."""

import json
from pathlib import Path

import corpus
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import specmeta_workers
from specmeta import (
    DecodingType,
    DSparkDecodingConfig,
    DSparkDrafterConfig,
    EngineConfig,
    ValidationError,
)
from specmeta_workers import (
    CheckpointError,
    DFlashWorker,
    DSparkWorker,
    MTPWorker,
    Pair,
    Prompt,
    load_bundled,
    load_bundled_pairs,
    load_pair,
    make_worker,
)

BUNDLED = Path(specmeta_workers.__file__).parent / "bundled"


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_bundled()


def test_the_models_stay_below_fourteen_megabytes() -> None:
    assert sum(path.stat().st_size for path in BUNDLED.rglob("*") if path.is_file()) < 14e6


@pytest.mark.parametrize("folder", ["target", "dspark", "dflash", "mtp"])
def test_weights_are_float16_and_have_a_card(folder: str) -> None:
    with safe_open(BUNDLED / folder / "model.safetensors", "pt") as weights:
        dtypes = {weights.get_slice(name).get_dtype() for name in weights.keys()}  # noqa: SIM118
    assert dtypes == {"F16"}
    assert len((BUNDLED / folder / "README.md").read_text()) > 1000


def test_target_drafter_and_engine_make_a_valid_deployment(pair: Pair) -> None:
    drafter = pair.deployment.drafter
    assert isinstance(drafter, DSparkDrafterConfig)
    assert pair.deployment.decoding.max_draft_len == drafter.block_size == 7
    assert pair.draft_model.config == drafter
    assert pair.target.dtype == pair.draft_model.dtype == torch.float32


def test_an_engine_may_be_given(pair: Pair) -> None:
    engine = pair.deployment.engine.model_copy(
        update={"max_num_requests": 2, "num_seq_slots": 5, "dtype": "float64"}
    )
    other = load_bundled("DSpark", engine)
    assert other.deployment.engine == engine
    assert other.target.dtype == other.draft_model.dtype == torch.float64


def test_an_engine_that_does_not_fit_is_refused(pair: Pair) -> None:
    values = pair.deployment.engine.model_dump() | {"max_seq_len": 4096}
    with pytest.raises(ValidationError, match="4096 is above the target's max_position_embeddings"):
        load_bundled(engine=EngineConfig(**values))


def test_a_method_that_is_not_bundled_is_refused() -> None:
    with pytest.raises(ValueError, match="no bundled drafter is 'EAGLE'; give one of 'DSpark'"):
        load_bundled("EAGLE")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("decoding_type", "worker_type"),
    [("DSpark", DSparkWorker), ("DFlash", DFlashWorker), ("MTP", MTPWorker)],
)
def test_every_method_has_a_drafter_and_a_worker(
    decoding_type: DecodingType, worker_type: type
) -> None:
    other = load_bundled(decoding_type)
    assert other.deployment.decoding_type == decoding_type
    assert other.deployment.drafter == other.draft_model.config
    assert other.deployment.decoding.max_draft_len == 7
    assert type(make_worker(other.deployment, other.draft_model)) is worker_type


def test_drafters_of_one_target_share_it(pair: Pair) -> None:
    pairs = load_bundled_pairs(("MTP", "DSpark"))
    assert [p.deployment.decoding_type for p in pairs] == ["MTP", "DSpark"]
    assert pairs[0].target is pairs[1].target
    assert pairs[1].deployment == pair.deployment
    same = zip(
        pairs[1].draft_model.state_dict().values(),
        pair.draft_model.state_dict().values(),
        strict=True,
    )
    assert all(torch.equal(mine, theirs) for mine, theirs in same)


def test_a_deployment_takes_the_options_of_its_method(pair: Pair) -> None:
    engine = pair.deployment.engine
    chosen = pair.deployment_for(
        engine=engine, max_draft_len=3, use_rejection_sampling=True, confidence_threshold=0.25
    ).decoding
    assert isinstance(chosen, DSparkDecodingConfig)
    assert (chosen.max_draft_len, chosen.confidence_threshold) == (3, 0.25)
    assert chosen.use_rejection_sampling
    gated = load_bundled("MTP").deployment_for(
        engine=engine,
        max_draft_len=11,
        acceptance_rate_window_size=4,
        acceptance_rate_threshold=0.5,
    )
    assert gated.decoding.acceptance_rate_window_size == 4
    with pytest.raises(ValidationError, match="confidence_threshold"):
        load_bundled("DFlash").deployment_for(
            engine=engine, max_draft_len=3, confidence_threshold=0.25
        )


def test_a_draft_model_of_another_method_is_refused(pair: Pair) -> None:
    other = load_bundled("MTP")
    with pytest.raises(TypeError, match="DSparkDraftModel is not a MTPDraftModel"):
        make_worker(other.deployment, pair.draft_model)


def test_prompts_that_are_missing_are_named_with_their_format(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r'No such file or directory; give .*"text": "\.\.\."'
    ):
        pair.with_prompts(tmp_path / "absent.jsonl")


def test_prompts_come_from_documents_of_the_held_out_split(pair: Pair) -> None:
    assert len(pair.prompts) >= 64
    assert {corpus.split_of(prompt.document) for prompt in pair.prompts} == {"held_out"}
    assert len({prompt.text for prompt in pair.prompts}) == len(pair.prompts)


def test_prompts_are_of_mixed_lengths_and_encode_to_themselves(pair: Pair) -> None:
    lengths = [len(prompt.token_ids) for prompt in pair.prompts]
    assert min(lengths) >= 16
    assert max(lengths) <= 96
    assert max(lengths) - min(lengths) > 40
    decode = pair.tokenizer.decode
    assert all(decode(list(prompt.token_ids)) == prompt.text for prompt in pair.prompts)


def test_prompts_may_be_given(pair: Pair) -> None:
    prompts = (Prompt((5, 6, 7), "abc", "mine"),)
    other = load_pair(BUNDLED / "target", BUNDLED / "dspark", prompts=prompts)
    assert other.prompts == prompts


def test_facts_of_another_drafter_may_be_stated(pair: Pair, tmp_path: Path) -> None:
    """DeepSpec's form without a Markov head, whose file does not say what its anchor predicts."""
    raw = json.loads((BUNDLED / "dspark" / "config.json").read_text())
    raw |= {"markov_rank": 0, "enable_confidence_head": False}
    (tmp_path / "config.json").write_text(json.dumps(raw))
    weights = load_file(BUNDLED / "dspark" / "model.safetensors")
    save_file(
        {n: w for n, w in weights.items() if "head." not in n}, tmp_path / "model.safetensors"
    )
    with pytest.raises(CheckpointError, match="anchor_convention: is not stated by this file"):
        pair.with_drafter(tmp_path)
    stated = {"anchor_convention": "mask_at_position"}
    other = pair.with_drafter(tmp_path, stated=stated)
    assert other.target is pair.target
    assert other.deployment.drafter == other.draft_model.config
    assert other.deployment.decoding.max_draft_len == 6
    whole = load_pair(BUNDLED / "target", tmp_path, prompts=(), stated=stated)
    assert whole.deployment == other.deployment


@pytest.mark.parametrize("folder", ["target", "dspark"])
def test_a_directory_that_is_no_checkpoint_is_named(tmp_path: Path, folder: str) -> None:
    paths = {"target": BUNDLED / "target", "dspark": BUNDLED / "dspark", folder: tmp_path}
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        load_pair(paths["target"], paths["dspark"])


def test_a_target_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((BUNDLED / "target" / name).read_bytes())
    with pytest.raises(CheckpointError, match=f"{tmp_path}: the tokenizer is missing"):
        load_pair(tmp_path, BUNDLED / "dspark")
