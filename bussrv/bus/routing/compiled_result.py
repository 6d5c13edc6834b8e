"""The outcome of a stretch of input; see :mod:`bussrv.bus.routing.compiled`. Pure."""

from __future__ import annotations

from typing import NamedTuple

CONTINUE, INCOMPLETE, NEEDS_PYTHON, NO_PLAN, MUST_OPEN, ROUTE_CHANGED = range(6)
"""The verdicts of the compiled module: why a pass has ended."""


class ScanResult(NamedTuple):
    """The outcome of a stretch.

    :ivar objects: how many were routed, or left out.
    :ivar verdict: why there were no more. ``CONTINUE``: there may be more, after the sender's limits were looked at.
        ``INCOMPLETE``: more bytes are needed. ``NEEDS_PYTHON``: the next object has to be read.
    :ivar duplicates: how many were left out because they had come over another link before.
    """

    objects: int
    verdict: int
    duplicates: int = 0
