"""The cost of trees for the fold of an audit: the CPU of the same fold in three ways, in turns.

1. Of a journal whose headers have no tree, as older servers write it.
2. Of one whose headers have trees, which is how every audit folds that is given no witness. The bar is about this one.
3. With the tree of all records computed, as an audit does that is given witnesses or a checkpoint that was kept.

The least of all rounds counts: what else runs on the machine only adds to it.

Run as ``python bench/audit_tree.py [ROUNDS]``. The exit status is 1 if the second way takes more than the bar.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from msgspec.structs import replace

from bussrv.audit.fold.segments import SegmentSource
from bussrv.audit.fold.stripe import Period
from bussrv.audit.fold.tasks import Stripe, perform
from bussrv.audit.reading.sources import take_snapshot
from bussrv.audit.reading.stripes import sources_of
from bussrv.journal import batch
from bussrv.synth.journal import write_journal

BAR = 1.08
ROUNDS = 9
EVENTS = 200_000
MEMORY = Path("/dev/shm")


def write(directory: Path, *, has_tree: bool) -> None:
    """Write the journal."""
    if has_tree:
        write_journal(directory, events=EVENTS, server="hall")
        return

    made = batch.SegmentFile
    with patch.object(batch, "SegmentFile", lambda at, header, *more: made(at, replace(header, tree=None), *more)):
        write_journal(directory, events=EVENTS, server="hall")


def cpu(sources: Sequence[SegmentSource], place: Path) -> float:
    """Seconds of CPU of a fold."""
    task = Stripe(1, str(place), tuple(sources), frozenset({sources[0].taken}), Period(None, None), is_alone=True)
    begin = time.process_time()
    perform(task, {})
    spent = time.process_time() - begin
    shutil.rmtree(place)
    return spent


def main() -> int:
    """Measure, and print the ratios."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory(dir=str(MEMORY) if MEMORY.is_dir() else None) as name:
        root = Path(name)
        write(root / "old", has_tree=False)
        write(root / "new", has_tree=True)
        with take_snapshot([str(root / "old")]) as old, take_snapshot([str(root / "new")]) as new:
            (before,), (headers,) = sources_of(old), sources_of(new)
            ways = {
                "no tree": before,
                "trees in headers": headers,
                "trees of records": [replace(each, trees=()) for each in headers],
            }
            least = dict.fromkeys(ways, float("inf"))
            for number in range(rounds):
                for way in ways if number % 2 else reversed(ways):
                    least[way] = min(least[way], cpu(ways[way], root / "facts"))
    for way, spent in least.items():
        print(f"{way}: {spent / EVENTS * 1e6:.2f} us a record, {spent / least['no tree']:.3f} of no tree")
    is_met = least["trees in headers"] <= BAR * least["no tree"]
    print(f"bar {BAR} for trees in headers: {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
