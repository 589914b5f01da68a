"""The parts of a deployment as they are read, and every rule that the parts there are allow.

A deployment is checked as a whole where all four parts could be read. Where one is missing, by
design (a pair of checkpoints has no engine) or because it is broken, the rules on the others run.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import _deployment_rules as groups
from ._decoding import DecodingConfig
from ._deployment import Deployment
from ._drafter import DrafterConfig
from ._engine import EngineConfig
from ._findings import (
    Finding,
    InputError,
    Origin,
    Path,
    finding,
    findings_of_lines,
    placed,
)
from ._overrides import CompileKey, RuleOverride
from ._rules import PART_UNREADABLE
from ._target import TargetConfig


@dataclass(slots=True)
class Parts:
    """What has been read so far, where it was written, and what is wrong with it."""

    target: TargetConfig | None = None
    drafter: DrafterConfig | None = None
    decoding: DecodingConfig | None = None
    engine: EngineConfig | None = None
    overrides: dict[int, RuleOverride] = field(default_factory=dict)
    """Valid ones, by their index in the file."""
    compiled_for: CompileKey | None = None
    partial: dict[str, Any] = field(default_factory=dict)
    """Parts that are not valid, by name: only their valid fields can be read."""
    dialect: str | None = None
    """How the drafter was published; None where its fields are written out."""
    origins: dict[Path, Origin] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    """Messages of files that could not be read at all and that no file names."""

    @contextmanager
    def reading(self, origin: Origin | None = None) -> Generator[None]:
        """Collect what is wrong with a part instead of raising it.

        `origin` is where another file names the part: that place is shown where the part cannot be
        read at all.
        """
        try:
            yield
        except InputError as error:
            self.findings.extend(error.findings)
            if not error.findings and origin is None:
                self.unreadable.append(str(error))
            elif not error.findings and origin is not None:
                fact = str(error).rpartition("; ")[0] or str(error)  # the rule has the remedy
                self.findings.append(
                    finding(PART_UNREADABLE, origin.key, fact, value=None, origin=origin)
                )

    def compose(self) -> Deployment | None:
        """Run every rule on the parts, collect what it finds, and return the deployment if all of
        them are there and nothing is wrong between them.
        """
        target, drafter, decoding, engine = self.target, self.drafter, self.decoding, self.engine
        self._add(self._between())
        if any(found.severity == "error" for found in self.findings):
            return None
        if not (target and drafter and decoding and engine):
            return None
        return Deployment(
            target=target,
            drafter=drafter,
            decoding=decoding,
            engine=engine,
            overrides=tuple(self.overrides.values()),
            compiled_for=self.compiled_for,
        )

    def _between(self) -> Iterable[Finding]:
        """What is wrong between the parts, what is overridden and what is worth knowing."""
        present = [name for name in groups.PARTS if getattr(self, name)]
        target, drafter, decoding, engine = (
            getattr(self, name) or self.partial.get(name) for name in groups.PARTS
        )
        lines = list(groups.between(target, drafter, decoding, engine, self.compiled_for))
        broken = {groups.name_of(line) for line in lines}
        lines += groups.overriding(self.overrides.items())
        lines += groups.unused(self.overrides.items(), broken, present)
        return findings_of_lines(lines, groups.reasons(self.overrides.values()))

    def _add(self, found: Iterable[Finding]) -> None:
        known = {*self.findings}
        for item in found:
            names: Path = tuple(item.field.split("."))
            loc = names if item.index is None else (*names, item.index)
            found_there = placed(item, self.origins, loc)
            if found_there not in known:  # a bundled pair is described by one file
                known.add(found_there)
                self.findings.append(found_there)
