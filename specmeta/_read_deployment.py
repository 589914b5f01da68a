"""The public reader of deployment files. What reads them is imported when it is called."""

from collections.abc import Sequence
from pathlib import Path

from ._deployment import Deployment
from ._errors import show
from ._findings import InputError


def read_deployment(path: Path | str, *, roots: Sequence[Path] = ()) -> Deployment:
    """The deployment of a YAML or JSON file.

    The paths in it are relative to its directory, and lie inside it or one of `roots`. Warnings are
    dropped; ``specmeta check`` shows them.

    Raises:
        TypeError: `roots` is no sequence of paths.
        InputError: the file cannot be read, or breaks a rule; `findings` has every violation.

    """
    from ._deployment_file import read_deployment_file
    from ._files import read_document

    given: object = roots
    if not isinstance(given, Sequence) or not all(isinstance(root, Path) for root in given):
        raise TypeError(f"roots is {show(roots)}; pass a sequence of pathlib.Path directories")
    file = Path(path)
    reading = read_deployment_file(read_document(file), base=file.parent, roots=roots)
    if reading.deployment is None:
        raise InputError.of(found for found in reading.findings if found.severity == "error")
    return reading.deployment
