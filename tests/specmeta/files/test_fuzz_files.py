"""No input breaks a reader: each gives what the input means, or refuses it with one message.

By default every property is tried with the same few examples; ``make fuzz`` looks for new ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open

from specmeta._files import parse_json, parse_yaml
from tests.fuzz import fuzz_readers

from .fuzzing import (
    DATA,
    GGUF_SEEDS,
    INDEX_SEEDS,
    JSON_SEEDS,
    SAFETENSORS_SEEDS,
    SHAPES,
    SOUP,
    YAML_DATA,
    YAML_SEEDS,
    dumped,
    fuzz,
    headers,
    mutated,
)
from .samples import safetensors

READERS = fuzz_readers.readers()


@fuzz(300, st.tuples(st.sampled_from(sorted(READERS)), st.binary(max_size=200)))
def test_no_bytes_break_a_reader(case: tuple[str, bytes], folder: Path) -> None:
    name, content = case
    fuzz_readers.run(READERS[name], content, folder)


@fuzz(500, SOUP | mutated(JSON_SEEDS))
def test_no_text_near_to_json_breaks_a_reader(content: bytes, folder: Path) -> None:
    for name in ("json", "lines", "either"):
        fuzz_readers.run(READERS[name], content, folder)


@fuzz(500, SOUP | mutated(YAML_SEEDS))
def test_no_text_near_to_yaml_breaks_a_reader(content: bytes, folder: Path) -> None:
    fuzz_readers.run(READERS["yaml"], content, folder)
    with pytest.MonkeyPatch.context() as patch:  # as where PyYAML is built without libyaml
        patch.delattr(yaml, "CSafeLoader", raising=False)
        fuzz_readers.run(READERS["yaml"], content, folder)


@fuzz(300, mutated(GGUF_SEEDS))
def test_no_file_near_to_gguf_breaks_its_reader(content: bytes, folder: Path) -> None:
    fuzz_readers.run(READERS["gguf"], content, folder)


@fuzz(150, mutated(INDEX_SEEDS))
def test_no_text_near_to_an_index_breaks_its_reader(content: bytes, folder: Path) -> None:
    assert fuzz_readers.run(READERS["index"], content, folder) is None  # its shards do not exist


@fuzz(200, mutated(SAFETENSORS_SEEDS))
def test_no_file_near_to_safetensors_breaks_its_reader(content: bytes, folder: Path) -> None:
    if fuzz_readers.run(READERS["safetensors"], content, folder) is not None:
        assert opens(content, folder)


@fuzz(250, headers())
def test_a_header_is_accepted_exactly_where_safetensors_accepts_it(
    case: tuple[dict[str, object], int], folder: Path
) -> None:
    content = safetensors(*case)
    read = fuzz_readers.run(READERS["safetensors"], content, folder)
    assert (read is not None) == opens(content, folder)


def opens(content: bytes, folder: Path) -> bool:
    """Whether the library itself opens a file of this content."""
    file = folder / "model.safetensors"
    file.write_bytes(content)
    try:
        with safe_open(file, framework="np"):
            return True
    except SafetensorError:
        return False


@fuzz(150, st.tuples(DATA, st.sampled_from([None, 0, 2])))
def test_what_is_written_as_json_is_read_back(
    case: tuple[object, int | None], folder: Path
) -> None:
    data, indent = case
    written = dumped(data, indent)
    assert exact(parse_json(written, "c.json").data) == exact(data)
    assert exact(parse_json(json.dumps(data).encode(), "c.json").data) == exact(data)
    assert exact(parse_json(b"\xef\xbb\xbf" + written, "c.json").data) == exact(data)


@fuzz(150, st.tuples(YAML_DATA, st.sampled_from([None, 2])))
def test_json_means_the_same_as_yaml(case: tuple[object, int | None], folder: Path) -> None:
    data, indent = case
    assert exact(parse_yaml(dumped(data, indent), "c.yaml").data) == exact(data)


Place = tuple[str | int, ...]


def exact(data: object) -> str:
    """Data as a text that tells 1 from 1.0 and from true, and 0.0 from -0.0."""
    return repr(data)


def numbered(shape: object, path: Place, places: dict[Place, str]) -> object:
    """Data of this shape with a mark in each key and text, and the mark of each place."""
    if shape is None:
        return places.setdefault(path, f"m{len(places)}m")
    if isinstance(shape, list):
        return [numbered(inner, (*path, index), places) for index, inner in enumerate(shape)]
    assert isinstance(shape, tuple)
    data: dict[str, object] = {}
    for inner in shape:
        key = f"k{len(places)}k"
        places[*path, key] = key
        data[key] = numbered(inner, (*path, key), places)
    return data


@fuzz(200, st.tuples(SHAPES, st.sampled_from([None, 0, 1])))
def test_every_line_is_that_of_the_text(case: tuple[object, int | None], folder: Path) -> None:
    shape, indent = case
    places: dict[Place, str] = {}
    data = numbered(shape, (), places)
    written = dumped({"root": data}, indent)
    block = yaml.safe_dump({"root": data}, sort_keys=False, width=20).encode()
    for document, content in (
        (parse_json(written, "c.json"), written),
        (parse_yaml(written, "c.yaml"), written),
        (parse_yaml(block, "c.yaml"), block),
    ):
        lines = content.decode().splitlines()
        for path, mark in places.items():
            (line,) = (number for number, text in enumerate(lines, 1) if mark in text)
            assert document.line_of(("root", *path)) == line, (path, mark, content)


def test_the_entry_of_atheris_says_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    assert fuzz_readers.main() == 2
    assert capsys.readouterr().err == (
        "atheris is not installed; pip install atheris, or use make fuzz\n"
    )


def test_the_entry_gives_each_reader_its_inputs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inputs = [b"", *(bytes([first]) + b'{"a": 1}' for first in range(9))]
    atheris = ModuleType("atheris")
    targets: list[Callable[[bytes], None]] = []
    vars(atheris).update(
        Setup=lambda arguments, target: targets.append(target),
        Fuzz=lambda: [targets[0](content) for content in inputs],
    )
    monkeypatch.setitem(sys.modules, "atheris", atheris)
    assert fuzz_readers.main() == 0
