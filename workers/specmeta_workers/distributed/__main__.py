"""One rank: `torchrun ... -m specmeta_workers.distributed PLAN JOURNAL`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from .._guardian import end_with_parent
from ._errors import describe
from ._join import join, rank_device, rank_from_environment
from ._journal import JournalWriter
from ._mailbox import Mailbox
from ._parts import Coordinator, Follower
from ._plan import Plan
from ._ranks import serve_contexts, serve_generations

if TYPE_CHECKING:
    from ._parts import Parts


# torchrun reads the exception from a file that this decorator writes.
@record
def run(plan_path: str, journal_path: str) -> None:
    """Serve the plan as the rank that torchrun says; rank 0 writes the journal on its machine.

    Raises:
        RankLostError: another rank is lost.
        ValueError: the plan does not fit the launch or the pair.

    """
    plan = Plan.load(Path(plan_path))
    rank = rank_from_environment(plan.roles)
    torch.set_num_threads(1)
    device = rank_device(plan.device)
    everybody, generations = join(plan.roles, rank, plan.timeout, device)
    mailbox = Mailbox(everybody, plan.roles, rank, plan.timeout)
    try:
        journal = JournalWriter(Path(journal_path)) if rank == 0 else None
        parts: Parts = Follower(mailbox) if journal is None else Coordinator(mailbox, journal)
        pairs = plan.source.load()
        for pair in pairs.values():
            target: Any = pair.target  # transformers types `to` for itself alone
            target.to(device)
        if rank in plan.roles.contexts:
            serve_contexts(plan, pairs, rank, mailbox, parts)
        else:
            serve_generations(plan, pairs, rank, mailbox, parts, generations)
        mailbox.close()
        if journal is not None:
            journal.close()
    except Exception as error:
        mailbox.give_up(error)
        raise


def main() -> None:
    """Run, and end at once whatever happens: threads may be inside a transfer."""
    end_with_parent(os.getppid())
    code = 0
    try:
        run(*sys.argv[1:3])
    except Exception as error:  # noqa: BLE001 - the rank's outermost frame
        print(f"specmeta: {describe(error)}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
