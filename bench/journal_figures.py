"""Figures of a benchmark: rates and percentiles, medians over rounds, and what machine they are of."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import twisted
from journal_pacer import pacer, read_moments

Key = tuple[str, int, str]
"""The section of the table, how many changes are on their way (or offered a second), and who does them."""


@dataclass(frozen=True)
class Figures:
    """One measurement. Times are in seconds.

    :ivar rate: changes a second.
    :ivar shared: how many changes shared a sync, where that is known.
    """

    rate: float
    p50: float
    p99: float
    shared: float | None = None


def figures(latencies: Sequence[float], seconds: float, shared: float | None = None) -> Figures:
    """The figures of ``latencies`` that were measured in so many seconds."""
    ordered = sorted(latencies)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.50, 0.99))
    return Figures(len(ordered) / seconds, p50, p99, shared)


@dataclass
class Results:
    """Every measurement of a run."""

    rounds: dict[Key, list[Figures]] = field(default_factory=dict)

    def add(self, key: Key, measured: Figures) -> None:
        """Take one more round into account."""
        self.rounds.setdefault(key, []).append(measured)

    def median(self, key: Key) -> Figures | None:
        """The median of each figure; ``None``: was not measured."""
        if key not in self.rounds:
            return None
        rounds = self.rounds[key]
        shared = [each.shared for each in rounds if each.shared is not None]
        return Figures(
            statistics.median(each.rate for each in rounds),
            statistics.median(each.p50 for each in rounds),
            statistics.median(each.p99 for each in rounds),
            statistics.median(shared) if shared else None,
        )


def syncs_one_by_one(directory: Path, line: bytes, seconds: float) -> Figures:
    """Write ``line`` again and again, with a sync after each: what this disk can do."""
    latencies = []
    with _appended(directory) as append:
        begin = now = time.perf_counter()
        while now - begin < seconds:
            append(line)
            before, now = now, time.perf_counter()
            latencies.append(now - before)
    return figures(latencies, now - begin, 1.0)


def syncs_as_asked(directory: Path, line: bytes, rate: float, seconds: float) -> Figures:
    """Write ``line`` so many times a second, with a sync after each."""
    latencies = []
    first = 0.0
    with _appended(directory) as append, pacer(rate, seconds) as pipe:
        while moments := read_moments(pipe):
            first = first or moments[0]
            for moment in moments:
                append(line)
                latencies.append(time.perf_counter() - moment)
    return figures(latencies, time.perf_counter() - first, 1.0)


@contextmanager
def _appended(directory: Path) -> Iterator[Callable[[bytes], None]]:
    """A file that is there for a while. :returns: appends a line, and returns when it is on the disk."""
    path = directory / "one-by-one"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(line: bytes) -> None:
        os.write(descriptor, line)
        os.fdatasync(descriptor)

    try:
        yield append
    finally:
        os.close(descriptor)
        path.unlink()


def facts(directory: Path) -> dict[str, str]:
    """The facts of a machine that a comparison of its figures with those of another one needs."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} CPUs",
        "system": f"{platform.system()} {platform.release()}",
        "disk": _disk(directory.resolve()),
        "load": f"{os.getloadavg()[0]:.2f} at the beginning",
        "python": f"{platform.python_version()}, Twisted {twisted.__version__}",
        "sqlite": sqlite3.sqlite_version,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _disk(directory: Path) -> str:
    """The device and type of the file system that holds a directory."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    holding = [mount for mount in mounts if directory.is_relative_to(mount[1])]
    device, _, kind, options, *_ = max(holding, key=lambda mount: len(mount[1]))
    return f"{kind} on {device} ({options})"
