"""Steps as they are recorded, written shortly, and what a check finds in them."""

import io
import json
from typing import Any

from specmeta import Deployment, Finding, check_steps
from specmeta._files import read_json_lines
from specmeta._step_documents import steps_from
from specmeta.testing import make_deployment

DEPLOYMENT = make_deployment(max_num_requests=2, num_seq_slots=3)  # window 32, 7 drafts, 256 tokens


def row(
    contexts: dict[int, tuple[int, int]] | None = None,
    generations: dict[int, int] | None = None,
    finished: tuple[int, ...] = (),
    **fields: Any,
) -> dict[str, Any]:
    """A step: contexts as id: (position, tokens), generation rows as id: tokens."""
    contexts, generations = contexts or {}, generations or {}
    return {
        "request_ids": [*contexts, *generations],
        "num_contexts": len(contexts),
        "seq_lens": [*(length for _, length in contexts.values()), *generations.values()],
        "context_positions": [start for start, _ in contexts.values()],
        "finished_request_ids": list(finished),
        "num_padding": 0 if contexts or generations else 1,
        **fields,
    }


def found(
    *rows: dict[str, Any], deployment: Deployment = DEPLOYMENT, mid_run: bool = False
) -> list[Finding]:
    text = "".join(f"{json.dumps(fields)}\n" for fields in rows).encode()
    documents = read_json_lines(io.BytesIO(text), "steps.jsonl")
    steps = steps_from(documents, deployment)
    return list(check_steps(steps, deployment=deployment, mid_run=mid_run))


def short(findings: list[Finding]) -> list[tuple[str, str, int | None, object, int | None]]:
    return [(f.rule, f.field, f.index, f.value, f.line) for f in findings]


SEED = row({7: (0, 12)})
