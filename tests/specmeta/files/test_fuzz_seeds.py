"""The corpus that atheris begins from: every reader has valid files in it."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.fuzz_readers import readers, run
from tests.fuzz.write_seeds import main


def test_every_reader_has_seeds_that_it_reads(tmp_path: Path) -> None:
    corpus, folder = tmp_path / "corpus", tmp_path / "folder"
    main(corpus)
    folder.mkdir()
    every = list(readers().items())
    read = set()
    for seed in corpus.iterdir():
        content = seed.read_bytes()
        name, reader = every[content[0]]
        assert seed.name.startswith(name)
        if run(reader, content[1:], folder) is not None:
            read.add(name)
    assert read == {*readers()} - {"index"}  # the shards of an index are not there
