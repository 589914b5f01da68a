"""Workers, draft models and the reference executor of specmeta (torch)."""

from __future__ import annotations

from ._config_reader import read_drafter_config, read_target_config
from ._context_server import ContextServer
from ._disaggregated import DisaggregatedExecutor
from ._dspark_model import DSparkDraftModel
from ._dspark_worker import DraftOutput, DSparkWorker
from ._errors import (
    CheckpointError,
    ContextGapError,
    RequestAlreadyAssignedError,
    SlotError,
    SlotPoolExhaustedError,
    StaleSlotError,
    UnknownRequestError,
)
from ._executor import Executor
from ._generation_server import GenerationServer
from ._handover import Handover
from ._kv_store import KVStore
from ._loading import load_draft_model
from ._pairs import Pair, Prompt, default_engine, load_bundled, load_pair
from ._requests import ExecutorStoppedError, FinishReason, Request, RequestResult
from ._slots import SlotHandle, SlotPool
from ._step_worker import StepWorker
from ._target import TargetRunner
from ._target_layout import TargetRows

__all__ = [
    "CheckpointError",
    "ContextGapError",
    "ContextServer",
    "DSparkDraftModel",
    "DSparkWorker",
    "DisaggregatedExecutor",
    "DraftOutput",
    "Executor",
    "ExecutorStoppedError",
    "FinishReason",
    "GenerationServer",
    "Handover",
    "KVStore",
    "Pair",
    "Prompt",
    "Request",
    "RequestAlreadyAssignedError",
    "RequestResult",
    "SlotError",
    "SlotHandle",
    "SlotPool",
    "SlotPoolExhaustedError",
    "StaleSlotError",
    "StepWorker",
    "TargetRows",
    "TargetRunner",
    "UnknownRequestError",
    "default_engine",
    "load_bundled",
    "load_draft_model",
    "load_pair",
    "read_drafter_config",
    "read_target_config",
]
