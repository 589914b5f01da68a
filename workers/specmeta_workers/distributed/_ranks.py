"""What a rank serves: it runs prompts and hands over, or decodes under attention DP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._context_server import ContextServer
from .._generation_server import GenerationServer
from .._handover import Handover
from .._methods import make_worker
from .._target import TargetRunner
from ._gather import StepGather
from ._mailbox import Kind, Mailbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from specmeta import DecodingType, Deployment

    from .._pairs import Pair
    from ._parts import Parts
    from ._plan import Part, Plan, ServerSpec

    Pairs = dict[DecodingType, Pair]

_IDLE_SECONDS = 0.01


def serve_contexts(plan: Plan, pairs: Pairs, rank: int, mailbox: Mailbox, parts: Parts) -> None:
    """Run this context rank's prompts of every part, and hand each to the rank that decodes it.

    Raises:
        RankLostError: another rank is lost.
        ExecutorStoppedError: a step failed.
        ValueError: a request that the servers refuse.

    """
    roles = plan.roles

    def build(spec: ServerSpec, deployment: Deployment, target: TargetRunner) -> ContextServer:
        del spec
        return ContextServer(deployment, target)

    def serve(server: ContextServer, part: Part) -> None:
        owner = {r.request_id: roles.generation_rank_of(i) for i, r in enumerate(part.requests)}
        for index, request in enumerate(part.requests):
            if roles.context_rank_of(index) == rank:
                server.submit(request)
        while server.unfinished:
            for outcome in server.step():
                if isinstance(outcome, Handover):
                    peer = owner[outcome.request.request_id]
                    mailbox.send(peer, Kind.HANDOVER, outcome.to_bytes())
                else:
                    parts.report([outcome])
            parts.poll()
        for peer in roles.generations:
            mailbox.send(peer, Kind.LAST_HANDOVER)

    _serve_parts(plan, pairs, parts, build, serve)


def serve_generations(
    plan: Plan, pairs: Pairs, rank: int, mailbox: Mailbox, parts: Parts, group: Any
) -> None:
    """Decode this generation rank's requests, each step together with the other ranks of `group`.

    Raises:
        RankLostError: another rank is lost.
        ExecutorStoppedError: a step failed.
        ValueError: a hand-over does not fit.

    """
    roles = plan.roles
    device = next(iter(pairs.values())).target.device
    gather = StepGather(
        group, roles.generations.index(rank), roles.generation_ranks, mailbox, device
    )

    def build(spec: ServerSpec, deployment: Deployment, target: TargetRunner) -> GenerationServer:
        if not spec.draft_len:
            return GenerationServer(deployment, target, None)
        draft_model = pairs[spec.decoding_type].draft_model
        worker = make_worker(deployment, draft_model, target.device)
        if spec.fault is not None:
            from ..bench._faults import with_default_slot

            worker = with_default_slot(worker)
        return GenerationServer(deployment, target, worker)

    def serve(server: GenerationServer, _: Part) -> None:
        most = server.deployment.engine.max_num_requests
        waiting_for = roles.context_ranks
        idle = False
        while True:
            # Idle means that no rank has rows: wait here, not in the next gather.
            message = mailbox.take(_IDLE_SECONDS if idle else 0.0)
            while message is not None:
                if message.kind is Kind.LAST_HANDOVER:
                    waiting_for -= 1
                else:
                    server.receive(Handover.from_bytes(message.body))
                message = mailbox.take()
            own = server.admit()
            finished = not waiting_for and not server.unfinished
            gathered = gather(own, most, finished=finished)
            if gathered.is_end:
                return
            idle = not any(gathered.num_generations)
            if not idle:
                parts.report(server.decode(gathered.num_generations))

    _serve_parts(plan, pairs, parts, build, serve)


def _serve_parts(
    plan: Plan,
    pairs: Pairs,
    parts: Parts,
    build: Callable[[ServerSpec, Deployment, TargetRunner], Any],
    serve: Callable[[Any, Part], None],
) -> None:
    """Serve the parts in order, with servers that are built when they are first needed.

    Servers of one engine run in turn, so those that capture the same layers share a target runner.
    They live until a part asks for another engine.
    """
    targets: dict[object, TargetRunner] = {}
    servers: dict[int, Any] = {}
    engine: object = None
    try:
        for number, part in enumerate(plan.parts):
            spec = plan.servers[part.server]
            deployment = spec.deployment(pairs)
            if deployment.engine != engine:
                _close(targets)
                servers.clear()
                engine = deployment.engine
            layers = deployment.layers_to_capture
            if layers not in targets:
                model = pairs[spec.decoding_type].target
                targets[layers] = TargetRunner.for_deployment(model, deployment)
            if part.server not in servers:
                servers[part.server] = build(spec, deployment, targets[layers])
            parts.begin(number)
            serve(servers[part.server], part)
        parts.end()
    finally:
        _close(targets)


def _close(targets: dict[object, TargetRunner]) -> None:
    for target in targets.values():
        target.close()
    targets.clear()
