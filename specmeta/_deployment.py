"""A target, a drafter, the user's choices and the engine, checked against each other once."""

from collections.abc import Iterator, Sequence
from typing import final

from pydantic_core import InitErrorDetails

from . import _rules as rules
from ._base import SpecModel
from ._decoding import DecodingConfig, DSparkDecodingConfig
from ._drafter import DFlashDrafterConfig, DrafterConfig, DSparkDrafterConfig, MTPDrafterConfig
from ._engine import EngineConfig
from ._errors import show
from ._target import TargetConfig
from ._types import DecodingType


@final
class Deployment(SpecModel, frozen=True):
    """Everything about a running process that does not change from step to step.

    Composing it runs every rule between its parts, and reports every violation at once.
    """

    target: TargetConfig
    """The model that verifies."""

    drafter: DrafterConfig
    """The model that proposes."""

    decoding: DecodingConfig
    """What the user chose; its decoding_type is the drafter's."""

    engine: EngineConfig
    """Capacity of the process."""

    @property
    def decoding_type(self) -> DecodingType:
        """Method that drafter and decoding config share."""
        return self.decoding.decoding_type

    @property
    def window_size(self) -> int:
        """Context positions that the drafter attends to, in tokens: its window, but no more than
        max_seq_len, which is also what a drafter without a window has.
        """
        window, longest = self.drafter.sliding_window, self.engine.max_seq_len
        return longest if window is None else min(window, longest)

    @property
    def layers_to_capture(self) -> tuple[int, ...]:
        """Target layers whose states the worker needs, i the output of layer i, -1 the embedding's:
        those of a block drafter's checkpoint, the last layer for MTP.
        """
        if isinstance(self.drafter, MTPDrafterConfig):
            return (self.target.num_layers - 1,)
        return self.drafter.layers_to_capture

    def broken_rules(self) -> Sequence[InitErrorDetails]:
        return [
            *super().broken_rules(),
            *self._pairing(),
            *self._confidence(),
            *self._draft_length(),
            *self._capacity(),
        ]

    def _pairing(self) -> Iterator[InitErrorDetails]:
        target, drafter = self.target, self.drafter
        if self.decoding.decoding_type != drafter.decoding_type:
            fact = (
                f"{self.decoding.decoding_type} is not the drafter's type ({drafter.decoding_type})"
            )
            yield rules.DECODING_TYPE_DIFFERS.broken(
                "decoding.decoding_type", fact, value=self.decoding.decoding_type
            )
        if drafter.hidden_size != target.hidden_size:
            fact = f"{drafter.hidden_size} is not the target's hidden_size ({target.hidden_size})"
            yield rules.HIDDEN_SIZE_DIFFERS.broken(
                "drafter.hidden_size", fact, value=drafter.hidden_size
            )
        if drafter.vocab_size != target.vocab_size:
            fact = f"{drafter.vocab_size} is not the target's vocab_size ({target.vocab_size})"
            yield rules.VOCAB_SIZE_DIFFERS.broken(
                "drafter.vocab_size", fact, value=drafter.vocab_size
            )
        if isinstance(drafter, DSparkDrafterConfig | DFlashDrafterConfig):
            last = target.num_layers - 1
            for index, layer in enumerate(drafter.layers_to_capture):
                if layer > last:
                    published = drafter.target_layer_ids[index]
                    name = f"{show(published)} ({drafter.layer_id_convention})"
                    fact = f"{name} is beyond the target's {last + 1} layers"
                    yield rules.LAYER_OUT_OF_RANGE.broken(
                        "drafter.target_layer_ids", fact, value=published, index=index
                    )
                    break

    def _confidence(self) -> Iterator[InitErrorDetails]:
        drafter, decoding = self.drafter, self.decoding
        if (
            isinstance(decoding, DSparkDecodingConfig)
            and isinstance(drafter, DSparkDrafterConfig)
            and not drafter.enable_confidence_head
        ):
            for name in ("confidence_threshold", "steps_per_second"):
                value = getattr(decoding, name)
                if value is not None:
                    fact = f"{show(value)} although drafter.enable_confidence_head is False"
                    yield rules.CONFIDENCE_HEAD_ABSENT.broken(f"decoding.{name}", fact, value=value)

    def _draft_length(self) -> Iterator[InitErrorDetails]:
        drafter, draft_len = self.drafter, self.decoding.max_draft_len
        if isinstance(drafter, MTPDrafterConfig):
            if draft_len > drafter.num_layers and draft_len % drafter.num_layers:
                fact = (
                    f"{draft_len} is above num_layers ({drafter.num_layers}) and no multiple of it"
                )
                yield rules.DRAFT_BEYOND_MTP_LAYERS.broken(
                    "decoding.max_draft_len", fact, value=draft_len
                )
        elif draft_len > drafter.max_block_drafts:
            block = f"a block of {drafter.block_size} ({drafter.anchor_convention})"
            fact = f"{draft_len} is above the {drafter.max_block_drafts} drafts of {block}"
            yield rules.DRAFT_BEYOND_BLOCK.broken("decoding.max_draft_len", fact, value=draft_len)
        if self.window_size < draft_len + 1:
            fact = f"{self.window_size} is below max_draft_len + 1 ({draft_len + 1})"
            by_engine = self.window_size == self.engine.max_seq_len
            field = "engine.max_seq_len" if by_engine else "drafter.sliding_window"
            yield rules.WINDOW_TOO_SMALL.broken(field, fact, value=self.window_size)

    def _capacity(self) -> Iterator[InitErrorDetails]:
        engine = self.engine
        for name, limit in (
            ("target", self.target.max_position_embeddings),
            ("drafter", self.drafter.max_position_embeddings),
        ):
            if engine.max_seq_len > limit:
                fact = (
                    f"{engine.max_seq_len} is above the {name}'s max_position_embeddings ({limit})"
                )
                yield rules.MAX_SEQ_LEN_BEYOND_POSITIONS.broken(
                    "engine.max_seq_len", fact, value=engine.max_seq_len
                )
        needed = engine.max_num_requests * (self.decoding.max_draft_len + 1)
        if engine.max_num_tokens < needed:
            rule = f"max_num_requests * (max_draft_len + 1) ({needed})"
            fact = f"{engine.max_num_tokens} is below {rule}"
            yield rules.MAX_NUM_TOKENS_TOO_SMALL.broken(
                "engine.max_num_tokens", fact, value=engine.max_num_tokens
            )
