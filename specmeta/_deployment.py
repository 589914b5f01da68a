"""A target, a drafter, the user's choices and the engine, checked against each other once."""

from collections.abc import Iterable, Iterator
from typing import final

from pydantic_core import InitErrorDetails

from . import _deployment_rules as groups
from ._base import SpecModel
from ._decoding import DecodingConfig
from ._drafter import DrafterConfig
from ._engine import EngineConfig
from ._findings import Finding, findings_of_lines
from ._overrides import CompileKey, RuleOverrides
from ._running import block_of, compile_key_of, layers_of, window_of
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

    overrides: RuleOverrides = ()
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
        return window_of(self.drafter, self.engine)

    @property
    def layers_to_capture(self) -> tuple[int, ...]:
        """Target layers whose states the worker needs, i the output of layer i, -1 the embedding's:
        those of a block drafter's checkpoint, the last layer for MTP.
        """
        return layers_of(self.target, self.drafter)

    @property
    def block_size(self) -> int | None:
        """Positions of a block at run time: the checkpoint's, or more where `draft_beyond_block` is
        overridden, so that the block yields max_draft_len drafts; None for MTP, which has none.
        """
        return block_of(self.drafter, self.decoding)

    @property
    def compile_key(self) -> CompileKey:
        """What to store beside artefacts compiled for this deployment."""
        return compile_key_of(self.target, self.drafter, self.decoding, self.engine)

    def findings(self) -> tuple[Finding, ...]:
        """What is worth knowing of this valid deployment: errors that it overrides, warnings."""
        reasons = groups.reasons(self.overrides)
        lines = list(self._lines())
        broken = {groups.name_of(line) for line in lines}
        overridden = [line for line in lines if groups.name_of(line) in reasons]
        warnings = [line for line in lines if groups.is_warning(line)]
        unused = groups.unused(enumerate(self.overrides), broken, groups.PARTS)
        return (
            *findings_of_lines(overridden, reasons),
            *findings_of_lines([*warnings, *unused]),
        )

    def checks(self) -> Iterator[Iterable[InitErrorDetails]]:
        yield from super().checks()
        yield self._overriding()
        yield self._refused()

    def _overriding(self) -> Iterator[InitErrorDetails]:
        yield from groups.overriding(enumerate(self.overrides))

    def _refused(self) -> Iterator[InitErrorDetails]:
        accepted = groups.reasons(vars(self).get("overrides", ()))
        for line in self._lines():
            if groups.name_of(line) not in accepted and not groups.is_warning(line):
                yield line

    def _lines(self) -> Iterator[InitErrorDetails]:
        part = vars(self).get  # an invalid deployment lacks some
        target, drafter, decoding, engine = map(part, groups.PARTS)
        yield from groups.between(target, drafter, decoding, engine, part("compiled_for"))
