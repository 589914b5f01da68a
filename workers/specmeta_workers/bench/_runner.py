"""Serves the prompts in every setting, interleaved, and times it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

from specmeta import Deployment, EngineConfig, RequestId

from .. import _methods
from .._context_server import ContextServer
from .._disaggregated import DisaggregatedExecutor
from .._executor import Executor
from .._generation_server import GenerationServer
from .._requests import Request, RequestResult
from ._faults import with_default_slot
from ._timing import Stopwatch, TimedTarget, TimedWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from specmeta import DecodingType

    from .._methods import Worker
    from .._pairs import Pair
    from .._serving import RequestRunner
    from ._options import AcceptLengthOptions, Mode

FIRST_REQUEST_ID = 1001
"""Ids look like an executor's: none is small enough to be taken for a row index."""


@attrs.frozen
class Setting:
    """One cell of the table."""

    decoding_type: DecodingType | None
    """None is plain decoding, without a drafter; its draft length is 0."""
    mode: Mode
    draft_len: int
    batch: int

    def __str__(self) -> str:
        """As progress and messages show it."""
        if self.decoding_type is None:
            return f"plain decoding, batch {self.batch}"
        return f"{self.decoding_type}, {self.mode}, K={self.draft_len}, batch {self.batch}"


@attrs.define(eq=False)
class Run:
    """What one setting did: all results in prompt order, and the pace of each interleaved part."""

    setting: Setting
    results: list[RequestResult] = attrs.Factory(list)
    paces: list[float] = attrs.Factory(list)
    """Generated tokens a second, one figure a part."""
    tokens: int = 0
    seconds: float = 0.0
    stopwatch: Stopwatch = attrs.Factory(Stopwatch)
    """Cost of the iterations; empty where nobody timed them."""

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens over the serving time of a process, prefill included."""
        return self.tokens / self.seconds

    def add(self, other: Run) -> None:
        """Take in another process's share of the prompts."""
        results = [*self.results, *other.results]
        self.results = sorted(results, key=lambda result: result.request_id)
        self.paces += other.paces
        self.tokens += other.tokens
        self.seconds += other.seconds
        self.stopwatch.add(other.stopwatch)


def plain_setting(batch: int) -> Setting:
    """Plain decoding, with which every setting of a batch size is compared."""
    return Setting(None, "aggregated", 0, batch)


def settings(options: AcceptLengthOptions) -> list[list[Setting]]:
    """The settings of each batch size; plain decoding comes first."""
    return [
        [
            plain_setting(batch),
            *(
                Setting(decoding_type, mode, draft_len, batch)
                for decoding_type in options.decoding_types
                for mode in options.modes
                for draft_len in options.draft_lens_of(mode)
            ),
        ]
        for batch in options.batches
    ]


def serve(
    pairs: Sequence[Pair],
    options: AcceptLengthOptions,
    prompts: Sequence[int],
    on_progress: Callable[[str, int], None] | None = None,
) -> dict[Setting, Run]:
    """Run every setting on these prompts, given by index.

    The prompts are cut into parts; each part is served by every setting of a batch size before the
    next part begins. So the figures of two settings come from the same minutes of a machine whose
    speed drifts, and their ratio can be taken part by part.

    `on_progress(label, tokens)` is called after each part of a setting.
    """
    requests = [request_of(pairs[0], options, index) for index in prompts]
    runs: dict[Setting, Run] = {}
    for group in settings(options):
        batch_runs = {setting: Run(setting) for setting in group}
        servers = _Servers(pairs, options)
        try:
            for part in _parts(requests, group[0].batch):
                for setting, run in batch_runs.items():
                    servers.serve(run, part)
                    if on_progress is not None:
                        on_progress(str(setting), len(part) * options.new_tokens)
        finally:
            servers.close()
        runs.update(batch_runs)
    return runs


def request_of(pair: Pair, options: AcceptLengthOptions, index: int) -> Request:
    """The request for a prompt, the same in every setting; its seed is its id."""
    request_id = RequestId(FIRST_REQUEST_ID + index)
    return Request(
        request_id,
        pair.prompts[index].token_ids,
        options.new_tokens,
        sampling=options.sampling(seed=request_id),
    )


def part_size(batch: int) -> int:
    """At least two full batches a part, so that the queue refills the batch as requests end."""
    return max(8, 2 * batch)


def _parts(requests: Sequence[Request], batch: int) -> list[Sequence[Request]]:
    size = part_size(batch)
    return [requests[i : i + size] for i in range(0, len(requests), size)]


def deployment_of(
    pair: Pair, options: AcceptLengthOptions, batch: int, draft_len: int
) -> Deployment:
    """The deployment that a server of this batch size and draft length runs."""
    longest = max(len(prompt.token_ids) for prompt in pair.prompts[: options.requests])
    widest = max(options.draft_lens) + 1
    engine = EngineConfig.sized(
        max_num_requests=batch,
        max_num_tokens=max(256, longest, batch * widest),
        max_seq_len=longest + options.new_tokens + widest,
        dtype=pair.deployment.engine.dtype,
        overlap_headroom=False,
        disaggregated="disaggregated" in options.modes,
        cuda_graph_batch_sizes=tuple(size for size in options.graph_batch_sizes if size <= batch),
    )
    return pair.deployment_for(engine=engine, max_draft_len=draft_len, **options.decoding())


def make_worker(
    pair: Pair,
    options: AcceptLengthOptions,
    deployment: Deployment,
    device: torch.device | str = "cpu",
) -> Worker:
    """The worker that the options ask for."""
    worker = _methods.make_worker(deployment, pair.draft_model, device)
    return worker if options.fault is None else with_default_slot(worker)


class _Servers:
    """The servers of one batch size. They run in turn, so those that capture the same layers share
    a target runner.
    """

    def __init__(self, pairs: Sequence[Pair], options: AcceptLengthOptions) -> None:
        self._pairs = {pair.deployment.decoding_type: pair for pair in pairs}
        self._plain_pair = pairs[0]
        self._options = options
        self._targets: dict[tuple[str, tuple[int, ...]], TimedTarget] = {}
        self._built: dict[Setting, tuple[RequestRunner, TimedTarget]] = {}

    def serve(self, run: Run, part: Sequence[Request]) -> None:
        """Serve one part of the prompts and add what came of it to the run."""
        if run.setting not in self._built:
            self._built[run.setting] = self._build(run.setting, run.stopwatch)
        server, target = self._built[run.setting]
        target.stopwatch = run.stopwatch
        began = time.perf_counter()
        results = server.run(part)
        seconds = time.perf_counter() - began
        tokens = sum(len(result.token_ids) for result in results)
        run.results += results
        run.paces.append(tokens / seconds)
        run.tokens += tokens
        run.seconds += seconds

    def close(self) -> None:
        """Take the hooks off the target."""
        for target in self._targets.values():
            target.close()

    def _target(self, role: str, deployment: Deployment, layers: tuple[int, ...]) -> TimedTarget:
        if (role, layers) not in self._targets:
            engine = deployment.engine
            self._targets[role, layers] = TimedTarget(
                self._plain_pair.target,
                layers,
                num_slots=engine.num_seq_slots,
                max_seq_len=max(engine.max_seq_len, max(self._options.draft_lens) + 1),
            )
        return self._targets[role, layers]

    def _build(self, setting: Setting, stopwatch: Stopwatch) -> tuple[RequestRunner, TimedTarget]:
        options = self._options
        if setting.decoding_type is None:
            deployment = deployment_of(self._plain_pair, options, setting.batch, 1)
            target = self._target("decode", deployment, ())
            return Executor(deployment, target, None), target
        pair = self._pairs[setting.decoding_type]
        deployment = deployment_of(pair, options, setting.batch, setting.draft_len)
        layers = deployment.layers_to_capture
        target = self._target("decode", deployment, layers)
        worker = TimedWorker(make_worker(pair, options, deployment), stopwatch)
        if setting.mode == "aggregated":
            return Executor(deployment, target, worker), target
        prefill = self._target("prefill", deployment, layers)
        return (
            DisaggregatedExecutor(
                ContextServer(deployment, prefill), GenerationServer(deployment, target, worker)
            ),
            target,
        )
