"""The roles as threads: what each step is told, idle ranks, and the results."""

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from specmeta import DSparkSpecMetadata, EngineConfig, RequestId
from specmeta_workers import (
    DraftOutput,
    DSparkWorker,
    Executor,
    Pair,
    Request,
    RequestResult,
    TargetRunner,
    default_engine,
    load_bundled,
)
from specmeta_workers.distributed import (
    Mailbox,
    PairSource,
    Part,
    Plan,
    RankLostError,
    Roles,
    Served,
    ServerSpec,
    _ranks,
    read_journal,
)
from specmeta_workers.distributed._journal import JournalWriter
from specmeta_workers.distributed._parts import Coordinator, Follower
from tests.distributed.group_cases import in_threads, make_groups

NEW_TOKENS = 12
ENGINE = EngineConfig.sized(
    max_num_requests=2,
    max_num_tokens=256,
    max_seq_len=128,
    dtype="float64",
    overlap_headroom=False,
    disaggregated=True,
)
SPECULATIVE = ServerSpec(label="K=3", decoding_type="DSpark", draft_len=3, engine=ENGINE)
PLAIN = ServerSpec(label="plain", decoding_type="DSpark", draft_len=0, engine=ENGINE)


class Recorder(DSparkWorker):
    """Keeps the metadata of its steps."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.steps: list[DSparkSpecMetadata] = []
        self.seeds: list[DSparkSpecMetadata] = []

    def forward(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> DraftOutput:
        self.steps.append(metadata)
        return super().forward(metadata, **tensors)

    def seed(self, metadata: DSparkSpecMetadata, **tensors: Tensor) -> DraftOutput:
        self.seeds.append(metadata)
        return super().seed(metadata, **tensors)


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    """One a rank: a target has the hooks of one rank."""
    return [load_bundled(engine=default_engine("float64")) for _ in range(4)]


def make_requests(pair: Pair, count: int) -> list[Request]:
    return [
        Request(RequestId(1001 + 13 * i), pair.prompts[i].token_ids, NEW_TOKENS)
        for i in range(count)
    ]


def run_plan(
    plan: Plan,
    pairs: list[Pair],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[dict[str, Served], list[Recorder]]:
    workers: dict[Any, Recorder] = {}

    def make_worker(deployment: Any, draft_model: Any, device: Any) -> Recorder:
        return workers.setdefault(draft_model, Recorder(deployment, draft_model, device))

    monkeypatch.setattr(_ranks, "make_worker", make_worker)
    roles = plan.roles
    everybody = make_groups(roles.world_size, 4 * plan.timeout)
    generations = make_groups(roles.generation_ranks, plan.timeout)
    journal = JournalWriter(path)

    def serve(rank: int) -> None:
        mailbox = Mailbox(everybody[rank], roles, rank, plan.timeout)
        parts = Coordinator(mailbox, journal) if rank == 0 else Follower(mailbox)
        mine: Any = {"DSpark": pairs[rank]}
        try:
            if rank in roles.contexts:
                _ranks.serve_contexts(plan, mine, rank, mailbox, parts)
            else:
                group = generations[roles.generations.index(rank)]
                _ranks.serve_generations(plan, mine, rank, mailbox, parts, group)
        except Exception as error:
            mailbox.give_up(error)
            raise
        mailbox.close()

    try:
        in_threads([lambda rank=rank: serve(rank) for rank in range(roles.world_size)])  # type: ignore[misc]
    finally:
        journal.close()
    models = [pairs[rank].draft_model for rank in roles.generations]
    return read_journal(path, plan), [workers[model] for model in models if model in workers]


def alone(pair: Pair, spec: ServerSpec, requests: list[Request]) -> list[RequestResult]:
    deployment = spec.deployment({"DSpark": pair})
    target = TargetRunner.for_deployment(pair.target, deployment)
    worker = DSparkWorker(deployment, pair.draft_model) if spec.draft_len else None
    try:
        return Executor(deployment, target, worker).run(requests)
    finally:
        target.close()


def make_plan(roles: Roles, servers: list[ServerSpec], parts: list[Part]) -> Plan:
    return Plan(
        source=PairSource(dtype="float64"), roles=roles, servers=servers, parts=parts, timeout=60
    )


def test_results_equal_a_single_executor_with_two_ranks_of_each_role(
    pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = make_requests(pairs[0], 9)
    parts = [Part(s, part) for part in (requests[:6], requests[6:]) for s in (0, 1)]
    plan = make_plan(Roles(context_ranks=2, generation_ranks=2), [PLAIN, SPECULATIVE], parts)
    served, _ = run_plan(plan, pairs, tmp_path / "journal", monkeypatch)
    for spec in (PLAIN, SPECULATIVE):
        assert served[spec.label].results == alone(pairs[0], spec, requests)
        assert served[spec.label].tokens == [6 * NEW_TOKENS, 3 * NEW_TOKENS]
        assert all(seconds > 0 for seconds in served[spec.label].seconds)


def test_every_step_knows_the_rows_of_all_generation_ranks(
    pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = make_requests(pairs[0], 5)  # the first rank gets 3 of them, one more than it seats
    plan = make_plan(Roles(generation_ranks=2), [SPECULATIVE], [Part(0, requests)])
    _, workers = run_plan(plan, pairs, tmp_path / "journal", monkeypatch)
    steps = list(zip(*(worker.steps for worker in workers), strict=True))
    assert len(steps) > 4
    for step in steps:
        counts = tuple(metadata.num_generations for metadata in step)
        assert [m.all_rank_num_generations for m in step] == [counts, counts]
    assert max(m.num_generations for m in workers[0].steps) == 2
    # What a rank does alone, seeding, is no step of all.
    assert all(m.all_rank_num_generations is None for w in workers for m in w.seeds)


def test_an_idle_rank_runs_one_padding_row_in_each_step(
    pairs: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = make_requests(pairs[0], 1)
    plan = make_plan(Roles(generation_ranks=2), [SPECULATIVE], [Part(0, requests)])
    served, (busy, idle) = run_plan(plan, pairs, tmp_path / "journal", monkeypatch)
    iterations = served["K=3"].results[0].decode_iterations
    assert len(busy.steps) == len(idle.steps) == iterations
    for metadata in idle.steps:
        assert (metadata.request_ids, metadata.num_padding) == ((), 1)
        assert metadata.all_rank_num_generations == (1, 0)
    assert [m.all_rank_num_generations for m in busy.steps] == [(1, 0)] * iterations


@pytest.mark.parametrize("place", [0, 1])
def test_a_request_that_cannot_be_served_fails_every_rank_with_its_reason(
    pairs: list[Pair],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: int,
) -> None:
    requests = make_requests(pairs[0], 2)
    requests[place] = Request(RequestId(7), (1, 2), 9999)
    plan = make_plan(Roles(), [SPECULATIVE], [Part(0, requests)])
    with pytest.raises((ValueError, RankLostError), match="request 7: 2 prompt tokens and max_new"):
        run_plan(plan, pairs, tmp_path / "journal", monkeypatch)


def test_a_server_of_another_method_than_the_pair_is_refused(pairs: list[Pair]) -> None:
    spec = ServerSpec(label="x", decoding_type="MTP", draft_len=3, engine=ENGINE)
    with pytest.raises(ValueError, match="server 'x': its decoding_type is MTP, but the pairs are"):
        spec.deployment({"DSpark": pairs[0]})
