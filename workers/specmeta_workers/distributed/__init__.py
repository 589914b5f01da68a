"""Disaggregated serving over several processes, with attention DP on the generation ranks.

On one machine, `serve_distributed` runs a bench and `launch` any plan. On several, write the plan
with `Plan.save`, start `torchrun ... -m specmeta_workers.distributed PLAN JOURNAL` on each, and
read the journal that rank 0 leaves on its machine with `read_journal`.
"""

from ._bench import plan_of, runs_of, serve_distributed
from ._errors import DistributedError, RankLostError
from ._gather import Gathered, StepGather
from ._journal import Served, read_journal
from ._launch import launch
from ._mailbox import Kind, Mailbox, Message
from ._plan import LONGEST_TIMEOUT, PairSource, Part, Plan, ServerSpec, cut
from ._roles import Roles

__all__ = [
    "LONGEST_TIMEOUT",
    "DistributedError",
    "Gathered",
    "Kind",
    "Mailbox",
    "Message",
    "PairSource",
    "Part",
    "Plan",
    "RankLostError",
    "Roles",
    "Served",
    "ServerSpec",
    "StepGather",
    "cut",
    "launch",
    "plan_of",
    "read_journal",
    "runs_of",
    "serve_distributed",
]
