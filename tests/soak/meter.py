"""How much memory and how many descriptors a process has, once a second. Linux only."""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path
from typing import NamedTuple

INTERVAL = 1.0
"""Seconds between two samples."""

EDGE = 0.1
"""The share of the samples at the beginning, and at the end, whose medians are compared: single samples jump when a
client that reads nothing is cut, and all that waited for it goes."""

_PAGE = 4096


class Rise(NamedTuple):
    """Resident memory at the beginning and at the end of some time, in bytes."""

    first: float
    last: float

    @property
    def bytes(self) -> float:
        return self.last - self.first


def resident(process: int) -> int:
    """The bytes of resident memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE


def descriptors(process: int) -> int:
    """How many files and sockets a process has open."""
    return sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())


class Meter:
    """Looks at a process once a second; a context manager.

    :ivar sizes: the bytes of resident memory, one sample after the other.
    """

    def __init__(self, process: int) -> None:
        self.sizes: list[int] = []
        self._process = process
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._look, name="meter", daemon=True)

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._enough.wait(INTERVAL):
            self.sizes.append(resident(self._process))

    def rise(self) -> Rise:
        """The medians of the first and of the last samples."""
        edge = max(1, int(len(self.sizes) * EDGE))
        return Rise(statistics.median(self.sizes[:edge]), statistics.median(self.sizes[-edge:]))


def await_descriptors(process: int, number: int, patience: float) -> int:
    """Wait until a process has so few open, at most so many seconds: nothing tells when. :returns: how many it has."""
    deadline = time.monotonic() + patience
    while (found := descriptors(process)) > number and time.monotonic() < deadline:
        time.sleep(0.1)
    return found
