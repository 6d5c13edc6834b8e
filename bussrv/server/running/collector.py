"""The settings of Python's garbage collector for a server."""

from __future__ import annotations

import gc
import sys

YOUNG = 20_000
"""The number of new objects that starts a collection of young objects."""

OLDER = 1 if sys.version_info < (3, 14) else 10
"""After more collections of young objects than this, those that were left are collected, too, all in one go. So each
takes a quarter of the time that it would take with Python's 10, and all of them together no longer. Python 3.14
collects older objects a part at a time.
"""

ALL = 60
"""After more collections of older objects than this, all objects are collected that came after the start. That takes
as long as there are sessions, so it is done as rarely as with YOUNG, 10 and 10.
"""


def tune_collector() -> None:
    """Make collections rarer.

    A bus makes many short-lived objects that wait in queues. By default, Python looks through all of them for every 700
    new ones, which costs more than writing the journal. Objects that exist when the server starts are never looked at.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, ALL)
