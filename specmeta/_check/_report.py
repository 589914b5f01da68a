"""What a check found in each input, and the exit code that follows."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .._deployment import Deployment
from .._engine import EngineConfig, num_seats
from .._findings import Finding
from .._memory import BufferSizes, buffer_sizes
from .._rules import PART_UNREADABLE

MAX_FINDINGS = 1000
"""Findings of one input; behind them it is not read on."""


class Slots(NamedTuple):
    """The sequence-slot pool of an engine, and what `EngineConfig.sized` gives for it."""

    num_seq_slots: int
    """The pool that the engine has."""

    plain: int
    """One batch in each pipeline stage."""

    overlap_headroom: int
    """With room for requests that finish while the next batch is scheduled."""

    disaggregated: int
    """With requests whose transfer is under way."""

    disaggregated_overlap_headroom: int
    """With both."""


@dataclass(slots=True, kw_only=True)
class InputReport:
    """One input: what it was taken for, and what is wrong with it."""

    path: str
    kind: str | None = None
    """deployment, pair, target, drafter, arguments or steps; None where that could not be told."""
    dialect: str | None = None
    """How its drafter was published, or the engine whose arguments they are."""
    notes: list[str] = field(default_factory=list)
    """What was recognised, and what was not checked."""
    findings: list[Finding] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    """Messages of what could not be read at all."""
    stopped: bool = False
    """Whether there is more than `MAX_FINDINGS`, so that the rest was not read."""
    memory: BufferSizes | None = None
    not_stated: tuple[str, ...] = ()
    """Facts of the drafter without which the memory is not known."""
    slots: Slots | None = None
    used: set[str] = field(default_factory=set)
    """Names of the options that were of use to this input, given or not."""

    @property
    def has_errors(self) -> bool:
        """Whether something is wrong with it that is not overridden."""
        return any(found.severity == "error" for found in self.findings)

    def add(self, findings: Iterable[Finding]) -> None:
        """Take findings, in their order, as far as the limit."""
        for found in findings:
            if len(self.findings) == MAX_FINDINGS:
                self.stopped = True
                return
            self.findings.append(found)

    def describe(self, deployment: Deployment) -> None:
        """Note what a valid deployment takes."""
        self.memory = buffer_sizes(deployment)
        if self.memory.slot_state is None:
            names = ("num_key_value_heads", "head_dim")
            drafter = deployment.drafter
            self.not_stated = tuple(name for name in names if getattr(drafter, name) is None)
        self.slots = slots_of(deployment.engine)


@dataclass(frozen=True, slots=True)
class Report:
    """Every input of a check, in the order of the command line."""

    inputs: tuple[InputReport, ...]

    def count(self, severity: str) -> int:
        """Findings of a severity."""
        return sum(f.severity == severity for item in self.inputs for f in item.findings)

    @property
    def summary(self) -> str:
        """The last line of a report."""
        errors, warnings = self.count("error"), self.count("warning")
        found = f"{_plural(errors, 'error')}, {_plural(warnings, 'warning')}"
        if self.unreadable:
            found += f", {self.unreadable} unreadable"
        return f"{found} in {_plural(len(self.inputs), 'input')}"

    @property
    def unreadable(self) -> int:
        """Inputs that could not be read, as a whole or in part."""
        return sum(bool(item.unreadable) for item in self.inputs)

    def exit_code(self, *, strict: bool) -> int:
        """0 valid, 1 findings, 2 where an input, or a part of one, could not be read."""
        if self.unreadable or any(
            found.rule == PART_UNREADABLE.name for item in self.inputs for found in item.findings
        ):
            return 2
        if self.count("error") or any(item.stopped for item in self.inputs):
            return 1
        return 1 if strict and self.count("warning") else 0


def slots_of(engine: EngineConfig) -> Slots:
    """The pool of an engine beside the sizes of the formula."""

    def sized(*, overlap: bool, disaggregated: bool) -> int:
        return num_seats(
            engine.max_num_requests,
            engine.pipeline_parallel_size,
            overlap_headroom=overlap,
            disaggregated=disaggregated,
        )

    return Slots(
        num_seq_slots=engine.num_seq_slots,
        plain=sized(overlap=False, disaggregated=False),
        overlap_headroom=sized(overlap=True, disaggregated=False),
        disaggregated=sized(overlap=False, disaggregated=True),
        disaggregated_overlap_headroom=sized(overlap=True, disaggregated=True),
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
