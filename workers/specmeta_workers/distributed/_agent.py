"""torchrun for `launch`: it ends with the process that started it, and puts its verdict in a file.

Reading which rank failed first from torchrun's output would bind us to its wording.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from .._guardian import end_with_parent


def describe_failure(rank: int, failure: ProcessFailure) -> dict[str, Any]:
    """A failed rank: its pid, its exit code (a signal's is negative), and what it said."""
    message: Any = failure.message
    if isinstance(failure.error_file_data, dict):  # what `record` wrote about an exception
        said = failure.error_file_data.get("message")
        message = said["message"] if isinstance(said, dict) else said
    return {
        "rank": rank,
        "pid": failure.pid,
        "exitcode": failure.exitcode,
        "message": str(message),
    }


def main() -> None:
    """Run torchrun: arguments are the parent's pid, a file for what failed, and torchrun's own."""
    end_with_parent(int(sys.argv[1]))
    path = Path(sys.argv[2])
    torchrun: Any = run  # untyped
    try:
        torchrun.run(torchrun.parse_args(sys.argv[3:]))
    except ChildFailedError as error:
        failures = [describe_failure(rank, failure) for rank, failure in error.failures.items()]
        path.write_text(json.dumps(failures), encoding="utf-8")
        sys.exit(1)


if __name__ == "__main__":
    main()
