"""Ports that many connect to at once, and ports that cannot accept a connection.

A flood of connections is accepted a few at a time, so that clients are served in between. How many sessions there may
be, and how many of one address, is decided when they open: by :mod:`bussrv.bus.sessions.admission`.

A port mostly cannot accept because too many files are open.
Twisted then closes what it can and logs each connection; if it cannot even do that, it tries again at once, for ever.
Here the log has a line now and then, and a port that can accept nothing rests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.protocol import Protocol
from twisted.logger import ILogObserver, LogEvent, Logger
from zope.interface import implementer

from bussrv.counts.throttle import Throttle

REST = 0.2
"""Seconds that a port rests when it could accept nothing."""

MOST_ACCEPTED = 8
"""The most connections that a port accepts in one turn of the reactor: each opens a session."""

LOG_RATE = 0.1

log = Logger()


class ClosedAtOnce(Protocol):
    """A connection that there is no room for: not even for saying so."""

    def connectionMade(self) -> None:
        """Close it."""
        self.transport.abortConnection()  # type: ignore[union-attr]


@implementer(ILogObserver)
class AcceptErrors:
    """Observes the errors of a port that cannot accept connections. Logs them at a limited rate, and rests the port.

    :param name: the name of the port in the log.
    """

    def __init__(self, port: Any, name: str, reactor: Any) -> None:
        self._port = port
        self._name = name
        self._reactor = reactor
        self._throttle = Throttle(LOG_RATE, 1, reactor.seconds)

    def __call__(self, event: LogEvent) -> None:
        """An event of the log."""
        nobody_was_accepted = "acceptError" in event
        if nobody_was_accepted:
            self._port.stopReading()
            self._reactor.callLater(REST, self._go_on)
        elif "address" not in event:
            return  # What Twisted does about its reserved descriptor.
        suppressed = self._throttle.admit("")
        if suppressed is not None:
            log.error(
                "{name}: connections are closed or have to wait: {why} ({suppressed} more not logged)",
                event="connections.waiting",
                name=self._name,
                why=event.get("acceptError", "too many open files"),
                suppressed=suppressed,
            )

    def _go_on(self) -> None:
        if self._port.connected and not self._port.disconnecting:
            self._port.startReading()


def _accept_few(port: Any, accept: Callable[[], object]) -> object:
    # Twisted raises the number while all of it is used.
    port.numberAccepts = min(port.numberAccepts, MOST_ACCEPTED)
    return accept()


def watch_accepting(port: Any, name: str, reactor: Any) -> None:
    """Let ``port`` accept few connections at a time, say what it cannot accept in few lines, and rest."""
    if hasattr(port, "numberAccepts"):
        port.doRead = partial(_accept_few, port, port.doRead)
    if hasattr(port, "_logger"):
        port._logger = Logger(namespace=__name__, observer=AcceptErrors(port, name, reactor))
