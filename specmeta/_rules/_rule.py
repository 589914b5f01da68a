"""What a rule is: its name, family, purpose, remedy, public reports and severity."""

from typing import Literal, NamedTuple

from pydantic_core import InitErrorDetails

from .._errors import line_error

Family = Literal[
    "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15",
    "R16", "R17",
]  # fmt: skip


class Rule(NamedTuple):
    """A rule between fields, with what it protects and what to do when it is broken."""

    name: str
    """Stable snake_case name: the ``type`` of the pydantic error, the rule id of a report."""

    family: Family
    """Subject that the rule belongs to: see `FAMILIES`."""

    protects: str
    """What goes wrong where the rule is broken."""

    remedy: str
    """What to do instead."""

    reports: tuple[str, ...] = ()
    """Public reports that the rule answers, as repository and number."""

    severity: Literal["error", "warning"] = "error"
    """An error is refused; a warning is shown."""

    overridable: bool = False
    """Whether a deployment may override the error by name, with a reason."""

    def broken(
        self, field: str, fact: str, *, value: object, index: int | None = None
    ) -> InitErrorDetails:
        """The error line of a violation, to be raised with others in one ``ValidationError``."""
        return line_error(self.name, field, fact, self.remedy, value=value, index=index)


FAMILIES: dict[Family, str] = {
    "R1": "every row has a request id that owns a slot",
    "R2": "a slot is never read for another request than the one that wrote it",
    "R3": "padding is a count and touches no live state",
    "R4": "buffers hold every row, request and token",
    "R5": "positions are absolute and continue where the request ended",
    "R6": "per-row fields agree in length and order",
    "R7": "draft length, block and verify width by an explicit anchor convention",
    "R8": "captured layers by an explicit layer-id convention",
    "R9": "vocabularies, mask token and heads over them",
    "R10": "widths of states, heads and rotary positions",
    "R11": "window, causality and the kernels for them",
    "R12": "compiled artefacts belong to the deployment that runs",
    "R13": "capabilities are stated and checked before weights load",
    "R14": "counts stay in their range",
    "R15": "memory and length follow what runs",
    "R16": "each request is sampled with its own parameters",
    "R17": "buffers that a graph captured stay where they are",
}
