"""What the steps of one worker have in common, and where one of them differs."""

from collections.abc import Iterator
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

from ._batching import static_names
from ._factory import static_fields

if TYPE_CHECKING:
    from ._deployment import Deployment
    from ._metadata import _SpecMetadata

# A graph bucket narrows the one and sets the other.
_SHAPE = ("max_num_requests", "is_cuda_graph")


class StaticPart:
    """The fields that no step changes: the deployment's, or the first step's without one."""

    num_seq_slots: int

    def __init__(self, deployment: "Deployment | None") -> None:
        self._owner = "the first step's" if deployment is None else "the deployment's"
        self._fields: dict[str, Any] = {}
        # Rows of the shape that is no bucket; a bucket alone says only what it is at least.
        self._rows, self._rows_known = 0, False
        # The last wrong value of a field, so that a difference is told once and not every step.
        self._told: dict[str, object] = {}
        if deployment is not None:
            self._fields = static_fields(deployment) | {"decoding_type": deployment.decoding_type}
            self._rows, self._rows_known = self._fields.pop("max_num_requests"), True
            self.num_seq_slots = deployment.engine.num_seq_slots

    def differences(self, metadata: "_SpecMetadata") -> Iterator[tuple[str, str, object]]:
        """Field, fact and value of each difference that the step before did not have."""
        if not self._fields:
            names = [name for name in static_names(type(metadata)) if name not in _SHAPE]
            self._fields = {name: getattr(metadata, name) for name in names}
            self.num_seq_slots = metadata.num_seq_slots
        known = type(metadata).model_fields
        found = {
            name: f"{short(getattr(metadata, name))} is not {self._owner} {short(wanted)}"
            for name, wanted in self._fields.items()
            if name in known and getattr(metadata, name) != wanted
        }
        rows = self._rows_fact(metadata)
        if rows is not None:
            found["max_num_requests"] = rows
        for name, fact in found.items():
            value = getattr(metadata, name)
            if self._told.get(name) != value:
                yield name, fact, value
        self._told = {name: getattr(metadata, name) for name in found}

    def _rows_fact(self, metadata: "_SpecMetadata") -> str | None:
        """What is wrong with max_num_requests: only a graph bucket may narrow it."""
        rows, bucket = metadata.max_num_requests, metadata.is_cuda_graph
        if not self._rows_known:
            narrower = not bucket and rows < self._rows
            widest, self._rows = self._rows, max(rows, self._rows)
            self._rows_known = not bucket
            return f"{rows} is below the {widest} of a graph bucket before" if narrower else None
        if bucket and rows > self._rows:
            return f"{rows} is above {self._owner} {self._rows}, which a bucket only narrows"
        if not bucket and rows != self._rows:
            return f"{rows} is not {self._owner} {self._rows}, and this is no graph bucket"
        return None
