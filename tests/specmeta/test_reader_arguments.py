"""Arguments of another type to the public readers: a TypeError that says what to pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specmeta import read_deployment, read_drafter_config
from tests.specmeta.check.running import QWEN, write


@pytest.mark.parametrize("stated", [3, {1: 2}, [], "block_size=7", [("block_size", 7)]])
def test_stated_facts_are_given_by_name(stated: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^stated is .*; pass facts by name, as \{'block_size': 7\}"
    ):
        read_drafter_config(QWEN, stated=stated)


@pytest.mark.parametrize("roots", [3, "models", Path("models"), ["models"], {Path("models")}, None])
def test_roots_are_directories(tmp_path: Path, roots: Any) -> None:
    path = write(tmp_path / "deployment.yaml")
    with pytest.raises(
        TypeError, match=r"^roots is .*; pass a sequence of pathlib.Path directories"
    ):
        read_deployment(path, roots=roots)
    assert read_deployment(path, roots=[tmp_path]) == read_deployment(path)
