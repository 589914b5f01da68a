"""The parts of a deployment file that it may name by a path: checkpoints, an engine's arguments.

Their readers are imported where a file names one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ._deployment_parts import FieldReader, given_keys
from ._drafter import DRAFTER_CONFIGS
from ._files import Document, is_inside
from ._findings import Origin, Origins, finding
from ._findings import Path as Location
from ._parts import Parts
from ._rules import PATH_OUTSIDE
from ._target import TargetConfig
from ._text import named
from ._written import show_written

if TYPE_CHECKING:
    from ._arguments import Arguments
    from ._checkpoint import Checkpoint
    from ._pairs import Stated

BUNDLED = "bundled"
"""Names a drafter that lies in the target's checkpoint."""


class PartReader(FieldReader):
    """Reads one part after the other into `parts`, and never raises for what a file holds."""

    def __init__(
        self,
        document: Document,
        parts: Parts,
        roots: tuple[Path, ...],
        stated: Mapping[str, object],
        *,
        weights: bool,
    ) -> None:
        super().__init__(document, parts)
        self._roots = roots
        self._stated = stated
        self._weights = weights

    def target(self, data: Mapping[str, object]) -> "Checkpoint | None":
        """Read the target; its checkpoint where it has one."""
        value = self.given(data, "target", "a checkpoint directory, or the fields of TargetConfig")
        if not isinstance(value, str):
            if value is not None:
                self.parts.target = self.model(TargetConfig, value, ("target",))
            return None
        checkpoint = self._open(value, ("target",))
        if checkpoint is not None:
            from ._pairs import add_target

            with self.parts.reading(Origin(self.document, ("target",))):
                add_target(self.parts, checkpoint)
        return checkpoint

    def drafter(
        self,
        data: Mapping[str, object],
        target: "Checkpoint | None",
        argued: "Arguments | None",
    ) -> None:
        """Read the drafter: its own checkpoint, the target's, or its fields."""
        told = f"a checkpoint directory, '{BUNDLED}', or the fields of a drafter config"
        value = self.given(data, "drafter", told)
        path: Location = ("drafter",)
        stated: Mapping[str, object] = {}
        if isinstance(value, dict) and ("checkpoint" in value or "stated" in value):
            self.unknown(path, value, ("checkpoint", "stated"), "a drafter's checkpoint")
            reference = given_keys(value)
            facts, value = reference.get("stated", {}), reference.get("checkpoint", BUNDLED)
            path = ("drafter", "checkpoint")
            if not isinstance(value, str):
                fact = f"{show_written(value)} is no path"
                self.problem("string_type", path, fact, f"give {told}")
                return
            if not isinstance(facts, dict):
                fact = f"{show_written(facts)} is no object of facts"
                self.problem("dict_type", ("drafter", "stated"), fact, "give fact: value")
                return
            stated = facts
        if isinstance(value, str):
            self._drafter_checkpoint(value, path, target, stated, argued)
        elif value is not None:
            self.parts.drafter = self.tagged(DRAFTER_CONFIGS, value, path)

    def _drafter_checkpoint(
        self,
        text: str,
        path: Location,
        target: "Checkpoint | None",
        stated: Mapping[str, object],
        argued: "Arguments | None",
    ) -> None:
        from ._pairs import add_drafter, gathered

        checkpoint = None
        if text != BUNDLED:
            checkpoint = self._open(text, path)
            if checkpoint is None:
                return
        elif target is None:
            if self.parts.target is not None:
                fact = "'bundled', but the target is written out and has no checkpoint"
                remedy = "name the drafter's directory, or the target's"
                self.problem("value_error", path, fact, remedy, text)
            return
        places: Origins = {
            (name,): Origin(self.document, ("drafter", "stated", name)) for name in stated
        }
        sources: list[Stated] = [(self._stated, {}), (stated, places)]
        if argued is not None:
            from ._argument_files import drafter_facts

            sources.append(drafter_facts(argued))
        with self.parts.reading(Origin(self.document, path)):
            facts = gathered(sources, self._method())
            add_drafter(self.parts, checkpoint, target, facts, weights=self._weights)

    def _method(self) -> str | None:
        """The method that the user chose, even where the choices have another error."""
        decoding = self.parts.decoding
        if decoding is not None:
            return decoding.decoding_type
        data = self.document.data
        written = data.get("decoding") if isinstance(data, dict) else None
        method = written.get("decoding_type") if isinstance(written, dict) else None
        return method if isinstance(method, str) and method in DRAFTER_CONFIGS else None

    def arguments(
        self, data: Mapping[str, object], target: "Checkpoint | None"
    ) -> "Arguments | None":
        """Read choices and capacity from an engine's arguments."""
        for key in ("decoding", "engine"):
            if key in data:
                fact = "is given beside arguments, which hold the same"
                self.problem("extra_forbidden", (key,), fact, f"remove {key} or arguments")
        from ._arguments import ENGINES, engine_named

        value, told = data["arguments"], f"one of {', '.join(ENGINES)} and its arguments"
        if not isinstance(value, dict) or len(value) != 1:
            fact = f"{show_written(value)} is not an object of one engine"
            self.problem("dict_type", ("arguments",), fact, f"give {told}")
            return None
        ((name, written),) = value.items()
        path: Location = ("arguments", name)
        engine = engine_named(name)
        if engine is None:
            self.unknown(("arguments",), (name,), ENGINES, "arguments")
            return None
        from ._argument_files import add_arguments, open_arguments

        document: Document | None = self.document
        arguments = None
        with self.parts.reading(Origin(self.document, path)):
            if isinstance(written, str):
                file = self._inside(written, path)
                document, path = None if file is None else open_arguments(file), ()
            if document is not None:
                arguments = add_arguments(self.parts, document, engine, target, path)
        return arguments

    def _open(self, text: str, path: Location) -> "Checkpoint | None":
        """The checkpoint at a path of the file."""
        from ._checkpoint import open_checkpoint

        checkpoint = None
        with self.parts.reading(Origin(self.document, path)):
            place = self._inside(text, path)
            if place is not None:
                checkpoint = open_checkpoint(place)
        return checkpoint

    def _inside(self, text: str, path: Location) -> Path | None:
        """The path, relative to the file; None outside the roots, which is collected."""
        place = self._roots[0] / text
        if any(is_inside(root, place) for root in self._roots):
            return place
        origin = Origin(self.document, path)
        fact = f"{named(text)!r} is outside the directory of the deployment file"
        self.parts.findings.append(
            finding(PATH_OUTSIDE, origin.key, fact, value=text, origin=origin)
        )
        return None
