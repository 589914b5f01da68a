"""The accept-length bench over several processes: its settings as a plan, what came as its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..bench._runner import Run, deployment_of, part_size, request_of, settings
from ._launch import launch
from ._plan import Part, Plan, ServerSpec, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from .._pairs import Pair
    from .._requests import RequestResult
    from ..bench._options import AcceptLengthOptions
    from ..bench._runner import Setting
    from ._journal import Served
    from ._plan import PairSource
    from ._roles import Roles


def serve_distributed(
    pairs: Sequence[Pair],
    source: PairSource,
    options: AcceptLengthOptions,
    on_progress: Callable[[str, int], None] | None = None,
    *,
    roles: Roles,
    timeout: float = 60.0,
    device: str = "cpu",
    folder: Path | None = None,
) -> dict[Setting, Run]:
    """Run every setting on all prompts, in as many processes as there are roles.

    Results are those of one process, request by request. Plain decoding is disaggregated as well. A
    batch size is that of each generation rank; the seconds of a part run from its start to the end
    of the rank that finishes it last, so tokens a second are those of all ranks together.

    Args:
        pairs: as `measure_accept_length` takes them; they have the prompts.
        source: where each rank loads the same pairs from.
        options: what to run; their modes are "disaggregated" alone, and `processes` is not used.
        on_progress: told the setting and the tokens of each finished request.
        roles: the processes.
        timeout: seconds of silence after which a rank is given up.
        device: "cpu", or "cuda" for a GPU a rank.
        folder: as `launch` takes it.

    Raises:
        ValueError: options that the pairs, or context and generation ranks, cannot serve.
        DistributedError: a rank was killed, failed or hung; it lists the unfinished requests.

    """
    options.check(pairs)
    plan = plan_of(pairs, source, options, roles=roles, timeout=timeout, device=device)

    def on_result(label: str, _: RequestResult) -> None:
        if on_progress is not None:
            on_progress(label, options.new_tokens)

    return runs_of(options, launch(plan, on_result, folder))


def plan_of(
    pairs: Sequence[Pair],
    source: PairSource,
    options: AcceptLengthOptions,
    *,
    roles: Roles,
    timeout: float = 60.0,
    device: str = "cpu",
) -> Plan:
    """The plan of a bench: every setting serves a part of the prompts before the next part begins.

    Raises:
        ValueError: another mode than disaggregated.

    """
    if options.modes != ("disaggregated",):
        raise ValueError(
            f"modes: {', '.join(options.modes)}, but context and generation ranks are "
            "disaggregated serving; give disaggregated alone"
        )
    by_type = {pair.deployment.decoding_type: pair for pair in pairs}
    requests = [request_of(pairs[0], options, index) for index in range(options.requests)]
    servers: list[ServerSpec] = []
    parts: list[Part] = []
    for group in settings(options):
        first = len(servers)
        for setting in group:
            kind = setting.decoding_type
            pair = pairs[0] if kind is None else by_type[kind]
            draft_len = max(setting.draft_len, 1)
            servers.append(
                ServerSpec(
                    label=str(setting),
                    decoding_type=pair.deployment.decoding_type,
                    draft_len=setting.draft_len,
                    engine=deployment_of(pair, options, setting.batch, draft_len).engine,
                    decoding=options.decoding(),
                    fault=options.fault,
                )
            )
        # Every generation rank can fill its batch as often as the server of a single process.
        size = part_size(group[0].batch) * roles.generation_ranks
        for part in cut(requests, size):
            parts += [Part(first + offset, part) for offset in range(len(group))]
    return Plan(
        source=source, roles=roles, servers=servers, parts=parts, timeout=timeout, device=device
    )


def runs_of(options: AcceptLengthOptions, served: Mapping[str, Served]) -> dict[Setting, Run]:
    """What a plan of `plan_of` served, as `make_report` takes it."""
    runs = {}
    for group in settings(options):
        for setting in group:
            one = served[str(setting)]
            paces = [n / seconds for n, seconds in zip(one.tokens, one.seconds, strict=True)]
            runs[setting] = Run(setting, one.results, paces, sum(one.tokens), sum(one.seconds))
    return runs
