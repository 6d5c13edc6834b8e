"""What the process of the server takes of the machine."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from math import nan
from pathlib import Path

COUNTED = 10.0
"""Seconds for which the number of descriptors is kept. Counting takes as long as there are many."""

_PAGE = resource.getpagesize()
_STATUS, _DESCRIPTORS = Path("/proc/self/statm"), "/proc/self/fd"


class Process:
    """The process of the server. Values are ``nan`` on systems that do not say them.

    :param seconds: a clock, in seconds.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._counted: float | None = None
        self._descriptors = nan

    @property
    def memory_bytes(self) -> float:
        """The memory that is in use now."""
        try:
            return float(int(_STATUS.read_text().split()[1]) * _PAGE)
        except (OSError, ValueError, IndexError):
            return nan

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of all its threads since its start, in seconds."""
        return time.process_time()

    @property
    def descriptors(self) -> float:
        """The open descriptors, at most ten seconds ago."""
        now = self._seconds()
        if self._counted is None or now - self._counted >= COUNTED:
            self._counted, self._descriptors = now, _count()
        return self._descriptors


def _count() -> float:
    try:
        # One of them is that of the directory.
        return float(len(os.listdir(_DESCRIPTORS)) - 1)  # noqa: PTH208 - paths of thousands would cost more
    except OSError:
        return nan
