"""The cost of a program, with the processes it started: time, CPU and memory of each phase, from ``/proc``.

The system keeps the peak of each process; it is reset when a phase begins, so no sampling can miss one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import processes

RESET_PEAK = "5"
"""The word for that in ``/proc/PID/clear_refs``."""


@dataclass(frozen=True)
class Phase:
    """The cost of one phase.

    :ivar seconds: from its beginning to its end.
    :ivar cpu: seconds of all processes together.
    :ivar python: the peak of the resident memory of all that is not Java, in bytes; of several processes the sum of
        their peaks.
    :ivar java: the same of Java; 0 without one.
    """

    name: str
    seconds: float
    cpu: float
    python: int
    java: int


class Meter:
    """Measures this process and those that it started, in phases, which may be parts of others.

    Several threads may be in a phase each; CPU and memory of what goes on at the same time are then counted in all.
    """

    def __init__(self) -> None:
        self._begun: list[Phase | None] = []
        self._open: list[_Peaks] = []
        self._lock = threading.Lock()

    @property
    def phases(self) -> list[Phase]:
        """Those that are over, in the order in which they began."""
        return [each for each in self._begun if each is not None]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what is done inside."""
        peaks = _Peaks()
        with self._lock:
            place = len(self._begun)
            self._begun.append(None)
            self._look()
            self._open.append(peaks)
        cpu, begin = _cpu(), time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begin
            cpu = _cpu() - cpu
            with self._lock:
                self._look()
                self._open.remove(peaks)
        self._begun[place] = Phase(name, seconds, cpu, peaks.python, peaks.java)

    def _look(self) -> None:
        """See what the peaks were since this was done last, which is news for every phase that is open; forget them."""
        peaks = {pid: _peak(pid) for pid in _family()}
        java = sum(peak for pid, peak in peaks.items() if _is_java(pid))
        for each in self._open:
            each.python = max(each.python, sum(peaks.values()) - java)
            each.java = max(each.java, java)
        for pid in peaks:
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text(RESET_PEAK)


@dataclass(eq=False)
class _Peaks:
    python: int = 0
    java: int = 0


def _family() -> list[int]:
    """Our process and those below it."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(path.name)] = processes.parent(int(path.name))
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return [*found]


def _cpu() -> float:
    """Seconds of CPU so far, those of children that ended among them."""
    used = 0.0
    for pid in _family():
        with suppress(OSError):
            used += processes.cpu(pid, with_children=True)
    return used


def _peak(pid: int) -> int:
    try:
        return processes.memory(pid, "VmHWM")
    except OSError:
        return 0


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:
        return False
