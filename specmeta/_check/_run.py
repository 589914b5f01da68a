"""Everything that is checked of each input; nothing an input holds ends the check of another."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from .._checkpoint import Checkpoint, is_pair, open_checkpoint
from .._deployment import Deployment
from .._deployment_file import read_deployment_file
from .._files import Document, is_directory, open_file, read_json_lines, shown_path
from .._findings import Finding, InputError
from .._parts import Parts
from ._inputs import check_place, engine_name, kind_of, no_steps, open_input
from ._options import STDIN, CheckOptions, layout_of, method_of, unused
from ._report import MAX_FINDINGS, InputReport, Report

if TYPE_CHECKING:
    from .._steps import Step

_STDIN = "-"
_NO_STDIN = f"{STDIN}: is closed; pipe the recorded metadata, or pass a file"
_ONCE = "standard input can be read once; name '-' once, and pass files for the rest"
_STREAMED = "--deployment reads no standard input; pass a file"
_EXPECTED = "pass a deployment file, or engine arguments beside --target and --drafter"
_ALONE = ", compared with each other: give --deployment FILE to compare with one"


def check(
    paths: Sequence[str], options: CheckOptions, stdin: Callable[[], BinaryIO | None]
) -> Report:
    """Check every input, in order; the deployment that steps belong to comes first.

    Raises:
        InputError: an option is of no use, or standard input would be read twice.

    """
    if str(options.deployment) == _STDIN:
        raise InputError(_STREAMED)
    if [*paths].count(_STDIN) > 1:
        raise InputError(_ONCE)
    report = _Check(options, stdin).run(paths)
    if not report.unreadable:  # else one of those may be what an option is for
        problem = unused(options, {name for item in report.inputs for name in item.used})
        if problem is not None:
            raise InputError(problem)
    return report


class _Check:
    def __init__(self, options: CheckOptions, stdin: Callable[[], BinaryIO | None]) -> None:
        self._options = options
        self._stdin = stdin
        self._deployment: Deployment | None = None

    def run(self, paths: Sequence[str]) -> Report:
        inputs = []
        given = self._options.deployment
        place = None if given is None else os.path.realpath(given)
        first = None if given is None else self._given(str(given))
        if first is not None and all(_place(path) != place for path in paths):
            inputs.append(first)
        for path in paths:
            again = first is not None and _place(path) == place
            inputs.append(first if first is not None and again else self._report(path)[0])
        return Report(tuple(inputs))

    def _given(self, path: str) -> InputReport:
        """What `--deployment` names."""
        item, self._deployment = self._report(path)
        broken = item.kind in ("deployment", "arguments") and item.has_errors
        if self._deployment is None and not broken and not item.unreadable:
            what = "arguments without their pair" if item.kind == "arguments" else item.kind
            fact = f"is no deployment for --deployment ({what})"
            item.unreadable.append(f"{item.path}: {fact}; {_EXPECTED}")
        return item

    def _report(self, path: str) -> tuple[InputReport, Deployment | None]:
        item = InputReport(path=STDIN if path == _STDIN else shown_path(path))
        deployment = None
        try:
            deployment = self._input(item, path)
        except InputError as error:
            item.add(error.findings)
            if not error.findings:
                item.unreadable.append(str(error))
        if deployment is not None:
            item.describe(deployment)
        return item, deployment

    def _input(self, item: InputReport, path: str) -> Deployment | None:
        if path == _STDIN:
            stream = self._stdin()
            if stream is None:
                raise InputError(_NO_STDIN)
            self._steps(item, read_json_lines(stream, STDIN))
            return None
        check_place(path)
        place = Path(path)
        if is_directory(place) or place.suffix == ".gguf":
            self._models(item, place)
            return None
        if place.suffix == ".jsonl":
            with open_file(place) as file:
                self._steps(item, read_json_lines(file, item.path))
            return None
        document = open_input(place)
        kind = kind_of(document)
        if kind == "deployment":
            return self._deployment_file(item, document, place.parent)
        if kind == "arguments":
            from ._models import check_arguments

            name = engine_name(document)
            assert name is not None
            return check_arguments(item, document, name, self._options)
        if kind == "checkpoint":
            from ._models import check_checkpoint

            check_checkpoint(item, Checkpoint(document, place.parent), self._options)
        else:
            self._steps(item, [document])
        return None

    def _models(self, item: InputReport, path: Path) -> None:
        from ._models import check_checkpoint, check_pair

        if is_pair(path):
            check_pair(item, path, self._options)
        else:
            check_checkpoint(item, open_checkpoint(path), self._options)

    def _deployment_file(
        self, item: InputReport, document: Document, base: Path
    ) -> Deployment | None:
        options = self._options
        reading = read_deployment_file(
            document,
            base=base,
            roots=options.roots,
            stated=options.stated,
            weights=options.weights,
        )
        item.kind, item.dialect = "deployment", reading.parts.dialect
        item.used |= {"roots"} | ({"stated", "weights"} if _names_drafter(document) else set())
        item.notes.append(_deployment_note(reading.parts))
        item.add(reading.findings)
        return reading.deployment

    def _steps(self, item: InputReport, documents: Iterable[Document]) -> None:
        from .._step_documents import steps_from
        from .._steps import check_steps

        item.kind = "steps"
        item.used |= {"deployment", "mid_run"}
        item.notes.append(f"recorded metadata{self._beside()}")
        steps = _some(steps_from(_filled(documents), self._deployment), item.path)
        found = check_steps(steps, deployment=self._deployment, mid_run=self._options.mid_run)
        if self._options.deployment is not None and self._deployment is None:
            found = _of_whole_steps(found, item)
        item.add(found)

    def _beside(self) -> str:
        """What the steps were compared with."""
        given = self._options.deployment
        if given is None:
            return _ALONE
        if self._deployment is None:
            told = "is no valid deployment"
            return f", compared with each other alone: {shown_path(given)} {told}"
        return f", compared with {shown_path(given)}"


def _place(path: str) -> str | None:
    """The file behind a name; None for standard input."""
    return None if path == _STDIN else os.path.realpath(path)


def _filled(documents: Iterable[Document]) -> Iterator[Document]:
    """The documents, of which only so many may be lists without a step."""
    empty = 0
    for document in documents:
        empty += document.data == []
        if empty > MAX_FINDINGS:
            raise InputError(f"{document.name}: {MAX_FINDINGS} lines are empty lists; remove them")
        yield document


def _some(steps: "Iterable[Step | Finding]", name: str) -> "Iterator[Step | Finding]":
    """The steps, of which there has to be one."""
    empty = True
    for step in steps:
        empty = False
        yield step
    if empty:
        raise no_steps(name)


def _of_whole_steps(found: Iterable[Finding], item: InputReport) -> Iterator[Finding]:
    """The findings but those of steps that are arguments alone, which only a valid deployment can
    complete; these are counted.
    """
    count = 0
    for finding in found:
        if finding.rule == "union_tag_not_found":
            count += 1
        else:
            yield finding
    if count:
        item.notes.append(f"{count} steps are arguments alone: not checked without the deployment")


def _names_drafter(document: Document) -> bool:
    """Whether a deployment file names the checkpoint of its drafter, which facts may be of."""
    data = document.data
    drafter = data.get("drafter") if isinstance(data, dict) else None
    return isinstance(drafter, str) or (
        isinstance(drafter, dict) and "decoding_type" not in drafter
    )


def _deployment_note(parts: Parts) -> str:
    if parts.drafter is None:
        return "deployment"
    method = method_of(parts.drafter.decoding_type)
    if parts.dialect is None:
        return f"deployment of {method} drafter"
    return f"deployment of {method} drafter in the {layout_of(parts.dialect)} layout"
