"""Accept length and output under everything that may happen to a request, at batch 1 and 16.

    python benchmarks/life_cycle.py [--requests 24] [--new-tokens 48] [--draft-len 1,7]

Each case is served with each bundled drafter, in float64 unless told otherwise, and compared with
the undisturbed run at batch 1: the pooled accept length as a ratio, the accepted lengths iteration
by iteration, and the output with plain greedy decoding. Exit status 1 where one differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence

import torch

from specmeta import EngineConfig, RequestId
from specmeta_workers import (
    Executor,
    Pair,
    PrefixCache,
    Request,
    RequestResult,
    TargetRunner,
    load_bundled_pairs,
    make_worker,
)

Disturb = Callable[[Executor, int], None]


def finished(executor: Executor, disturb: Disturb) -> Iterator[RequestResult]:
    """Step to the end, with something done between the steps."""
    number = 0
    while executor.unfinished:
        disturb(executor, number)
        yield from executor.step()
        number += 1


def nothing(executor: Executor, number: int) -> None:
    """An undisturbed run."""


def pause(executor: Executor, number: int) -> None:
    """Every third step one request more sits out the next two, also between prompt chunks."""
    for request_id in executor.paused:
        if number % 3 == 2:
            executor.resume(request_id)
    live = [r.request_id for r in executor.unfinished if r.request_id not in executor.paused]
    if number % 3 == 0 and len(live) > 1:
        executor.pause(live[number % len(live)])


def preempt(executor: Executor, number: int) -> None:
    """Every fourth step one request loses its slots."""
    if number % 4 == 3:
        live = executor.unfinished
        executor.preempt(live[number % len(live)].request_id)


UNDISTURBED, CHUNKS, PREEMPTION, PREFIX, STAGES, FULL_POOL = CASES = (
    "undisturbed",
    "chunks and pauses",
    "preemption",
    "prefix hits",
    "two micro-batches",
    "full pool",
)
DISTURB: dict[str, Disturb] = {CHUNKS: pause, PREEMPTION: preempt}


def serve(
    pair: Pair, requests: Sequence[Request], draft_len: int, batch: int, case: str
) -> list[RequestResult]:
    """The results of a case in the order of the requests."""
    engine = EngineConfig.sized(
        max_num_requests=batch,
        max_num_tokens=batch * (draft_len + 1) + 16 if case == CHUNKS else 512,
        max_seq_len=256,
        dtype=pair.deployment.engine.dtype,
        # A pool of the batch: a request takes a slot in the very step in which another ends.
        overlap_headroom=case != FULL_POOL,
        disaggregated=False,
        pipeline_parallel_size=2 if case == STAGES else 1,
    )
    deployment = pair.deployment_for(engine=engine, max_draft_len=draft_len)
    target = TargetRunner.for_deployment(pair.target, deployment)
    cache = PrefixCache(block_size=8, capacity_tokens=4096) if case == PREFIX else None
    executor = Executor(
        deployment, target, make_worker(deployment, pair.draft_model), prefix_cache=cache
    )
    try:
        if cache is not None:  # the prompts are known before they come
            for request in requests:
                executor.submit(request)
            list(finished(executor, nothing))
        for request in requests:
            executor.submit(request)
        results = {
            result.request_id: result for result in finished(executor, DISTURB.get(case, nothing))
        }
    finally:
        target.close()
    return [results[request.request_id] for request in requests]


def pooled(results: Sequence[RequestResult]) -> float:
    """All decoded tokens over all decode iterations."""
    return sum(r.decoded_tokens for r in results) / sum(r.decode_iterations for r in results)


def main() -> int:
    """Serve every case and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--draft-len", default="1,7")
    parser.add_argument("--dtype", default="float64", choices=("float64", "float32"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    engine = EngineConfig.sized(
        max_num_requests=1,
        max_num_tokens=512,
        max_seq_len=256,
        dtype=options.dtype,
        overlap_headroom=False,
        disaggregated=False,
    )
    pairs = load_bundled_pairs(("DSpark", "DFlash", "MTP"), engine=engine)
    first = pairs[0]
    prompts = first.prompts[: options.requests]
    requests = [
        Request(RequestId(1001 + i), prompt.token_ids, options.new_tokens)
        for i, prompt in enumerate(prompts)
    ]
    target = TargetRunner.for_deployment(first.target, first.deployment)
    plain = Executor(first.deployment, target, None).run(requests)
    target.close()
    print(f"{'method':7}{'K':>2}  {'case':18}{'batch':>5}{'pooled':>8}{'ratio':>7} lengths output")
    differ = False
    for pair in pairs:
        kind = pair.deployment.decoding_type
        for draft_len in map(int, options.draft_len.split(",")):
            base = serve(pair, requests, draft_len, 1, "undisturbed")
            for case in CASES:
                for batch in (1, 16):
                    results = serve(pair, requests, draft_len, batch, case)
                    lengths = sum(
                        a.accepted_lengths == b.accepted_lengths
                        for a, b in zip(results, base, strict=True)
                    )
                    outputs = sum(
                        a.token_ids == b.token_ids for a, b in zip(results, plain, strict=True)
                    )
                    ratio = pooled(results) / pooled(base)
                    differ |= abs(ratio - 1) > 0.01 or min(lengths, outputs) < len(requests)
                    count = len(requests)
                    print(
                        f"{kind:7}{draft_len:2}  {case:18}{batch:5}{pooled(results):8.3f}"
                        f"{ratio:7.3f} {lengths:3}/{count:<3} {outputs:3}/{count}",
                        flush=True,
                    )
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
