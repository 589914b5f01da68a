"""Accept lengths that NVIDIA/TensorRT-LLM#16767 reports, to be printed beside a run's own."""

from __future__ import annotations

import attrs

REPORT = "NVIDIA/TensorRT-LLM#16767"


@attrs.frozen
class Published:
    """Accept length at one draft length, with 1 and with 16 requests a rank."""

    alone: float
    beside: float
    """With 16 requests; for DSpark with the fault that the report is about."""


PUBLISHED: dict[tuple[str, int], Published] = {
    ("DSpark", 1): Published(1.86, 1.20),
    ("DSpark", 3): Published(3.25, 1.44),
    ("DSpark", 5): Published(4.03, 1.52),
    ("DSpark", 7): Published(4.51, 1.49),
    ("MTP", 7): Published(2.85, 2.85),
}
"""By decoding type and draft length."""
