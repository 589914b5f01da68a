"""Rules that a deployment breaks on purpose, and artefacts that were compiled for it."""

from typing import Any

import pytest

from specmeta import CompileKey, Deployment, RuleOverride, ValidationError, get_spec_metadata
from specmeta._deployment_rules import READS
from specmeta._overrides import MOST_OVERRIDES
from specmeta._rules import RULES
from specmeta.testing import make_deployment, make_dspark_metadata

BLOCK = RuleOverride(rule="draft_beyond_block", reason="measured: 4.4 tokens a step")
OVERRIDABLE = sorted(rule.name for rule in RULES.values() if rule.overridable)
# How each overridable rule of a deployment is broken.
BROKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "draft_beyond_block": ("DSpark", {"block_size": 5}),
    "draft_beyond_mtp_layers": ("MTP", {"drafter": {"num_layers": 2}}),
    "max_seq_len_beyond_positions": ("DFlash", {"max_seq_len": 600}),
    "window_not_supported": ("DSpark", {"supported_window_sizes": (128,)}),
    "state_beyond_memory_limit": ("DSpark", {"state_memory_limit": 1}),
}


def lines(**overrides: Any) -> list[tuple[str, tuple[str | int, ...], str]]:
    with pytest.raises(ValidationError) as caught:
        make_deployment(**overrides)
    return [(e["type"], e["loc"], e["msg"].split("; ")[0]) for e in caught.value.errors()]


def test_the_table_has_every_overridable_rule_of_a_deployment() -> None:
    assert BROKEN.keys() <= set(OVERRIDABLE)


@pytest.mark.parametrize("rule", BROKEN)
def test_an_error_is_accepted_by_name_and_shown_with_its_reason(rule: str) -> None:
    kind, broken = BROKEN[rule]
    decoding_type: Any = kind
    with pytest.raises(ValidationError) as caught:
        make_deployment(decoding_type, **broken)
    messages = [line["msg"] for line in caught.value.errors()]
    override = RuleOverride(rule=rule, reason="tried here")
    deployment = make_deployment(decoding_type, **broken, overrides=(override,))
    findings = deployment.findings()
    assert [f.message for f in findings] == messages
    assert {(f.rule, f.severity, f.reason) for f in findings} == {
        (rule, "overridden", "tried here")
    }
    assert findings[0].reports == RULES[rule].reports


def test_an_override_leaves_the_other_rules() -> None:
    found = lines(block_size=5, max_num_tokens=10, overrides=(BLOCK,))
    assert [kind for kind, _, _ in found] == ["max_num_tokens_too_small"]


@pytest.mark.parametrize(
    ("names", "index", "fact"),
    [
        (("draft_beyond_blok",), 0, "'draft_beyond_blok' is no rule"),
        (("max_num_tokens_too_small",), 0, "'max_num_tokens_too_small' cannot be overridden"),
        (("positions_not_stated",), 0, "'positions_not_stated' cannot be overridden"),
    ],
)
def test_an_override_that_would_change_nothing_is_refused(
    names: tuple[str, ...], index: int, fact: str
) -> None:
    overrides = tuple(RuleOverride(rule=name, reason="why not") for name in names)
    found = lines(block_size=5, overrides=(BLOCK, *overrides) if index == 0 else overrides)
    place = index + (index == 0)
    assert found == [
        ("override_invalid", ("overrides", place), f"overrides[{place}]: {fact}"),
    ]


def test_a_rule_is_overridden_once_and_shown_with_the_first_reason() -> None:
    again = RuleOverride(rule="draft_beyond_block", reason="another")
    with pytest.raises(ValidationError) as caught:
        make_deployment(block_size=5, overrides=(BLOCK, again))
    (line,) = caught.value.errors()
    assert (line["type"], line["loc"]) == ("override_repeated", ("overrides", 1))
    assert line["msg"] == (
        "overrides[1]: 'draft_beyond_block' is overridden by overrides[0] already; keep one of them"
    )


def test_no_more_overrides_are_taken_than_make_sense() -> None:
    assert len(OVERRIDABLE) < MOST_OVERRIDES
    many = tuple(RuleOverride(rule="no_rule", reason=str(i)) for i in range(20_000))
    found = lines(overrides=many)
    assert [(kind, loc) for kind, loc, _ in found] == [("too_long", ("overrides",))]


def test_the_table_of_what_overridable_rules_read_is_complete() -> None:
    assert {*READS} == {*OVERRIDABLE} == {*BROKEN}


def test_an_invalid_override_does_not_hide_the_violation() -> None:
    wrong = RuleOverride(rule="max_num_tokens_too_small", reason="why not")
    found = lines(max_num_tokens=10, overrides=(wrong,))
    assert [kind for kind, _, _ in found] == ["override_invalid", "max_num_tokens_too_small"]


@pytest.mark.parametrize("field", ["rule", "reason"])
@pytest.mark.parametrize("text", ["", "  ", 5, None])
def test_an_override_has_a_rule_and_a_reason(field: str, text: object) -> None:
    fields: dict[str, Any] = {"rule": "draft_beyond_block", "reason": "measured", field: text}
    with pytest.raises(ValidationError) as caught:
        RuleOverride(**fields)
    (line,) = caught.value.errors()
    assert line["loc"] == (field,)


def test_an_override_that_is_not_needed_is_a_warning() -> None:
    (finding,) = make_deployment(overrides=(BLOCK,)).findings()
    assert (finding.rule, finding.severity) == ("override_unused", "warning")
    assert (finding.field, finding.index) == ("overrides", 0)
    assert finding.message == (
        "overrides[0]: 'draft_beyond_block' is not broken; remove the override"
    )


@pytest.mark.parametrize(
    ("convention", "checkpoint", "draft_len", "running"),
    [
        ("anchor_first", 5, 7, 7),
        ("anchor_first", 7, 7, 7),
        ("anchor_first", 7, 3, 7),
        ("mask_at_position", 5, 7, 8),
        ("mask_at_position", 8, 7, 8),
    ],
)
def test_the_block_that_runs_yields_the_drafts(
    convention: str, checkpoint: int, draft_len: int, running: int
) -> None:
    deployment = make_deployment(
        block_size=checkpoint,
        anchor_convention=convention,
        max_draft_len=draft_len,
        overrides=(BLOCK,),
    )
    assert deployment.block_size == running
    metadata = make_dspark_metadata(deployment)
    assert (metadata.block_size, metadata.max_draft_len) == (running, draft_len)
    built = get_spec_metadata(
        deployment, request_ids=(), num_contexts=0, seq_lens=(), context_positions=(), num_padding=1
    )
    assert built.model_dump()["block_size"] == running
    assert make_deployment("MTP").block_size is None


def test_overrides_and_the_compile_key_survive_json() -> None:
    deployment = make_deployment(block_size=5, overrides=(BLOCK,))
    stored = deployment.model_copy(update={"compiled_for": deployment.compile_key})
    again = Deployment.model_validate_json(stored.model_dump_json())
    assert again == stored
    assert again.findings() == deployment.findings()


def test_artefacts_of_the_same_deployment_are_accepted() -> None:
    for kind in ("DSpark", "DFlash", "MTP"):
        decoding_type: Any = kind
        key = make_deployment(decoding_type).compile_key
        text = key.model_dump_json()
        assert CompileKey.model_validate_json(text) == key
        assert make_deployment(decoding_type, compiled_for=key).findings() == ()


@pytest.mark.parametrize(
    ("change", "field", "fact"),
    [
        ({"max_draft_len": 6}, "max_draft_len", "7 is not this deployment's max_draft_len (6)"),
        ({"dtype": "bfloat16"}, "dtype", "'float32' is not this deployment's dtype ('bfloat16')"),
        (
            {"target_layer_ids": (1, 2)},
            "layers_to_capture",
            "(0, 2) is not this deployment's layers_to_capture ((1, 2))",
        ),
        ({"sliding_window": 64}, "window_size", "32 is not this deployment's window_size (64)"),
        ({"block_size": 8}, "block_size", "7 is not this deployment's block_size (8)"),
        (
            {"block_size": 8, "anchor_convention": "mask_at_position"},
            "anchor_convention",
            "'anchor_first' is not this deployment's anchor_convention ('mask_at_position')",
        ),
        (
            {"window_causality": "causal"},
            "window_causality",
            "'non_causal' is not this deployment's window_causality ('causal')",
        ),
    ],
)
def test_artefacts_that_were_compiled_for_other_shapes_are_refused(
    change: dict[str, Any], field: str, fact: str
) -> None:
    key = make_deployment().compile_key
    found = lines(**change, compiled_for=key)
    expected = ("compiled_for_other", ("compiled_for", field), f"compiled_for.{field}: {fact}")
    assert expected in found
    others = [location for kind, location, _ in found if location[-1] != field]
    assert others == ([("compiled_for", "block_size")] if field == "anchor_convention" else [])


def test_artefacts_of_another_method_are_refused() -> None:
    found = lines(compiled_for=make_deployment("DFlash", max_draft_len=6).compile_key)
    assert [location[-1] for _, location, _ in found] == [
        "decoding_type",
        "max_draft_len",
        "anchor_convention",
    ]


def test_what_changes_no_computation_keeps_the_key() -> None:
    key = make_deployment().compile_key
    for change in ({"max_num_requests": 4}, {"max_seq_len": 200}, {"use_rejection_sampling": True}):
        overrides: dict[str, Any] = change
        assert make_deployment(**overrides).compile_key == key
