"""The pair that ships in the wheel is what its cards say."""

from pathlib import Path

import corpus
import pytest
import torch
from safetensors import safe_open

import specmeta_workers
from specmeta import DSparkDrafterConfig, EngineConfig, ValidationError
from specmeta_workers import CheckpointError, Pair, Prompt, load_bundled, load_pair

BUNDLED = Path(specmeta_workers.__file__).parent / "bundled"


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_bundled()


def test_the_pair_stays_below_eight_megabytes() -> None:
    assert sum(path.stat().st_size for path in BUNDLED.rglob("*") if path.is_file()) < 8e6


@pytest.mark.parametrize("folder", ["target", "dspark"])
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
    with pytest.raises(ValueError, match="no bundled drafter is 'DFlash'; give one of 'DSpark'"):
        load_bundled("DFlash")  # type: ignore[arg-type]  # wrong on purpose


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


@pytest.mark.parametrize("folder", ["target", "dspark"])
def test_a_directory_that_is_no_checkpoint_is_named(tmp_path: Path, folder: str) -> None:
    paths = {"target": BUNDLED / "target", "dspark": BUNDLED / "dspark", folder: tmp_path}
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        load_pair(paths["target"], paths["dspark"])


def test_a_target_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).symlink_to(BUNDLED / "target" / name)
    with pytest.raises(CheckpointError, match=f"{tmp_path}: the tokenizer is missing"):
        load_pair(tmp_path, BUNDLED / "dspark")
