"""How much work something is: in steps, which no other program can change, or in seconds of the processor."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType


def steps(work: Callable[[], object]) -> int:
    """How many functions are called."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def seconds(work: Callable[[], object]) -> float:
    """How long the processor works for this thread."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def growth(cost: Callable[[int], float], size: int, most: float, tries: int = 1) -> float:
    """How many times the cost becomes when the size becomes four times as large: 4, if the work is in proportion.

    :param cost: of a size.
    :param most: what is tried again if it is exceeded: for seconds, to which a busy machine may add.
    """
    grown = 0.0
    for _ in range(tries):
        grown = cost(4 * size) / max(cost(size), 1e-9)
        if grown <= most:
            break
    return grown
