"""Workers, draft models and the reference executor of specmeta (torch)."""

from __future__ import annotations

from ._dspark_model import DSparkDraftModel

__all__ = [
    "DSparkDraftModel",
]
