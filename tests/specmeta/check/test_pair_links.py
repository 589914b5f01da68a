"""A pair's directory whose models are links: inside it, or inside a directory that is allowed."""

from __future__ import annotations

import shutil
from pathlib import Path

from .running import DATA, QWEN, STATED, check


def test_models_that_are_linked_from_elsewhere_need_their_directory_allowed(
    tmp_path: Path,
) -> None:
    linked = tmp_path / "pair"
    linked.mkdir()
    for part in ("target", "drafter"):
        (linked / part).symlink_to(QWEN / part)
    refused = check(linked)
    assert refused.code == 2
    for part in ("target", "drafter"):
        place = (QWEN / part).resolve()
        message = f"{linked / part}: leads out of {linked}, to {place}; put the checkpoint itself "
        assert f"{message}there, or allow its directory with --root DIR" in refused.err
    assert check(linked, "--root", DATA, *STATED).code == 0


def test_a_link_within_the_pair_s_directory_is_followed(tmp_path: Path) -> None:
    linked = tmp_path / "pair"
    shutil.copytree(QWEN, linked / "models")
    for part in ("target", "drafter"):
        (linked / part).symlink_to(f"models/{part}")
    assert check(linked, *STATED).code == 0
