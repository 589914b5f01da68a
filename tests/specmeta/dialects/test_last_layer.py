"""A last layer that a file leaves out, and its engine captures, is stated with the others."""

from __future__ import annotations

import pytest

from specmeta import DSparkDrafterConfig, TargetConfig
from specmeta._dialects import check_weights, expected_tensors, read_drafter, read_target

from .reading import QWEN, SPECULATORS, TARGET, changed, drafter, problems, published, typed

_INPUTS = [2, 10, 18, 26, 34]
_OUTPUTS = [1, 9, 17, 25, 33]


@pytest.mark.parametrize("beside", [True, False], ids=["target known", "target unknown"])
@pytest.mark.parametrize(
    ("folder", "ids", "last"), [(SPECULATORS, _INPUTS, 36), (QWEN, _OUTPUTS, 35)]
)
def test_the_last_layer_may_be_added_to_the_files(
    folder: str, ids: list[int], last: int, *, beside: bool
) -> None:
    target = published(TARGET) if beside else None
    config = drafter(published(folder), target=target, stated={"target_layer_ids": [*ids, last]})
    assert config.target_layer_ids == (*ids, last)
    assert config.layers_to_capture[-1] == 35
    assert config.layer_id_convention == drafter(published(folder)).layer_id_convention


@pytest.mark.parametrize(
    "ids",
    [[*_INPUTS, 35], [*_INPUTS, 37], [*_INPUTS, 35, 36], [3, *_INPUTS[1:], 36], [36], []],
)
def test_no_other_layer_may_be_added(ids: list[int]) -> None:
    options = {"target": published(TARGET), "stated": {"target_layer_ids": ids}}
    assert problems(published(SPECULATORS), **options)[0].rule == "facts_disagree"


def test_a_layer_that_is_no_number_is_not_the_last_one() -> None:
    stated = {"target_layer_ids": [*_INPUTS, "36"]}
    found = problems(published(SPECULATORS), target=published(TARGET), stated=stated)
    assert found[0].rule == "facts_disagree"


def _found(folder: str, planes: int, stated: dict[str, object] | None = None) -> list[str]:
    document, target = published(folder), published(TARGET)
    reading = read_drafter(document, target=target, stated=stated or {})
    shapes = {n: tuple(x or 1 for x in s) for n, s in expected_tensors(reading).items()}
    shapes["fc.weight"] = (4096, planes * 4096)
    tensors = {name: typed(name, shape) for name, shape in shapes.items()}
    sizes = read_target(target).config
    assert isinstance(sizes, TargetConfig)
    return [str(found) for found in check_weights(reading, tensors, target=sizes)]


@pytest.mark.parametrize(
    ("folder", "ids"), [(SPECULATORS, "[2,10,18,26,34,36]"), (QWEN, "[1,9,17,25,33,35]")]
)
def test_a_projection_with_one_plane_more_tells_what_to_state(folder: str, ids: str) -> None:
    (told,) = _found(folder, 6)
    assert "6 planes of 4096, and 5 layer ids: the target's last layer may be implied" in told
    assert f"--state target_layer_ids={ids}" in told
    assert "[projection_width_differs]" in told
    assert _found(folder, 6, {"target_layer_ids": [int(i) for i in ids[1:-1].split(",")]}) == []


def test_other_widths_suggest_nothing() -> None:
    for planes in (4, 7):
        (told,) = _found(SPECULATORS, planes)
        assert "--state" not in told


def test_a_last_layer_that_is_listed_is_not_suggested_again() -> None:
    reading = read_drafter(changed(QWEN, {"target_layer_ids": [1, 35]}))
    assert isinstance(reading.config, DSparkDrafterConfig)
    tensors = {"fc.weight": typed("fc.weight", (4096, 3 * 4096))}
    target = read_target(published(TARGET)).config
    found = check_weights(reading, tensors, target=target)
    assert not any("--state" in told.remedy for told in found)
