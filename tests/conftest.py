"""What every test relies on: one thread, no network, the same examples each run."""

from __future__ import annotations

import os

# Before torch is imported: the models here are too small to gain from a second thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# A test that would reach for a model hub fails at once instead of waiting for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")
