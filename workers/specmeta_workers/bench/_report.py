"""The figures of a run, ready for a table, a plot or JSON."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import attrs

from . import _statistics as figures
from ._comparison import Difference, length_differences, output_differences
from ._processes import serve_all
from ._runner import Run, Setting, plain_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .._pairs import Pair
    from .._requests import RequestResult
    from ._options import AcceptLengthOptions

DEFINITION = (
    "accept length = decoded tokens / decode iterations, bonus token included, prefill token "
    "excluded; mean is the mean over requests, pooled divides the sums"
)


@attrs.frozen(kw_only=True)
class Row:
    """One setting: decoding type, mode, draft length and batch size."""

    decoding_type: str
    mode: str
    draft_len: int
    batch: int
    requests: int
    accept_length_mean: float
    accept_length_pooled: float
    acceptance_by_position: tuple[float, ...]
    batch_ratio: float
    """Pooled accept length over that of the smallest batch, all else being equal."""
    batch_ratio_low: float
    batch_ratio_high: float
    """Bounds of its 95 % bootstrap interval, requests resampled in pairs."""
    lengths_equal: int
    """Requests whose accepted lengths equal, iteration by iteration, those of the smallest
    batch."""
    outputs_equal: int
    """Requests whose output equals plain greedy decoding, token by token; where tokens are sampled,
    that of the smallest batch."""
    tokens_per_second: float
    """Generated tokens over the serving time of a process, prefill included; of all ranks together
    in a distributed run."""
    speedup: float
    """Median, over the interleaved parts, of the pace over that of plain decoding at that batch."""
    speedup_pairs: int
    draft_ms: float | None
    """Median milliseconds of an iteration in the worker, which accepts, keeps its state and drafts;
    None where nobody timed it."""
    target_ms: float | None
    """Median milliseconds of an iteration in the target's forward."""
    draft_share: float | None
    """`draft_ms` over the sum of both."""
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        """The setting, as messages name it."""
        place = f"{self.mode}, draft length {self.draft_len}, batch {self.batch}"
        return f"{self.decoding_type}, {place}"


@attrs.frozen(kw_only=True)
class PlainRow:
    """Plain decoding of the same target at one batch size."""

    batch: int
    requests: int
    tokens_per_second: float
    outputs_equal: int
    """Requests whose output equals that of the smallest batch."""
    target_ms: float | None
    """Median milliseconds of an iteration in the target's forward."""


@attrs.frozen(kw_only=True)
class Report:
    """All rows of a run and what they share."""

    rows: tuple[Row, ...]
    plain: tuple[PlainRow, ...]
    distinct_4grams: float
    """Mean over the outputs of distinct 4-grams over all 4-grams: low means loops, which flatter
    accept length."""
    dtype: str
    new_tokens: int
    temperature: float | None
    """None is greedy."""
    fault: str | None
    processes: int
    ranks: str | None
    """What the ranks of a distributed run do; its tokens a second are those of all together. None
    where each process serves alone."""
    seconds: float
    """Wall time of the serving."""
    definition: str = DEFINITION

    def to_json(self) -> dict[str, Any]:
        """Plain data: `rows`, `plain` and the run's own figures."""
        return attrs.asdict(self)

    def findings(self) -> list[str]:
        """What the run should not show: outputs or accept lengths that depend on the batch.

        In float64 no request may differ, in float32 at most 2 % of them; a batch ratio must be
        within 1 %. In 16 bits near-ties tip all the time: no request is judged, and a ratio is
        found only where its whole interval lies more than 5 % off.
        """
        share = {"float64": 0.0, "float32": 0.02}.get(self.dtype)
        found = []
        for row in self.rows:
            for what, equal in (("output", row.outputs_equal), ("lengths", row.lengths_equal)):
                if share is not None and row.requests - equal > share * row.requests:
                    found.append(f"{row}: {what} equal in {equal} of {row.requests} requests")
            if share is not None:
                off = abs(row.batch_ratio - 1) > 0.01
            else:
                off = row.batch_ratio_high < 0.95 or row.batch_ratio_low > 1.05
            if off:
                found.append(f"{row}: accept length {row.batch_ratio:.3f} x the smallest batch's")
        found += [
            f"plain decoding, batch {plain.batch}: output equal in {plain.outputs_equal} of "
            f"{plain.requests} requests"
            for plain in self.plain
            if share is not None and plain.requests - plain.outputs_equal > share * plain.requests
        ]
        return found


def measure_accept_length(
    pairs: Sequence[Pair],
    options: AcceptLengthOptions,
    on_progress: Callable[[str, int], None] | None = None,
) -> Report:
    """Serve the prompts in every setting and compare the outcomes.

    Args:
        pairs: one a decoding type of the options, in their order, on one target.
        options: what to run.
        on_progress: `on_progress(label, tokens)` is told of every served part.

    Raises:
        ValueError: the pairs cannot serve the options, see `AcceptLengthOptions.check`.

    """
    began = time.perf_counter()
    runs = serve_all(pairs, options, on_progress)
    return make_report(pairs, options, runs, time.perf_counter() - began)


def make_report(
    pairs: Sequence[Pair],
    options: AcceptLengthOptions,
    runs: Mapping[Setting, Run],
    seconds: float,
    *,
    ranks: str | None = None,
) -> Report:
    """Compare the runs of all settings, which took these seconds."""
    smallest = min(options.batches)
    plain = {batch: runs[plain_setting(batch)] for batch in options.batches}
    reference = plain[smallest].results
    by_type = {pair.deployment.decoding_type: pair for pair in pairs}
    rows = []
    for setting, run in runs.items():
        if setting.decoding_type is None:
            continue
        base = runs[attrs.evolve(setting, batch=smallest)]
        sampled = options.temperature is not None
        rows.append(
            _row(
                by_type[setting.decoding_type],
                run,
                base,
                plain[setting.batch],
                base.results if sampled else reference,
                sampled=sampled,
            )
        )
    plain_rows = tuple(
        PlainRow(
            batch=batch,
            requests=len(run.results),
            tokens_per_second=run.tokens_per_second,
            outputs_equal=_equal_outputs(run.results, reference),
            target_ms=_milliseconds(run.stopwatch.target),
        )
        for batch, run in plain.items()
    )
    repetition = [figures.distinct_ngrams(result.token_ids) for result in reference]
    return Report(
        rows=tuple(rows),
        plain=plain_rows,
        distinct_4grams=statistics.fmean(repetition),
        dtype=pairs[0].deployment.engine.dtype,
        new_tokens=options.new_tokens,
        temperature=options.temperature,
        fault=options.fault,
        processes=options.processes,
        ranks=ranks,
        seconds=seconds,
    )


def _row(
    pair: Pair,
    run: Run,
    base: Run,
    plain: Run,
    reference: Sequence[RequestResult],
    *,
    sampled: bool,
) -> Row:
    setting, results = run.setting, run.results
    ratio, low, high = figures.ratio_interval(results, base.results)
    outputs = output_differences(pair, results, reference, sampled=sampled)
    lengths = length_differences(pair, results, base.results, setting.draft_len, sampled=sampled)
    paces = [mine / theirs for mine, theirs in zip(run.paces, plain.paces, strict=True)]
    draft = _milliseconds(run.stopwatch.worker)
    target = _milliseconds(run.stopwatch.target)
    return Row(
        decoding_type=pair.deployment.decoding_type,
        mode=setting.mode,
        draft_len=setting.draft_len,
        batch=setting.batch,
        requests=len(results),
        accept_length_mean=figures.request_mean(results),
        accept_length_pooled=figures.pooled(results),
        acceptance_by_position=figures.acceptance_by_position(results, setting.draft_len),
        batch_ratio=ratio,
        batch_ratio_low=low,
        batch_ratio_high=high,
        lengths_equal=len(results) - len(lengths),
        outputs_equal=len(results) - len(outputs),
        tokens_per_second=run.tokens_per_second,
        speedup=statistics.median(paces),
        speedup_pairs=len(paces),
        draft_ms=draft,
        target_ms=target,
        draft_share=None if draft is None or target is None else draft / (draft + target),
        differences=(*outputs, *lengths),
    )


def _milliseconds(seconds: Sequence[float]) -> float | None:
    return 1000 * statistics.median(seconds) if seconds else None


def _equal_outputs(results: Sequence[RequestResult], reference: Sequence[RequestResult]) -> int:
    pairs = zip(results, reference, strict=True)
    return sum(result.token_ids == other.token_ids for result, other in pairs)
