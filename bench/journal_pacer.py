"""Says when changes are due, from a process of its own: a server that is late does not hold back what comes next.

The program writes the moment of the start (8 bytes), then one byte for each change when it is due. Whoever reads them
knows the moment of each from :func:`schedule`: what came late is counted as latency.
"""

from __future__ import annotations

import ctypes
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate

START = struct.Struct("d")
LEAD_TIME = 0.05
"""Seconds between the announcement of the start and the start."""

_PR_SET_TIMERSLACK = 29


def schedule(rate: float, seconds: float) -> list[float]:
    """When changes of many independent sessions are due: seconds since the start, the same ones every time."""
    gaps = random.Random(1)
    return list(accumulate(gaps.expovariate(rate) for _ in range(int(rate * seconds))))


@contextmanager
def pacer(rate: float, seconds: float) -> Iterator[tuple[int, list[float]]]:
    """Start the program. :returns: what to read from, and when each change is due (``time.perf_counter``)."""
    command = [sys.executable, __file__, str(rate), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pipe = process.stdout.fileno()
        (start,) = START.unpack(os.read(pipe, START.size))
        try:
            yield pipe, [start + offset for offset in schedule(rate, seconds)]
        finally:
            process.kill()


def main() -> None:
    """Write a byte whenever a change is due."""
    # Sleeping is otherwise as much as 50 microseconds too long.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    offsets = schedule(float(sys.argv[1]), float(sys.argv[2]))
    start = time.perf_counter() + LEAD_TIME
    os.write(1, START.pack(start))
    told = 0
    while told < len(offsets):
        time.sleep(max(0.0, start + offsets[told] - time.perf_counter()))
        due = told + 1
        now = time.perf_counter() - start
        while due < len(offsets) and offsets[due] <= now:
            due += 1
        os.write(1, b"." * (due - told))
        told = due


if __name__ == "__main__":
    main()
