"""How Python's garbage collector is set for a server."""

from __future__ import annotations

import gc

YOUNG = 20_000
"""How many more objects there have to be before the collector looks at the young ones."""


def tune_collector() -> None:
    """Let the collector look less often.

    A bus makes many objects that wait a moment in queues and go away by themselves; with its defaults the collector
    looks through all that wait every 700 of them, which costs more than writing the journal. What is there when the
    server starts stays, and is not looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
