"""A target and its drafter, loaded and checked against each other; the bundled pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import torch

from specmeta import CheckpointError, Deployment, EngineConfig, read_target_config

from ._loading import load_draft_model
from ._methods import METHODS, usual_draft_len

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from specmeta import DecodingType, DType, RuleOverride, TargetConfig

    from ._loading import DraftModel

_BUNDLED = Path(__file__).parent / "bundled"
_DRAFTERS = {"DSpark": "dspark", "DFlash": "dflash", "MTP": "mtp"}


@attrs.frozen
class Prompt:
    """A held-out prompt: text that neither the target nor the drafter was trained on."""

    token_ids: tuple[int, ...]
    text: str
    document: str
    """Where the text comes from."""


@attrs.frozen(eq=False)
class Pair:
    """Everything that serving needs: models, tokenizer, prompts and a valid deployment."""

    target: PreTrainedModel
    draft_model: DraftModel
    tokenizer: PreTrainedTokenizerFast
    prompts: tuple[Prompt, ...]
    deployment: Deployment

    def deployment_for(
        self,
        *,
        engine: EngineConfig,
        max_draft_len: int,
        overrides: tuple[RuleOverride, ...] | None = None,
        **options: Any,
    ) -> Deployment:
        """The pair with another engine and draft length, validated again.

        Args:
            engine: sizes and dtype.
            max_draft_len: drafts of a step.
            overrides: rules to break on purpose; None keeps the pair's.
            options: further fields of the drafter's own decoding config, such as
                `use_rejection_sampling` or `confidence_threshold`.

        Raises:
            pydantic.ValidationError: the parts do not fit, or the method has no such option.

        """
        method = METHODS[self.deployment.decoding_type]
        decoding = method.decoding(max_draft_len=max_draft_len, **options)
        kept = self.deployment.overrides if overrides is None else overrides
        parts = {"engine": engine, "decoding": decoding, "overrides": kept}
        return self.deployment.model_copy(update=parts)

    def with_drafter(
        self, drafter: str | Path, *, stated: Mapping[str, object] | None = None
    ) -> Pair:
        """The pair with another drafter of the same target, whose memory both share.

        `stated` are facts that no file of the drafter states.

        Raises:
            CheckpointError: the drafter cannot be used; the message says which file and why.
            pydantic.ValidationError: it does not fit the target or the engine.

        """
        engine = self.deployment.engine
        draft_model = load_draft_model(drafter, self.target, dtype=engine.dtype, stated=stated)
        deployment = _compose(self.deployment.target, draft_model, engine)
        return attrs.evolve(self, draft_model=draft_model, deployment=deployment)

    def with_prompts(self, path: str | Path) -> Pair:
        """The pair with the prompts of a JSON Lines file of `{"text": ..., "document": ...}`.

        Raises:
            CheckpointError: the file cannot be read, or a line is no prompt.

        """
        return attrs.evolve(self, prompts=tuple(_read_prompts(Path(path), self.tokenizer)))


def load_bundled(
    decoding_type: DecodingType = "DSpark", engine: EngineConfig | None = None
) -> Pair:
    """The small trained target that comes with the package, one of its drafters, and prompts.

    Args:
        decoding_type: which drafter.
        engine: sizes and dtype; None is `default_engine()`.

    Raises:
        ValueError: no drafter of that type is bundled.

    """
    return load_pair(_BUNDLED / "target", _bundled(decoding_type), engine=engine)


def load_bundled_pairs(
    decoding_types: Sequence[DecodingType], engine: EngineConfig | None = None
) -> tuple[Pair, ...]:
    """`load_bundled` of each type, on one target, so that their figures compare."""
    first, *others = [_bundled(decoding_type) for decoding_type in decoding_types]
    pair = load_pair(_BUNDLED / "target", first, engine=engine)
    return (pair, *(pair.with_drafter(drafter) for drafter in others))


def _bundled(decoding_type: str) -> Path:
    folder = _DRAFTERS.get(decoding_type)
    if folder is None:
        raise ValueError(
            f"decoding_type: no bundled drafter is {decoding_type!r}; give one of "
            f"{', '.join(map(repr, _DRAFTERS))}"
        )
    return _BUNDLED / folder


def default_engine(dtype: DType = "float32") -> EngineConfig:
    """An engine for small pairs: 16 requests of up to 512 tokens, on one server."""
    return EngineConfig.sized(
        max_num_requests=16,
        max_num_tokens=512,
        max_seq_len=512,
        dtype=dtype,
        overlap_headroom=False,
        disaggregated=False,
    )


def load_pair(
    target: str | Path,
    drafter: str | Path,
    *,
    prompts: Sequence[Prompt] | str | Path | None = None,
    engine: EngineConfig | None = None,
    stated: Mapping[str, object] | None = None,
) -> Pair:
    """Load a target and its drafter from their directories.

    The deployment drafts a block drafter's whole block, and 7 tokens with MTP, which has no length
    of its own (`Pair.deployment_for` takes another).

    Args:
        target: a transformers causal language model with its tokenizer, safetensors only.
        drafter: a drafter in any layout of `load_draft_model`; it decides the decoding type.
        prompts: prompts, or a JSON Lines file of `{"text": ..., "document": ...}`; None takes the
            texts that are bundled with the package.
        engine: sizes and dtype; None is `default_engine()`.
        stated: facts that no file of the drafter states (see `specmeta.read_drafter_config`).

    Raises:
        CheckpointError: a file is missing or cannot be used; the message says which and why.
        pydantic.ValidationError: target, drafter and engine do not fit each other.

    """
    target_path, drafter_path = Path(target), Path(drafter)
    engine = default_engine() if engine is None else engine
    target_config = read_target_config(target_path)
    draft_model = load_draft_model(drafter_path, target_path, dtype=engine.dtype, stated=stated)
    deployment = _compose(target_config, draft_model, engine)
    model, tokenizer = _load_target(target_path, engine.dtype)
    if prompts is None:
        prompts = _BUNDLED / "prompts.jsonl"
    read = _read_prompts(Path(prompts), tokenizer) if isinstance(prompts, str | Path) else prompts
    return Pair(model, draft_model, tokenizer, tuple(read), deployment)


def _compose(target: TargetConfig, draft_model: DraftModel, engine: EngineConfig) -> Deployment:
    drafter = draft_model.config
    decoding = METHODS[drafter.decoding_type].decoding(max_draft_len=usual_draft_len(drafter))
    return Deployment(target=target, drafter=drafter, decoding=decoding, engine=engine)


def _load_target(path: Path, dtype: DType) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    import transformers.utils.logging as hf_logging  # seconds to import
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # Any: these parts of transformers are untyped.
    quiet: Any = hf_logging.disable_progress_bar
    quiet()
    auto_model: Any = AutoModelForCausalLM
    auto_tokenizer: Any = AutoTokenizer
    try:
        model = auto_model.from_pretrained(
            path, dtype=getattr(torch, dtype), use_safetensors=True, local_files_only=True
        )
        tokenizer = auto_tokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(
            f"{path}: transformers cannot load this target: {reason}; give a directory with "
            "config.json, model.safetensors and the tokenizer's files"
        ) from error
    # Where the files are missing, transformers makes a tokenizer of its special tokens alone.
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise CheckpointError(
            f"{path}: the tokenizer is missing; put the target's own tokenizer.json beside its "
            "config.json"
        )
    return model.eval().requires_grad_(requires_grad=False), tokenizer


def _read_prompts(path: Path, tokenizer: PreTrainedTokenizerFast) -> list[Prompt]:
    # Any: the tokenizer's encode is untyped.
    encode: Any = tokenizer.encode
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CheckpointError(
            f"{path}: the prompts cannot be read: {reason}; give a JSON Lines file with "
            '{"text": "..."} on each line'
        ) from error
    prompts = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            text, document = record["text"], record.get("document", path.name)
            ids = tuple(encode(text, add_special_tokens=False))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f'{path}:{number}: not a prompt ({error}); write {{"text": "..."}} on each line'
            ) from error
        if not ids:
            raise CheckpointError(f"{path}:{number}: text is empty; give at least one token")
        prompts.append(Prompt(ids, text, document))
    return prompts
