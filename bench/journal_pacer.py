"""Asks for changes when they are due, from a process of its own: a server that is late does not hold back the others.

The program writes the moment (``time.perf_counter``, 8 bytes) of each change that it asks for, when it asks. It never
waits for an answer, so whatever makes a change late after that is latency and is counted.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate

PIPE_BYTES = 1 << 20
"""Room for more changes than are asked for in a whole run."""

_MOMENT = struct.Struct("d")
_PR_SET_TIMERSLACK = 29


@contextmanager
def pacer(rate: float, seconds: float) -> Iterator[int]:
    """Start the program. :returns: a descriptor for :func:`read_moments`."""
    command = [sys.executable, __file__, str(rate), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        try:
            yield process.stdout.fileno()
        finally:
            process.kill()


def read_moments(pipe: int) -> list[float]:
    """When each change was asked for that is to be made now; none: there will be no more."""
    return [moment for (moment,) in _MOMENT.iter_unpack(os.read(pipe, PIPE_BYTES))]


def main() -> None:
    """Ask for changes as many independent sessions do: at random moments, the same ones every time."""
    rate, seconds = (float(argument) for argument in sys.argv[1:])
    gaps = random.Random(1)
    offsets = list(accumulate(gaps.expovariate(rate) for _ in range(int(rate * seconds))))
    # Sleeping is otherwise as much as 50 microseconds too long.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    start = time.perf_counter()
    for offset in offsets:
        wait = start + offset - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        os.write(1, _MOMENT.pack(time.perf_counter()))


if __name__ == "__main__":
    main()
