"""Whatever a configuration holds, a reader gives a drafter or one clear error."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from specmeta import InputError
from specmeta._deployment_file import read_deployment_file
from specmeta._dialects import (
    check_weights,
    expected_tensors,
    has_bundled_drafter,
    read_bundled,
    read_drafter,
    read_target,
)
from specmeta._dialects._aliases import ALIASES
from specmeta._files import Document, Tensor, parse_json
from specmeta.testing import make_deployment
from tests.specmeta.files.fuzzing import fuzz

from .reading import BUNDLED, CHECKPOINTS

PUBLISHED = [
    json.loads(path.read_text())
    for path in sorted([*CHECKPOINTS.glob("*/*/config.json"), *BUNDLED.glob("*/config.json")])
]
KEYS = sorted(
    {alias.path[0] for spelt in ALIASES.values() for alias in spelt}
    | {key for raw in PUBLISHED for key in raw}
    | {"text_config", "speculators_config", "rope_scaling", "rope_parameters", "num_target_layers"}
)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([0, 1, -1, 5, 7, 36, 4096, 151936])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=8,
)


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """A published configuration with a few keys set, removed, or moved into an object."""
    raw = dict(draw(st.sampled_from(PUBLISHED)))
    for _ in range(draw(st.integers(0, 5))):
        key = draw(st.sampled_from(KEYS))
        how = draw(st.sampled_from(["set", "set", "remove", "nest"]))
        if how == "set":
            raw[key] = draw(VALUES)
        elif how == "remove":
            raw.pop(key, None)
        elif key in raw:
            raw["text_config"] = {key: raw.pop(key)}
    return raw


FACTS = st.dictionaries(
    st.sampled_from(
        ["anchor_convention", "block_size", "target_layer_ids", "window", "num_layers"]
    ),
    VALUES | st.sampled_from(["anchor_first", "mask_at_position"]),
    max_size=2,
)
KINDS = st.sampled_from([None, "DSpark", "DFlash", "MTP"])
SHAPES = st.lists(st.integers(0, 2**40), max_size=3).map(tuple)


def _document(raw: object) -> Document:
    return parse_json(json.dumps(raw).encode(), "config.json")


@fuzz(150, st.tuples(configurations(), FACTS, KINDS))
def test_any_configuration_is_read_or_refused(
    value: tuple[dict[str, Any], dict[str, object], str | None], folder: Path
) -> None:
    raw, stated, kind = value
    document = _document(raw)
    options: dict[str, Any] = {"stated": stated, "decoding_type": kind}
    with contextlib.suppress(InputError):
        assert read_drafter(document, target=document, **options).config.model_dump()
    with contextlib.suppress(InputError):
        assert read_bundled(document, **options).config.model_dump()
    with contextlib.suppress(InputError):
        assert read_target(document).config.model_dump()
    has_bundled_drafter(document)


@fuzz(60, st.tuples(configurations(), st.lists(st.tuples(st.integers(0, 80), SHAPES), max_size=5)))
def test_any_tensors_are_compared(
    value: tuple[dict[str, Any], list[tuple[int, tuple[int, ...]]]], folder: Path
) -> None:
    raw, changes = value
    try:
        reading = read_drafter(_document(raw), stated={"anchor_convention": "anchor_first"})
    except InputError:
        return
    if reading.config.num_layers > 100:
        return  # a list of names as long as the file says: the weights would have them too
    names = list(expected_tensors(reading))
    tensors = {
        names[index % len(names)] if index % 3 else f"x{index}": Tensor(shape, "BF16", "w")
        for index, shape in changes
    }
    assert all(found.message for found in check_weights(reading, tensors))


@fuzz(60, st.tuples(st.sampled_from(["DSpark", "DFlash", "MTP"]), st.data()))
def test_any_deployment_file_is_read_or_refused(value: tuple[Any, Any], folder: Path) -> None:
    kind, data = value
    raw = make_deployment(kind).model_dump(mode="json")
    for _ in range(data.draw(st.integers(0, 4))):
        part = data.draw(st.sampled_from([*raw, "arguments", "sized"]))
        if isinstance(raw.get(part), dict) and data.draw(st.booleans()):
            raw[part][data.draw(st.sampled_from([*raw[part], "other"]))] = data.draw(VALUES)
        else:
            raw[part] = data.draw(VALUES)
    reading = read_deployment_file(_document(raw), base=folder)
    errors = [found for found in reading.findings if found.severity == "error"]
    assert (reading.deployment is None) == bool(errors)
