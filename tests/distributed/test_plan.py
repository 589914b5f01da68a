from pathlib import Path
from typing import Any

import pytest

from specmeta import EngineConfig, RequestId
from specmeta_workers import Request
from specmeta_workers.distributed import PairSource, Part, Plan, Roles, ServerSpec, cut

ENGINE = EngineConfig.sized(
    max_num_requests=2,
    max_num_tokens=64,
    max_seq_len=128,
    dtype="float64",
    overlap_headroom=False,
    disaggregated=True,
)


def make_requests(count: int) -> list[Request]:
    return [Request(RequestId(1001 + i), (5, 6 + i), 4, (3,)) for i in range(count)]


def make_plan(**overrides: Any) -> Plan:
    fields: dict[str, Any] = {
        "source": PairSource(dtype="float64"),
        "roles": Roles(context_ranks=2, generation_ranks=3),
        "servers": [
            ServerSpec(label=f"K={k}", decoding_type="DSpark", draft_len=k, engine=ENGINE)
            for k in (0, 3)
        ],
        "parts": [Part(server, part) for part in cut(make_requests(5), 2) for server in (0, 1)],
        "timeout": 20,
    }
    return Plan(**{**fields, **overrides})


def test_a_saved_plan_is_read_as_it_was(tmp_path: Path) -> None:
    facts: dict[str, object] = {"target_layer_ids": [1, 3], "anchor_convention": "anchor_first"}
    source = PairSource(target=tmp_path, drafter=tmp_path / "d", stated=facts)
    plan = make_plan(source=source)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


def test_a_file_that_is_no_plan_is_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for text in ("", "[]", "{}", '{"source": {}, "roles": {"context_ranks": 0}}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"plan\.json: not a plan of this release"):
            Plan.load(path)


def test_each_server_gets_every_request_once() -> None:
    plan = make_plan()
    assert [len(part.requests) for part in plan.parts] == [2, 2, 2, 2, 1, 1]
    assert plan.request_ids(0) == plan.request_ids(1) == list(range(1001, 1006))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"timeout": 0}, "timeout: 0 is not a number of seconds from 1"),
        ({"timeout": float("nan")}, "timeout: nan is not"),
        ({"device": "tpu"}, "device: 'tpu' is neither"),
        ({"parts": [Part(2, make_requests(1))]}, r"parts\[0\]: server 2 is not from 0 to 1"),
        (
            {"parts": [Part(0, make_requests(1)), Part(0, make_requests(2))]},
            r"parts\[1\]: request 1001 was given to 'K=0' before",
        ),
        ({"servers": make_plan().servers[:1] * 2}, "repeats a label"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_plan(**overrides)


def test_a_source_is_two_directories_or_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="target and drafter belong together"):
        PairSource(target=tmp_path)


def test_context_ranks_come_first() -> None:
    roles = Roles(context_ranks=2, generation_ranks=3)
    assert [roles.name(rank) for rank in range(roles.world_size)] == [
        "context rank 0",
        "context rank 1",
        "generation rank 2",
        "generation rank 3",
        "generation rank 4",
    ]


def test_requests_are_spread_over_both_kinds_of_ranks_and_all_their_pairs() -> None:
    roles = Roles(context_ranks=2, generation_ranks=2)
    owners = [(roles.context_rank_of(i), roles.generation_rank_of(i)) for i in range(4)]
    assert set(owners) == {(0, 2), (0, 3), (1, 2), (1, 3)}


@pytest.mark.parametrize("field", ["context_ranks", "generation_ranks"])
@pytest.mark.parametrize("value", [0, -1, 1.0, True])
def test_a_role_without_a_rank_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field}: {value} is not an int of at least 1"):
        Roles(**{field: value})
