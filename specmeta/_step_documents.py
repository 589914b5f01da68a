"""Recorded steps, read from documents."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ._errors import plain
from ._factory import METADATA_CLASSES, static_fields
from ._findings import Finding, Origin, Path, findings_of
from ._steps import Step
from ._written import show_written, validate_written

if TYPE_CHECKING:
    from ._deployment import Deployment
    from ._files import Document


def steps_from(
    documents: Iterable["Document"], deployment: "Deployment | None" = None
) -> Iterator[Step | Finding]:
    """The steps of these documents, in their order; findings in place of one that is invalid.

    A document is a step, or a list of steps. A step is metadata as ``model_dump(mode="json")``
    writes it; without ``decoding_type`` it is the arguments of `get_spec_metadata`, and the
    deployment gives the rest.

    Raises:
        InputError: what `documents` raises, where one of them cannot be read.

    """
    static: dict[str, Any] = {}
    if deployment is not None:
        static = static_fields(deployment) | {"decoding_type": deployment.decoding_type}
    for document in documents:
        if isinstance(document.data, list):
            for index, item in enumerate(document.data):
                yield from _step(document, (index,), item, static)
        else:
            yield from _step(document, (), document.data, static)


def _step(
    document: "Document", path: Path, data: object, static: Mapping[str, Any]
) -> Iterator[Step | Finding]:
    if not isinstance(data, dict):
        fact = f"{show_written(data)} is no step"
        remedy = "write one object of metadata fields a step"
        yield _untagged(document, path, "model_type", fact, remedy, data)
        return
    # What says its method is whole: nothing that it lacks is taken from the deployment.
    absent = "decoding_type" not in data
    fields = {**static, **data} if absent else data
    tag = fields.get("decoding_type")
    model = METADATA_CLASSES.get(tag) if isinstance(tag, str) else None
    if model is None:
        known = ", ".join(map(repr, METADATA_CLASSES))
        kind = "union_tag_not_found" if absent else "union_tag_invalid"
        fact = "is not given" if absent else f"{show_written(tag)} is unknown"
        remedy = f"use one of {known}, or leave it out and give the deployment"
        inner = path if absent else (*path, "decoding_type")
        yield _untagged(document, inner, kind, fact, remedy, tag)
        return
    try:
        metadata = validate_written(model, fields)
    except ValidationError as error:
        yield from findings_of(error, {(): Origin(document, path)})
    else:
        yield Step(metadata, document, path)


def _untagged(
    document: "Document", path: Path, kind: str, fact: str, remedy: str, value: object
) -> Finding:
    return Finding(
        rule=kind,
        severity="error",
        field="step" if kind == "model_type" else "decoding_type",
        index=next((part for part in path if isinstance(part, int)), None),
        value=plain(value),
        fact=fact,
        remedy=remedy,
        file=document.name,
        line=document.line_of(path),
    )
