"""Resources that the connections of all stream formats share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

from bussrv.memory.limits import MemoryLimit
from bussrv.memory.send_turns import SendTurns
from bussrv.settings import Settings
from bussrv.turns.slices import Slices, by_steps


class Expiring(Protocol):
    """The certificates of one end that speaks TLS."""

    @property
    def file(self) -> Path | None:
        """The file of the certificate that expires first; ``None``: there is no file."""

    def days_left(self) -> int | None:
        """Whole days until it expires, less than 0 after that; ``None``: there is none."""


class ConnectionResources:
    """Resources that the connections of all stream formats share.

    :ivar outflow: schedules long backlogs.
    :ivar inbound: memory of unfinished input.
    :ivar outbound: memory of output that slow clients have not taken.
    :ivar connections: the connections of each wire format, also closing ones.
    :ivar certificates: those of each end that speaks TLS, by its name.
    :ivar subprotocols: makes the protocol of a connection over WebSocket, by the subprotocol that its client offers.
        Each wire format that is served there, besides Object System, puts itself here.
    :ivar most_connections: the most connections that the system has descriptors for.
    """

    def __init__(self, settings: Settings, slices: Slices, reactor: Any) -> None:
        def do(steps: Iterator[None]) -> None:
            slices.do(by_steps(steps, reactor.seconds))

        def do_later(steps: Iterator[None]) -> None:
            # A chunk that is being sent now is kept in memory by its sender.
            reactor.callLater(0, do, steps)

        self._settings = settings
        self.outflow = SendTurns(reactor)
        self.inbound = MemoryLimit(settings.max_inbound_total, do)
        self.outbound = MemoryLimit(settings.max_outbound_total, do_later)
        self.connections: list[Collection[object]] = []
        self.certificates: dict[str, Expiring] = {}
        self.subprotocols: dict[str, Callable[[], Any]] = {}
        self.most_connections = sys.maxsize

    def copy_limits(self) -> None:
        """Take the limits of the settings again."""
        self.inbound.most = self._settings.max_inbound_total
        self.outbound.most = self._settings.max_outbound_total

    @property
    def is_crowded(self) -> bool:
        """Whether there may be no further connection."""
        return sum(map(len, self.connections)) >= self.most_connections
