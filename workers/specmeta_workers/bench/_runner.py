"""Serves the prompts in every setting, interleaved, and times it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

from specmeta import Deployment, EngineConfig, RequestId

from .._context_server import ContextServer
from .._disaggregated import DisaggregatedExecutor
from .._dspark_worker import DSparkWorker
from .._executor import Executor
from .._generation_server import GenerationServer
from .._requests import Request, RequestResult
from .._target import TargetRunner
from ._faults import DefaultSlotWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._pairs import Pair
    from .._serving import RequestRunner
    from ._options import AcceptLengthOptions, Mode

FIRST_REQUEST_ID = 1001
"""Ids look like an executor's: none is small enough to be taken for a row index."""


@attrs.frozen
class Setting:
    """One cell of the table; draft length 0 is plain greedy decoding."""

    mode: Mode
    draft_len: int
    batch: int

    def __str__(self) -> str:
        """As progress shows it."""
        kind = f"{self.mode}, K={self.draft_len}" if self.draft_len else "plain decoding"
        return f"batch {self.batch}, {kind}"


@attrs.define(eq=False)
class Run:
    """What one setting did: all results in prompt order, and the pace of each interleaved part."""

    setting: Setting
    results: list[RequestResult] = attrs.Factory(list)
    paces: list[float] = attrs.Factory(list)
    """Generated tokens a second, one figure a part."""
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens over the serving time of a process, prefill included."""
        return self.tokens / self.seconds


def settings(options: AcceptLengthOptions) -> list[list[Setting]]:
    """The settings of each batch size; plain decoding comes first."""
    return [
        [
            Setting("aggregated", 0, batch),
            *(Setting(mode, k, batch) for mode in options.modes for k in options.draft_lens),
        ]
        for batch in options.batches
    ]


def serve(
    pair: Pair,
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
    requests = [
        Request(RequestId(FIRST_REQUEST_ID + i), pair.prompts[i].token_ids, options.new_tokens)
        for i in prompts
    ]
    runs: dict[Setting, Run] = {}
    for group in settings(options):
        servers = _Servers(pair, options, group[0].batch)
        batch_runs = {setting: Run(setting) for setting in group}
        try:
            for part in _parts(requests, group[0].batch):
                for setting, run in batch_runs.items():
                    _serve_part(servers.server(setting), run, part)
                    if on_progress is not None:
                        on_progress(str(setting), len(part) * options.new_tokens)
        finally:
            servers.close()
        runs.update(batch_runs)
    return runs


def _serve_part(server: RequestRunner, run: Run, part: Sequence[Request]) -> None:
    began = time.perf_counter()
    results = server.run(part)
    seconds = time.perf_counter() - began
    tokens = sum(len(result.token_ids) for result in results)
    run.results += results
    run.paces.append(tokens / seconds)
    run.tokens += tokens
    run.seconds += seconds


def _parts(requests: Sequence[Request], batch: int) -> list[Sequence[Request]]:
    """At least two full batches a part, so that the queue refills the batch as requests end."""
    size = max(8, 2 * batch)
    return [requests[i : i + size] for i in range(0, len(requests), size)]


class _Servers:
    """The servers of one batch size. They run in turn, so those of a kind share a target runner."""

    def __init__(self, pair: Pair, options: AcceptLengthOptions, batch: int) -> None:
        self._pair = pair
        self._options = options
        self._batch = batch
        base = self._deployment(max(options.draft_lens))
        self._target = TargetRunner.for_deployment(pair.target, base)
        self._context_target: TargetRunner | None = None
        if "disaggregated" in options.modes:
            self._context_target = TargetRunner.for_deployment(pair.target, base)
        self._built: dict[Setting, RequestRunner] = {}

    def server(self, setting: Setting) -> RequestRunner:
        """The server of a setting, built when it is first asked for."""
        if setting not in self._built:
            self._built[setting] = self._build(setting)
        return self._built[setting]

    def close(self) -> None:
        """Take the hooks off the target."""
        self._target.close()
        if self._context_target is not None:
            self._context_target.close()

    def _deployment(self, draft_len: int) -> Deployment:
        pair, options = self._pair, self._options
        longest = max(len(prompt.token_ids) for prompt in pair.prompts[: options.requests])
        widest = max(options.draft_lens) + 1
        engine = EngineConfig.sized(
            max_num_requests=self._batch,
            max_num_tokens=max(256, longest, self._batch * widest),
            max_seq_len=longest + options.new_tokens + widest,
            dtype=pair.deployment.engine.dtype,
            overlap_headroom=False,
            disaggregated="disaggregated" in options.modes,
            cuda_graph_batch_sizes=tuple(
                size for size in options.graph_batch_sizes if size <= self._batch
            ),
        )
        return pair.deployment_for(engine=engine, max_draft_len=draft_len)

    def _build(self, setting: Setting) -> RequestRunner:
        if setting.draft_len == 0:
            return Executor(self._deployment(1), self._target, None)
        deployment = self._deployment(setting.draft_len)
        worker_type = DSparkWorker if self._options.fault is None else DefaultSlotWorker
        worker = worker_type(deployment, self._pair.draft_model)
        if setting.mode == "aggregated":
            return Executor(deployment, self._target, worker)
        assert self._context_target is not None
        return DisaggregatedExecutor(
            ContextServer(deployment, self._context_target),
            GenerationServer(deployment, self._target, worker),
        )
