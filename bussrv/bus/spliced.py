"""What came of a stretch of input; see :mod:`bussrv.bus.splicing`. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Verdict(IntEnum):
    """Why a pass has ended, as the compiled module says it."""

    TAKEN = 0
    MORE = 1
    LOOK = 2
    PLAN = 3
    OPEN = 4


class Spliced(NamedTuple):
    """What came of a stretch.

    :ivar objects: how many were routed.
    :ivar verdict: why there were no more. ``TAKEN``: there may be more, after the sender's limits were looked at.
    """

    objects: int
    verdict: Verdict
