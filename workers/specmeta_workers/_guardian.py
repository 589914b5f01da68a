"""A process that ends when the one that started it does, even by SIGKILL."""

from __future__ import annotations

import os
import signal
import threading
import time

_POLL_SECONDS = 0.5


def end_with_parent(parent: int) -> None:
    """Send this process SIGTERM once it is no child of `parent` any more."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
