"""Files from disk: only regular ones, of a bounded size, inside the directory that is given."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from specmeta._files import (
    gguf_document,
    is_inside,
    parse_document,
    read_document,
    read_json_lines,
    read_stream,
    tensor_shapes,
)
from specmeta._files._reading import open_file

from .samples import refusal

CHECK = "check the path and its permissions"
MEANT = "pass the file that is meant"


class Broken(io.RawIOBase):
    """A stream whose device fails."""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError(5, "Input/output error")

    def readinto(self, buffer: object) -> int:
        raise OSError(5, "Input/output error")


def sparse(path: Path, size: int) -> Path:
    """A large file that takes no room."""
    path.touch()
    os.truncate(path, size)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.json", b'{"a": [1]}'),
        ("c.JSON", b'{"a": [1]}'),
        ("c.yaml", b"a:\n- 1"),
        ("c.yml", b'{"a": [1]}'),
        ("c.conf", b' \n{"a": [1]}'),
        ("c", b"\xef\xbb\xbf a: [1]"),
    ],
)
def test_a_document_is_read_by_its_suffix_or_its_beginning(
    tmp_path: Path, name: str, content: bytes
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    document = read_document(file)
    assert document.data == {"a": [1]}
    assert document.name == str(file)
    assert parse_document(content, "<stdin>", suffix=file.suffix).data == document.data


def test_a_text_that_begins_as_json_is_not_read_as_yaml() -> None:
    assert "is not valid JSON" in refusal(parse_document, b"{a: 1}", "<stdin>")
    assert parse_document(b"{a: 1}", "<stdin>", suffix=".yaml").data == {"a": 1}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "absent.json"
    assert (
        refusal(read_document, file)
        == f"{file}: cannot be read (No such file or directory); {CHECK}"
    )


def test_a_file_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "c.json"
    file.write_text("{}")

    def refuse(path: Path, mode: str) -> BinaryIO:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # permissions do not bind the superuser
    assert refusal(read_document, file) == f"{file}: cannot be read (Permission denied); {CHECK}"


def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    message = refusal(read_document, tmp_path / "a\0b")
    assert message == f"{tmp_path}/a\\x00b: cannot be read (no file can have this name); {CHECK}"
    assert not is_inside(tmp_path, tmp_path / "a\0b")
    assert "no file can have this name" in refusal(tensor_shapes, tmp_path / "a\0b")
    assert "cannot be read (File name too long)" in refusal(read_document, tmp_path / ("n" * 300))


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.symlink_to(two)
    two.symlink_to(one)
    for root in (None, tmp_path):
        message = refusal(read_document, one, root=root)
        assert message == f"{one}: cannot be read (Too many levels of symbolic links); {CHECK}"
    is_inside(tmp_path, one)  # whatever it is, it is no error


@pytest.mark.parametrize("kind", ["a directory", "a pipe", "a device", "a socket"])
def test_only_a_regular_file_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    file = tmp_path / "c.json"
    if kind == "a directory":
        file.mkdir()
    elif kind == "a pipe":
        os.mkfifo(file)  # opening it would wait for a writer
    elif kind == "a device":
        file.symlink_to("/dev/zero")  # reading it would not end
    else:
        monkeypatch.chdir(tmp_path)  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("c.json")
    message = refusal(read_document, file)
    assert message == f"{file}: is {kind}, not a regular file; pass the path of the file itself"


def test_an_unprintable_name_is_escaped_in_messages(tmp_path: Path) -> None:
    message = refusal(read_document, tmp_path / "a\n::error::\udcff\x1b.json")
    assert message.startswith(f"{tmp_path}/a\\n::error::\\udcff\\x1b.json: cannot be read")


def test_the_size_of_a_file_is_checked_before_it_is_read(tmp_path: Path) -> None:
    file = sparse(tmp_path / "c.json", 2**30)
    message = f"{file}: holds 1024 MiB, more than the limit of 16 MiB; {MEANT}"
    assert refusal(read_document, file) == message


def test_a_file_that_grows_is_read_up_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(b"12345")
    with open_file(file, limit=10) as stream:
        file.write_bytes(b"12345678901")
        message = refusal(read_stream, stream, "c.json", limit=10)
    assert message == f"c.json: holds more than the limit of 10 bytes; {MEANT}"


def test_no_more_of_a_stream_is_read_than_the_limit_and_one_byte() -> None:
    stream = io.BytesIO(b"x" * 100)
    message = refusal(read_stream, stream, "<stdin>", limit=10)
    assert message == f"<stdin>: holds more than the limit of 10 bytes; {MEANT}"
    assert stream.tell() == 11
    assert read_stream(io.BytesIO(b"x" * 10), "<stdin>", limit=10) == b"x" * 10


def test_a_stream_that_fails_is_named() -> None:
    stream = cast(BinaryIO, io.BufferedReader(Broken()))
    message = f"<stdin>: cannot be read (Input/output error); {CHECK}"
    assert refusal(read_stream, stream, "<stdin>") == message
    assert refusal(lambda: list(read_json_lines(stream, "<stdin>"))) == message


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("model.gguf", lambda folder: gguf_document(folder / "model.gguf")),
        ("model.safetensors", tensor_shapes),
        ("model.safetensors.index.json", tensor_shapes),
    ],
)
def test_a_file_whose_device_fails_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    read: Callable[[Path], object],
) -> None:
    (tmp_path / name).write_bytes(b"GGUF{}")
    monkeypatch.setattr(Path, "open", lambda path, mode: io.BufferedReader(Broken()))
    message = f"{tmp_path / name}: cannot be read (Input/output error); {CHECK}"
    assert refusal(read, tmp_path) == message


def test_a_file_outside_the_root_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "checkpoint", tmp_path / "secret.json"
    root.mkdir()
    outside.write_text("{}")
    (root / "config.json").symlink_to(outside)
    for path in (root / "config.json", root / ".." / "secret.json"):
        assert refusal(read_document, path, root=root) == (
            f"{path}: leads out of {root}, to {outside}; put the file itself into the directory"
        )
    assert read_document(root / "config.json").data == {}


def test_a_link_inside_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("[1]")
    (tmp_path / "config.json").symlink_to("real.json")
    assert read_document(tmp_path / "config.json", root=tmp_path).data == [1]
    alias = tmp_path.parent / f"{tmp_path.name}-alias"
    alias.symlink_to(tmp_path)
    assert read_document(alias / "config.json", root=alias).data == [1]
    alias.unlink()


def test_the_blobs_of_a_cached_repository_are_inside_its_snapshots(tmp_path: Path) -> None:
    repository, other = tmp_path / "models--a--b", tmp_path / "models--c--d"
    snapshot = repository / "snapshots" / "0123"
    (snapshot / "draft").mkdir(parents=True)
    for owner in (repository, other):
        (owner / "blobs").mkdir(parents=True)
        (owner / "blobs" / "abcd").write_text("{}")
    (snapshot / "config.json").symlink_to("../../blobs/abcd")
    (snapshot / "draft" / "config.json").symlink_to("../../../blobs/abcd")
    (snapshot / "other.json").symlink_to("../../../models--c--d/blobs/abcd")
    (snapshot / "up.json").symlink_to("../../up.json")
    (repository / "up.json").write_text("{}")
    assert read_document(snapshot / "config.json", root=snapshot).data == {}
    assert is_inside(snapshot, snapshot / "draft" / "config.json")
    assert is_inside(snapshot / "draft", snapshot / "draft" / "config.json")
    assert not is_inside(snapshot, snapshot / "other.json")
    assert not is_inside(snapshot, snapshot / "up.json")
    assert not is_inside(repository / "snapshots", other / "blobs" / "abcd")


def test_a_folder_is_only_a_cache_where_its_name_says_so(tmp_path: Path) -> None:
    (tmp_path / "revisions" / "0123").mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "abcd").write_text("{}")
    link = tmp_path / "revisions" / "0123" / "config.json"
    link.symlink_to("../../blobs/abcd")
    assert not is_inside(link.parent, link)
