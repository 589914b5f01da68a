"""The bench's settings as a plan; processes are started by test_launch alone."""

from typing import Any

import pytest

from specmeta_workers import Pair, default_engine, load_bundled
from specmeta_workers.bench import AcceptLengthOptions
from specmeta_workers.bench._runner import serve
from specmeta_workers.distributed import (
    PairSource,
    Plan,
    Roles,
    Served,
    _bench,
    plan_of,
    serve_distributed,
)
from tests.distributed.test_ranks import alone

SOURCE = PairSource(dtype="float64")
ROLES = Roles(generation_ranks=2)
OPTIONS = AcceptLengthOptions(
    decoding_types=("DSpark",),
    draft_lens=(3,),
    batches=(1, 2),
    modes=("disaggregated",),
    requests=18,
    new_tokens=6,
)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_bundled(engine=default_engine("float64"))


def test_a_part_fills_every_rank_and_is_served_by_each_setting_before_the_next(pair: Pair) -> None:
    plan = plan_of([pair], SOURCE, OPTIONS, roles=ROLES, timeout=7)
    assert [(part.server, len(part.requests)) for part in plan.parts] == [
        *((0, 16), (1, 16), (0, 2), (1, 2)),
        *((2, 16), (3, 16), (2, 2), (3, 2)),
    ]
    assert [server.engine.max_num_requests for server in plan.servers] == [1, 1, 2, 2]
    assert [server.draft_len for server in plan.servers] == [0, 3, 0, 3]
    assert (plan.timeout, plan.roles) == (7, ROLES)


def test_runs_are_those_of_a_single_process(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(plan: Plan, on_result: Any, folder: None) -> dict[str, Served]:
        served = {}
        for number, spec in enumerate(plan.servers):
            parts = [part for part in plan.parts if part.server == number]
            results = [r for part in parts for r in alone(pair, spec, list(part.requests))]
            for result in results:
                on_result(spec.label, result)
            served[spec.label] = Served(results, [6 * len(p.requests) for p in parts], [2.0, 0.5])
        return served

    monkeypatch.setattr(_bench, "launch", launch)
    told: list[tuple[str, int]] = []
    runs = serve_distributed([pair], SOURCE, OPTIONS, lambda *news: told.append(news), roles=ROLES)
    expected = serve([pair], OPTIONS, range(18))
    assert list(runs) == list(expected)
    for setting, run in runs.items():
        assert run.setting == setting
        assert run.results == expected[setting].results
        assert (run.tokens, run.seconds, run.paces) == (108, 2.5, [48.0, 24.0])
        assert told.count((str(setting), 6)) == 18


def test_only_disaggregated_serving_can_be_distributed(pair: Pair) -> None:
    options = AcceptLengthOptions(decoding_types=("DSpark",), requests=2, batches=(1,))
    with pytest.raises(ValueError, match="modes: aggregated, disaggregated, but context and gener"):
        serve_distributed([pair], SOURCE, options, roles=ROLES)
