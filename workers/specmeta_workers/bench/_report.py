"""The figures of a run, ready for a table, a plot or JSON."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import attrs

from . import _statistics as figures
from ._comparison import Difference, length_differences, output_differences
from ._processes import serve_all
from ._runner import Run, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._pairs import Pair
    from .._requests import RequestResult
    from ._options import AcceptLengthOptions

DEFINITION = (
    "accept length = decoded tokens / decode iterations, bonus token included, prefill token "
    "excluded; mean is the mean over requests, pooled divides the sums"
)


@attrs.frozen(kw_only=True)
class Row:
    """One setting: draft length, batch size and mode."""

    decoding_type: str
    mode: str
    draft_len: int
    batch: int
    requests: int
    accept_length_mean: float
    accept_length_pooled: float
    acceptance_by_position: tuple[float, ...]
    batch_ratio: float
    """Pooled accept length over that of the smallest batch with the same mode and draft length."""
    batch_ratio_low: float
    batch_ratio_high: float
    """Bounds of its 95 % bootstrap interval, requests resampled in pairs."""
    lengths_equal: int
    """Requests whose accepted lengths equal, iteration by iteration, those of the smallest
    batch."""
    outputs_equal: int
    """Requests whose output equals plain greedy decoding, token by token."""
    tokens_per_second: float
    """Generated tokens over the serving time of a process, prefill included."""
    speedup: float
    """Median, over the interleaved parts, of the pace over that of plain decoding at that batch."""
    speedup_pairs: int
    differences: tuple[Difference, ...]


@attrs.frozen(kw_only=True)
class PlainRow:
    """Plain greedy decoding of the same target at one batch size."""

    batch: int
    requests: int
    tokens_per_second: float
    outputs_equal: int
    """Requests whose output equals that of the smallest batch."""


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
    fault: str | None
    processes: int
    seconds: float
    """Wall time of the serving."""
    definition: str = DEFINITION

    def to_json(self) -> dict[str, Any]:
        """Plain data: `rows`, `plain` and the run's own figures."""
        return attrs.asdict(self)

    def findings(self) -> list[str]:
        """What the run should not show: outputs or accept lengths that depend on the batch.

        In float64 no request may differ, in other types at most 2 % of them may; a batch ratio
        must be within 1 %.
        """
        share = 0.0 if self.dtype == "float64" else 0.02
        found = []
        for row in self.rows:
            name = f"{row.mode}, draft length {row.draft_len}, batch {row.batch}"
            for what, equal in (("output", row.outputs_equal), ("lengths", row.lengths_equal)):
                if row.requests - equal > share * row.requests:
                    found.append(f"{name}: {what} equal in {equal} of {row.requests} requests")
            if abs(row.batch_ratio - 1) > 0.01:
                found.append(f"{name}: accept length {row.batch_ratio:.3f} × the smallest batch's")
        found += [
            f"plain decoding, batch {plain.batch}: output equal in {plain.outputs_equal} of "
            f"{plain.requests} requests"
            for plain in self.plain
            if plain.requests - plain.outputs_equal > share * plain.requests
        ]
        return found


def measure_accept_length(
    pair: Pair,
    options: AcceptLengthOptions,
    on_progress: Callable[[str, int], None] | None = None,
) -> Report:
    """Serve the prompts in every setting and compare the outcomes.

    `on_progress(label, tokens)` is told of every served part.

    Raises:
        ValueError: the pair cannot serve the options, see `AcceptLengthOptions.check`.

    """
    began = time.perf_counter()
    runs = serve_all(pair, options, on_progress)
    seconds = time.perf_counter() - began
    smallest = min(options.batches)
    plain = {batch: runs[Setting("aggregated", 0, batch)] for batch in options.batches}
    reference = plain[smallest].results
    rows = [
        _row(pair, run, runs[Setting(s.mode, s.draft_len, smallest)], plain[s.batch], reference)
        for s, run in runs.items()
        if s.draft_len
    ]
    plain_rows = tuple(
        PlainRow(
            batch=batch,
            requests=len(run.results),
            tokens_per_second=run.tokens_per_second,
            outputs_equal=_equal_outputs(run.results, reference),
        )
        for batch, run in plain.items()
    )
    repetition = [figures.distinct_ngrams(result.token_ids) for result in reference]
    return Report(
        rows=tuple(rows),
        plain=plain_rows,
        distinct_4grams=statistics.fmean(repetition),
        dtype=pair.deployment.engine.dtype,
        new_tokens=options.new_tokens,
        fault=options.fault,
        processes=options.processes,
        seconds=seconds,
    )


def _row(pair: Pair, run: Run, base: Run, plain: Run, reference: Sequence[RequestResult]) -> Row:
    setting, results = run.setting, run.results
    ratio, low, high = figures.ratio_interval(results, base.results)
    outputs = output_differences(pair, results, reference)
    lengths = length_differences(pair, results, base.results, setting.draft_len)
    paces = [mine / theirs for mine, theirs in zip(run.paces, plain.paces, strict=True)]
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
        differences=(*outputs, *lengths),
    )


def _equal_outputs(results: Sequence[RequestResult], reference: Sequence[RequestResult]) -> int:
    pairs = zip(results, reference, strict=True)
    return sum(result.token_ids == other.token_ids for result, other in pairs)
