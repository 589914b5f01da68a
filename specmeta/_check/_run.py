"""Everything that is checked of each input; nothing an input holds ends the check of another."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from .._deployment import Deployment
from .._deployment_file import read_deployment_file
from .._files import Document, is_directory, is_there, open_file, read_json_lines, shown_path
from .._findings import InputError
from .._parts import Parts
from ._inputs import engine_name, is_pair, kind_of, open_input
from ._options import Options, layout_of
from ._report import InputReport, Report

_STDIN = "-"


def check(paths: Sequence[str], options: Options, stdin: Callable[[], BinaryIO]) -> Report:
    """Check every input, in order; the deployment that steps belong to comes first."""
    return _Check(options, stdin).run(paths)


class _Check:
    def __init__(self, options: Options, stdin: Callable[[], BinaryIO]) -> None:
        self._options = options
        self._stdin = stdin
        self._deployment: Deployment | None = None

    def run(self, paths: Sequence[str]) -> Report:
        inputs = []
        given = self._options.deployment
        if given is not None:
            item, self._deployment = self._report(str(given))
            if str(given) not in paths:
                inputs.append(item)
        inputs += [self._report(path)[0] for path in paths]
        return Report(tuple(inputs))

    def _report(self, path: str) -> tuple[InputReport, Deployment | None]:
        item = InputReport(path="<stdin>" if path == _STDIN else shown_path(path))
        deployment = None
        try:
            deployment = self._input(item, path)
        except InputError as error:
            item.findings.extend(error.findings)
            if not error.findings:
                item.unreadable.append(str(error))
        if deployment is not None:
            item.describe(deployment)
        return item, deployment

    def _input(self, item: InputReport, path: str) -> Deployment | None:
        place = Path(path)
        if path == _STDIN or place.suffix == ".jsonl":
            self._stream(item, place)
            return None
        if is_directory(place) or place.suffix == ".gguf":
            self._models(item, place)
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
            self._models(item, place)
        else:
            self._steps(item, [document])
        return None

    def _models(self, item: InputReport, path: Path) -> None:
        from ._models import check_checkpoint, check_pair

        if is_directory(path) and not is_pair(path) and not is_there(path / "config.json"):
            fact = "holds neither a config.json nor a target/"
            told = "pass a checkpoint directory, one with target/ and drafter/, or a file"
            raise InputError(f"{shown_path(path)}: {fact}; {told}")
        if is_pair(path):
            check_pair(item, path, self._options)
        else:
            check_checkpoint(item, path, self._options)

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
        item.notes.append(_deployment_note(reading.parts))
        item.findings.extend(reading.findings)
        return reading.deployment

    def _stream(self, item: InputReport, path: Path) -> None:
        with ExitStack() as stack:
            stream = (
                self._stdin() if item.path == "<stdin>" else stack.enter_context(open_file(path))
            )
            self._steps(item, read_json_lines(stream, item.path))

    def _steps(self, item: InputReport, documents: Iterable[Document]) -> None:
        from .._step_documents import steps_from
        from .._steps import check_steps

        item.kind = "steps"
        item.notes.append(f"recorded metadata{self._beside()}")
        steps = steps_from(documents, self._deployment)
        item.findings.extend(
            check_steps(steps, deployment=self._deployment, mid_run=self._options.mid_run)
        )

    def _beside(self) -> str:
        """What the steps were compared with."""
        given = self._options.deployment
        if given is None:
            return ", compared with each other: give --deployment FILE to compare with one"
        if self._deployment is None:
            return f", not compared with {shown_path(given)}, which is not valid"
        return f", compared with {shown_path(given)}"


def _deployment_note(parts: Parts) -> str:
    if parts.drafter is None:
        return "deployment"
    method = parts.drafter.decoding_type
    if parts.dialect is None:
        return f"deployment of a {method} drafter"
    return f"deployment of a {method} drafter in the {layout_of(parts.dialect)} layout"
