"""Workers, draft models and the reference executor of specmeta (torch)."""

from __future__ import annotations

from specmeta import CheckpointError, read_drafter_config, read_target_config

from . import _extra  # noqa: F401 - first
from ._context_server import ContextServer
from ._dflash_model import DFlashDraftModel
from ._dflash_worker import DFlashWorker
from ._disaggregated import DisaggregatedExecutor
from ._draft_output import DraftOutput
from ._dspark_model import DSparkDraftModel
from ._dspark_worker import DSparkWorker
from ._errors import (
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
from ._methods import make_worker
from ._mtp_model import MTPDraftModel
from ._mtp_worker import MTPWorker
from ._pairs import Pair, Prompt, default_engine, load_bundled, load_bundled_pairs, load_pair
from ._prefix_cache import PrefixCache
from ._requests import ExecutorStoppedError, FinishReason, Request, RequestResult
from ._schedule import measure_step_rates
from ._slots import SlotHandle, SlotPool
from ._step_worker import StepWorker
from ._target import TargetRunner
from ._target_layout import TargetRows

__all__ = [
    "CheckpointError",
    "ContextGapError",
    "ContextServer",
    "DFlashDraftModel",
    "DFlashWorker",
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
    "MTPDraftModel",
    "MTPWorker",
    "Pair",
    "PrefixCache",
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
    "load_bundled_pairs",
    "load_draft_model",
    "load_pair",
    "make_worker",
    "measure_step_rates",
    "read_drafter_config",
    "read_target_config",
]
