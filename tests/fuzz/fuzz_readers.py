"""Coverage-guided fuzzing of the file readers, with atheris (optional, Linux and macOS).

    make fuzz-atheris
    python tests/fuzz/fuzz_readers.py -max_total_time=600 [CORPUS]

The first installs atheris and runs the second in `build/fuzz`. The first byte of an input chooses
the reader, the rest is the file. Every option is libFuzzer's. An input that breaks a reader is left
in the working directory as ``crash-HASH``; to run it again, pass its path. `make fuzz` looks for
such inputs with hypothesis, without anything to install.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specmeta._files import Document

Reader = Callable[[bytes, Path], object]
"""Reads a file of this content; the path is one that it may write to and read."""


def readers() -> Mapping[str, Reader]:
    """Every reader of untrusted files by name. Each raises `InputError`, or gives plain data."""
    from specmeta._files import (
        gguf_document,
        parse_document,
        parse_json,
        parse_yaml,
        read_json_lines,
        tensor_shapes,
    )

    def lines(content: bytes, path: Path) -> object:
        return [_checked(each) for each in read_json_lines(io.BytesIO(content), "fuzz.jsonl")]

    def gguf(content: bytes, path: Path) -> object:
        file = path / "model.gguf"
        file.write_bytes(content)
        return _checked(gguf_document(file))

    def safetensors(content: bytes, path: Path) -> object:
        file = path / "model.safetensors"
        file.write_bytes(content)
        shapes = tensor_shapes(path)
        file.unlink()
        return shapes

    def index(content: bytes, path: Path) -> object:
        (path / "model.safetensors").unlink(missing_ok=True)
        (path / "model.safetensors.index.json").write_bytes(content)
        return tensor_shapes(path)

    return {
        "json": lambda content, path: _checked(parse_json(content, "fuzz.json")),
        "yaml": lambda content, path: _checked(parse_yaml(content, "fuzz.yaml")),
        "either": lambda content, path: _checked(parse_document(content, "fuzz")),
        "lines": lines,
        "gguf": gguf,
        "safetensors": safetensors,
        "index": index,
    }


def _checked(document: Document) -> object:
    """The data of a document, which any report can print."""
    json.dumps(document.data, ensure_ascii=False, allow_nan=False).encode()
    line = document.line_of(())
    assert line is None or line >= 1
    return document.data


def run(reader: Reader, content: bytes, path: Path) -> object:
    """What the reader gives, None where it refuses the content as it should."""
    from specmeta._findings import InputError

    try:
        return reader(content, path)
    except InputError as error:
        if not str(error).isprintable():
            raise AssertionError(f"a message is not printable: {str(error)!a}") from error
        return None


def main() -> int:
    """Run atheris until it finds something or its time is over."""
    try:
        atheris = import_module("atheris")
    except ImportError:
        print("atheris is not installed; pip install atheris, or use make fuzz", file=sys.stderr)
        return 2
    with getattr(atheris, "instrument_imports", nullcontext)():
        every = list(readers().values())
    with tempfile.TemporaryDirectory() as folder:

        def target(data: bytes) -> None:
            if data:
                run(every[data[0] % len(every)], data[1:], Path(folder))

        atheris.Setup(sys.argv, target)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
