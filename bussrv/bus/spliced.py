"""The outcome of a stretch of input; see :mod:`bussrv.bus.splicing`. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Verdict(IntEnum):
    """The reason why a pass of the compiled module has ended."""

    TAKEN = 0
    MORE = 1
    LOOK = 2
    PLAN = 3
    OPEN = 4


class Spliced(NamedTuple):
    """The outcome of a stretch.

    :ivar objects: how many objects were routed.
    :ivar verdict: the reason of its end. ``TAKEN``: there may be more objects, after the sender's limits are checked.
    """

    objects: int
    verdict: Verdict
