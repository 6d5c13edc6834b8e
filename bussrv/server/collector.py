"""The settings of Python's garbage collector for a server."""

from __future__ import annotations

import gc

YOUNG = 20_000
"""The number of new objects that starts a collection of young objects."""


def tune_collector() -> None:
    """Make collections rarer.

    A bus makes many short-lived objects that wait in queues. By default, Python looks through all of them for every 700
    new ones, which costs more than writing the journal. Objects that exist when the server starts are never looked at.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
