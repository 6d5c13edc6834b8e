"""Where the directories of tests are: in memory, where there is room.

A journal waits for the disk again and again, and the removal of a directory waits as well. Tests wait for that a third
of their time, and are not about it. At full size they are on the disk.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.size import FULL

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes; a run writes less than a tenth of this."""

_CHOSEN = "PYTEST_DEBUG_TEMPROOT"
"""Tells pytest, and the processes that it starts, where its directories are."""


def take_memory() -> Path | None:
    """Have the directories of this run there. What runs that ended have left is removed.

    :returns: the directory that is to be removed after the run; ``None``: pytest has them where it has them.
    """
    if FULL or _CHOSEN in os.environ or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    for left in MEMORY.glob("bussrv-tests-*"):
        if not Path("/proc", left.name.rpartition("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    place = MEMORY / f"bussrv-tests-{os.getpid()}"
    place.mkdir(mode=0o700)
    os.environ[_CHOSEN] = str(place)
    return place
