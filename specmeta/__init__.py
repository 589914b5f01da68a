"""Contracts for speculative decoding: immutable, validated metadata between an executor and its
workers.

``import specmeta`` needs pydantic alone; the workers live in `specmeta_workers`, which needs torch.
"""

from pydantic import ValidationError

from ._decoding import DecodingConfig, DFlashDecodingConfig, DSparkDecodingConfig, MTPDecodingConfig
from ._deployment import Deployment
from ._drafter import DFlashDrafterConfig, DrafterConfig, DSparkDrafterConfig, MTPDrafterConfig
from ._engine import EngineConfig
from ._factory import get_spec_metadata
from ._findings import CheckpointError, Finding, InputError
from ._memory import BufferSizes, buffer_sizes
from ._metadata import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata, SpecMetadata
from ._overrides import CompileKey, RuleOverride
from ._read_checkpoint import read_drafter_config, read_target_config
from ._read_deployment import read_deployment
from ._sampling import SamplingParams
from ._steps import Step, check_steps
from ._target import TargetConfig
from ._types import (
    AnchorConvention,
    AttentionKind,
    DecodingType,
    DType,
    LayerIdConvention,
    MarkovHeadType,
    RequestId,
    SeqSlot,
    TargetHiddenState,
    WindowCausality,
)

__all__ = [
    "AnchorConvention",
    "AttentionKind",
    "BufferSizes",
    "CheckpointError",
    "CompileKey",
    "DFlashDecodingConfig",
    "DFlashDrafterConfig",
    "DFlashSpecMetadata",
    "DSparkDecodingConfig",
    "DSparkDrafterConfig",
    "DSparkSpecMetadata",
    "DType",
    "DecodingConfig",
    "DecodingType",
    "Deployment",
    "DrafterConfig",
    "EngineConfig",
    "Finding",
    "InputError",
    "LayerIdConvention",
    "MTPDecodingConfig",
    "MTPDrafterConfig",
    "MTPSpecMetadata",
    "MarkovHeadType",
    "RequestId",
    "RuleOverride",
    "SamplingParams",
    "SeqSlot",
    "SpecMetadata",
    "Step",
    "TargetConfig",
    "TargetHiddenState",
    "ValidationError",
    "WindowCausality",
    "buffer_sizes",
    "check_steps",
    "get_spec_metadata",
    "read_deployment",
    "read_drafter_config",
    "read_target_config",
]

__version__ = "0.1.0"


def _show_public_path() -> None:
    """Let reprs, errors and pickles name `specmeta.X` rather than the private module."""
    for name in __all__:
        value = globals()[name]
        if getattr(value, "__module__", "").startswith("specmeta."):
            value.__module__ = "specmeta"


_show_public_path()
