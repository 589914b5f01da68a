"""A checkpoint of DeepSpec's class without heads is DSpark, though it is published as DFlash."""

from __future__ import annotations

from specmeta import DFlashDecodingConfig, DSparkDecodingConfig
from specmeta._deployment_rules import method
from specmeta._findings import findings_of_lines

from .reading import NO_MARKOV, QWEN, drafter, published

_WHY = "the class of its checkpoint is DSpark's, with markov_rank 0 and no head"


def test_the_message_says_why_its_type_is_another_one() -> None:
    config = drafter(published(NO_MARKOV), stated={"anchor_convention": "anchor_first"})
    chosen = DFlashDecodingConfig(max_draft_len=7)
    (found,) = findings_of_lines(method(config, chosen))
    assert found.rule == "decoding_type_differs"
    assert found.fact == f"DFlash is not the drafter's type (DSpark): {_WHY}"
    assert found.remedy == "use the decoding config of the drafter's type"
    assert [*method(config, DSparkDecodingConfig(max_draft_len=7))] == []


def test_a_drafter_with_heads_is_plainly_of_another_type() -> None:
    chosen = DFlashDecodingConfig(max_draft_len=7)
    (found,) = findings_of_lines(method(drafter(published(QWEN)), chosen))
    assert found.fact == "DFlash is not the drafter's type (DSpark)"
