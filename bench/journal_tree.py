"""The cost of the tree of records for a durable change: the CPU of the same changes with and without it, in turns.

Sessions ask for one change after the other, as in ``closed loop`` of ``journal.py``, in a directory in memory, so that
nothing but CPU is measured. The least of all rounds counts: what else runs on the machine only adds to it.

Run as ``python bench/journal_tree.py [ROUNDS]``. The exit status is 1 if a change takes more than the bar.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from journal import make_journal
from journal_load import closed_loop
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import react

from bussrv.journal.record_tree import RecordTree

BAR = 1.05
ROUNDS = 14
SESSIONS = (1, 100)
SECONDS = 1.0
MEMORY = Path("/dev/shm")


async def cpu(sessions: int, *, has_tree: bool) -> float:
    """Seconds of CPU for a byte of records, which is as good as for a change: all changes are alike."""
    place = str(MEMORY) if MEMORY.is_dir() else None
    without = patch.object(RecordTree, "add", lambda self, lines: None)
    with tempfile.TemporaryDirectory(dir=place) as name:
        if not has_tree:
            without.start()
        journal = make_journal(Path(name))
        begin = time.process_time()
        await closed_loop(journal, sessions, SECONDS)
        spent = time.process_time() - begin
        await journal.close()
        if not has_tree:
            without.stop()
        return spent / journal.bytes_accepted


async def measure(rounds: int) -> None:
    """Measure, and print the ratios."""
    worst = 0.0
    for sessions in SESSIONS:
        least = {True: float("inf"), False: float("inf")}
        for number in range(rounds):
            for has_tree in (True, False) if number % 2 else (False, True):
                least[has_tree] = min(least[has_tree], await cpu(sessions, has_tree=has_tree))
        ratio = least[True] / least[False]
        worst = max(worst, ratio)
        print(f"{sessions} sessions: {ratio:.3f} of the CPU without the tree")
    print(f"bar {BAR}: {'met' if worst <= BAR else 'MISSED'}")
    if worst > BAR:
        raise SystemExit(1)


def main(reactor: Any) -> Any:
    """Run in the reactor."""
    return ensureDeferred(measure(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))


if __name__ == "__main__":
    react(main)
