"""Limits that a part of the server keeps a copy of, because it looks at them for every object or datagram."""

from __future__ import annotations

from collections.abc import Callable

from zope.interface import implementer

from bussrv.bus.interfaces import IReloadable


@implementer(IReloadable)
class CopiedLimits:
    """Copies of settings, made again after each reload.

    :param copy: makes them; cannot fail.
    """

    name = "limits"

    def __init__(self, copy: Callable[[], None]) -> None:
        self._copy = copy

    def prepare(self) -> Callable[[], None]:
        """Nothing is read; see :class:`bussrv.bus.interfaces.IReloadable`."""
        return self._copy
