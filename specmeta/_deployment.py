"""A target, a drafter, the user's choices and the engine, checked against each other once."""

from collections.abc import Iterable, Iterator
from typing import final

from pydantic_core import InitErrorDetails

from . import _deployment_rules as groups
from . import _rules as rules
from ._base import SpecModel
from ._decoding import DecodingConfig
from ._drafter import DrafterConfig, MTPDrafterConfig
from ._engine import EngineConfig
from ._errors import show
from ._findings import Finding, findings_of_lines
from ._overrides import CompileKey, RuleOverride
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

    overrides: tuple[RuleOverride, ...] = ()
    """Rules that are broken on purpose, each with its reason; only overridable rules can be."""

    compiled_for: CompileKey | None = None
    """The compile_key of the deployment that graphs and kernels were compiled for; None where they
    are compiled at start."""

    @property
    def decoding_type(self) -> DecodingType:
        """Method that drafter and decoding config share."""
        return self.decoding.decoding_type

    @property
    def window_size(self) -> int:
        """Context positions that the drafter attends to, in tokens: its window, but no more than
        max_seq_len, which is also what a drafter without a window has.
        """
        return groups.window_of(self.drafter, self.engine)

    @property
    def layers_to_capture(self) -> tuple[int, ...]:
        """Target layers whose states the worker needs, i the output of layer i, -1 the embedding's:
        those of a block drafter's checkpoint, the last layer for MTP.
        """
        if isinstance(self.drafter, MTPDrafterConfig):
            return (self.target.num_layers - 1,)
        return self.drafter.layers_to_capture

    @property
    def block_size(self) -> int | None:
        """Positions of a block at run time: the checkpoint's, or more where `draft_beyond_block` is
        overridden, so that the block yields max_draft_len drafts; None for MTP, which has none.
        """
        drafter = self.drafter
        if isinstance(drafter, MTPDrafterConfig):
            return None
        without_draft = drafter.block_size - drafter.max_block_drafts
        return max(drafter.block_size, self.decoding.max_draft_len + without_draft)

    @property
    def compile_key(self) -> CompileKey:
        """What to store beside artefacts compiled for this deployment."""
        drafter = self.drafter
        block = None if isinstance(drafter, MTPDrafterConfig) else drafter
        return CompileKey(
            decoding_type=self.decoding_type,
            max_draft_len=self.decoding.max_draft_len,
            dtype=self.engine.dtype,
            layers_to_capture=self.layers_to_capture,
            window_size=self.window_size,
            block_size=self.block_size,
            anchor_convention=None if block is None else block.anchor_convention,
            window_causality=None if block is None else block.window_causality,
        )

    def findings(self) -> tuple[Finding, ...]:
        """What is worth knowing of this valid deployment: errors that it overrides, warnings."""
        reasons = groups.reasons(self.overrides)
        lines = list(self._lines())
        overridden = [line for line in lines if _name(line) in reasons]
        warnings = [line for line in lines if _is_warning(line)]
        return (
            *findings_of_lines(overridden, reasons),
            *findings_of_lines([*warnings, *self._unused({_name(line) for line in lines})]),
        )

    def checks(self) -> Iterator[Iterable[InitErrorDetails]]:
        yield from super().checks()
        yield self._overriding()
        yield self._refused()

    def _overriding(self) -> Iterator[InitErrorDetails]:
        yield from groups.overriding(self.overrides)

    def _refused(self) -> Iterator[InitErrorDetails]:
        accepted = groups.reasons(self.overrides)
        for line in self._lines():
            if _name(line) not in accepted and not _is_warning(line):
                yield line

    def _lines(self) -> Iterator[InitErrorDetails]:
        part = vars(self).get  # an invalid deployment lacks some
        yield from groups.between(*map(part, ("target", "drafter", "decoding", "engine")))
        yield from self._compiled()

    def _compiled(self) -> Iterator[InitErrorDetails]:
        stored, now = self.compiled_for, self.compile_key
        if stored is None or stored == now:
            return
        for name in CompileKey.model_fields:
            before, value = getattr(stored, name), getattr(now, name)
            if before != value:
                fact = f"{_text(before)} is not this deployment's {name} ({_text(value)})"
                yield rules.COMPILED_FOR_OTHER.broken(f"compiled_for.{name}", fact, value=before)

    def _unused(self, broken: set[str]) -> Iterator[InitErrorDetails]:
        for index, override in enumerate(self.overrides):
            if override.rule not in broken:
                fact = f"{show(override.rule)} is not broken"
                yield rules.OVERRIDE_UNUSED.broken(
                    "overrides", fact, value=override.rule, index=index
                )


def _is_warning(line: InitErrorDetails) -> bool:
    return rules.RULES[_name(line)].severity == "warning"


def _name(line: InitErrorDetails) -> str:
    kind = line["type"]
    return kind if isinstance(kind, str) else kind.type


def _text(value: object) -> str:
    return str(value) if isinstance(value, tuple) else show(value)
