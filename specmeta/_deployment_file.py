"""A deployment file: checkpoints, choices and engine in one document, each named or written out.

Everything that is wrong is collected: a part that cannot be read does not hide what is wrong with
another one, and every finding points to the file and the line of the value that it is about.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ._deployment import Deployment
from ._deployment_parts import given_keys
from ._deployment_paths import PartReader
from ._files import Document
from ._findings import NOTHING, Finding, Origin, Origins
from ._parts import Parts

_KEYS = ("target", "drafter", "decoding", "engine", "arguments", "overrides", "compiled_for")


class DeploymentReading(NamedTuple):
    """What a deployment file holds, and everything that is wrong with it."""

    deployment: Deployment | None
    """The deployment; None where an error was found."""

    origins: Origins
    """Where each canonical field was written."""

    findings: tuple[Finding, ...]
    """Errors, warnings and overridden errors."""

    parts: Parts
    """The parts that could be read."""


def is_deployment(data: object) -> bool:
    """Whether a document looks like a deployment file."""
    if not isinstance(data, dict) or "architectures" in data or "model_type" in data:
        return False
    return len(data.keys() & set(_KEYS)) > 1 or {*data} == {"target"}


def read_deployment_file(
    document: Document,
    *,
    base: Path,
    roots: Sequence[Path] = (),
    stated: Mapping[str, object] = NOTHING,
    weights: bool = True,
) -> DeploymentReading:
    """Read a deployment file and run every rule that its readable parts allow.

    `base` is its directory; the paths in it are relative to `base` and lie inside it or one of
    `roots`. `stated` adds facts to those that the file states of its drafter. `weights` compares
    tensors with the configurations that they lie beside.
    """
    parts = Parts(origins={(): Origin(document, ())})
    reader = PartReader(document, parts, (base, *roots), stated, weights=weights)
    data = document.data
    if not isinstance(data, dict):
        reader.problem("model_type", (), "is no object of fields", f"give {', '.join(_KEYS)}")
        return DeploymentReading(None, parts.origins, tuple(parts.findings), parts)
    reader.unknown((), data, _KEYS, "a deployment file")
    data = given_keys(data)
    target = reader.target(data)
    argued = None
    if "arguments" in data:
        argued = reader.arguments(data, target)
    else:
        reader.decoding(data)
        reader.engine(data)
    reader.extras(data)
    reader.drafter(data, target, argued)
    deployment = parts.compose()
    if any(found.severity == "error" for found in parts.findings):
        deployment = None
    return DeploymentReading(deployment, parts.origins, tuple(parts.findings), parts)
