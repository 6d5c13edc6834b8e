"""``bus/clock``: the time of the server in UTC, every second while subscribed to: ``2026-11-21T14:02:03.000123Z``."""

from __future__ import annotations

from twisted.internet.task import LoopingCall
from zope.interface import implementer

from bussrv.plugin import IServiceHost, IServiceObject, format_time

INTERVAL = 1.0
"""Seconds between updates."""


@implementer(IServiceObject)
class ClockService:
    """The time of day."""

    def __init__(self, host: IServiceHost) -> None:
        self._host = host
        self._ticking = LoopingCall(lambda: host.publish(self.snapshot()))
        self._ticking.clock = host.reactor

    def snapshot(self) -> bytes:
        """The time now."""
        return format_time(self._host.bus.utc()).encode()

    def first_subscriber_came(self) -> None:
        """Publish the time every second from now on."""
        self._ticking.start(INTERVAL, now=False)

    def last_subscriber_left(self) -> None:
        """Publish no longer."""
        self._ticking.stop()


make = ClockService
"""See :meth:`bussrv.interfaces.IHostedService.make`."""
