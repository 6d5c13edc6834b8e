"""The outcome of a stretch of input; see :mod:`bussrv.bus.splicing`. Pure."""

from __future__ import annotations

from typing import NamedTuple

TAKEN, MORE, LOOK, PLAN, OPEN = range(5)
"""The verdicts of the compiled module: why a pass has ended."""


class Spliced(NamedTuple):
    """The outcome of a stretch.

    :ivar objects: how many were routed.
    :ivar verdict: why there were no more. ``TAKEN``: there may be more, after the sender's limits were looked at.
        ``MORE``: more bytes are needed. ``LOOK``: the next object has to be read.
    """

    objects: int
    verdict: int
