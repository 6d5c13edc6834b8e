"""Waiting for what an uplink to Kafka does."""

from __future__ import annotations

import threading
from collections.abc import Callable

PATIENCE = 30.0


def until(is_so: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait until something is so."""
    pause = threading.Event()
    for _ in range(int(patience / 0.05)):
        if is_so():
            return
        pause.wait(0.05)
    raise AssertionError("it did not become so")
