"""Cost of building metadata, against an unchecked dataclass of the same fields, in one run.

    python benchmarks/metadata_cost.py [--rounds 40] [--rows 16 1024]

Ids are above 2**63, where per-element constraints are dear. In each round the candidates take
turns in shuffled order; printed are medians of processor time, and of the ratio to the dataclass
of the same round.
"""

import argparse
import dataclasses
import random
import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any

from annotated_types import Gt, Lt
from pydantic import BaseModel, ConfigDict, create_model

from specmeta import DSparkSpecMetadata, SamplingParams
from specmeta.testing import make_dspark_metadata

FIELDS = list(DSparkSpecMetadata.model_fields)
Unchecked = dataclasses.make_dataclass("Unchecked", FIELDS)
_Id = Annotated[int, Gt(0), Lt(2**64)]
_OBVIOUS: dict[str, Any] = {
    "request_ids": (tuple[_Id, ...], ...),
    "seq_lens": (tuple[_Id, ...], ...),
}
# What one writes first: the type and bound of each element as its annotation, and no other rule.
Obvious = create_model("Obvious", __config__=ConfigDict(strict=True, frozen=True), **_OBVIOUS)


def candidates(rows: int) -> dict[str, Callable[[], object]]:
    """What is timed for a batch of that many generation rows."""
    ids = tuple(2**63 + 7919 * index for index in range(rows))
    metadata = make_dspark_metadata(request_ids=ids, max_num_requests=rows)
    fields = dict(vars(metadata))
    batch: dict[str, Any] = {
        "request_ids": metadata.request_ids,
        "num_contexts": 0,
        "seq_lens": metadata.seq_lens,
        "context_positions": (),
    }
    params = tuple(SamplingParams(temperature=1.0, seed=index) for index in range(rows))
    obvious = {name: fields[name] for name in _OBVIOUS}
    obvious_model: type[BaseModel] = Obvious
    return {
        "unchecked dataclass": lambda: Unchecked(**fields),
        "pydantic, element constraints": lambda: obvious_model(**obvious),
        "DSparkSpecMetadata(...)": lambda: DSparkSpecMetadata(**fields),
        "metadata.with_batch(...)": lambda: metadata.with_batch(**batch),
        "the same, with sampling": lambda: metadata.with_batch(**batch, sampling=params),
        "reuse of the same object": lambda: metadata,
    }


def measure(rows: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Median microseconds and median ratio of each candidate."""
    timed = candidates(rows)
    repeats = max(20, 4000 // (rows + 10))
    times: dict[str, list[float]] = {name: [] for name in timed}
    ratios: dict[str, list[float]] = {name: [] for name in timed}
    order = list(timed)
    shuffler = random.Random(0)
    for _ in range(rounds):
        shuffler.shuffle(order)
        for name in order:
            build = timed[name]
            start = time.thread_time()
            for _ in range(repeats):
                build()
            times[name].append((time.thread_time() - start) / repeats * 1e6)
        for name in order:
            ratios[name].append(times[name][-1] / times["unchecked dataclass"][-1])
    return {
        name: (statistics.median(times[name]), statistics.median(ratios[name])) for name in timed
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--rows", type=int, nargs="+", default=[16, 1024])
    options = parser.parse_args()
    for rows in options.rows:
        print(f"{rows} rows")
        for name, (microseconds, ratio) in measure(rows, options.rounds).items():
            print(f"  {name:30} {microseconds:8.2f} us   x {ratio:6.1f}")


if __name__ == "__main__":
    main()
