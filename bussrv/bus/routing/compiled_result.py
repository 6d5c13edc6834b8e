"""The outcome of a stretch of input; see :mod:`bussrv.bus.routing.compiled`. Pure."""

from __future__ import annotations

from typing import NamedTuple

TAKEN, MORE, LOOK, PLAN, OPEN, WAY = range(6)
"""The verdicts of the compiled module: why a pass has ended."""


class Spliced(NamedTuple):
    """The outcome of a stretch.

    :ivar objects: how many were routed, or left out.
    :ivar verdict: why there were no more. ``TAKEN``: there may be more, after the sender's limits were looked at.
        ``MORE``: more bytes are needed. ``LOOK``: the next object has to be read.
    :ivar duplicates: how many were left out because they had come over another link before.
    """

    objects: int
    verdict: int
    duplicates: int = 0
