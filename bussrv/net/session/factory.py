"""Makes the protocols of the connections of one port, or of the links that this server dials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from bussrv.bus.interfaces import IBus
from bussrv.net.session.protocol import StreamProtocol
from bussrv.net.transport.accepting import ClosedAtOnce
from bussrv.net.transport.complaints import Complaints
from bussrv.registry.state.naming import named_in


class StreamFactory(Factory):
    """Makes a protocol for each connection.

    :param protocol: the class of the protocols.
    :ivar name: the wire format.
    :ivar bus: the bus.
    :ivar protocols: the protocols of open connections.
    :ivar complaints: lines of log about clients, limited for each address.
    :ivar in_turns: whether frames that several connections bring in one reactor turn are sent together. A port sets it.
        Connections that this server dials send their frames at once.
    """

    noisy = False
    in_turns = False

    def __init__(self, protocol: type[StreamProtocol], bus: IBus, reactor: Any) -> None:
        self.protocols: set[StreamProtocol] = set()
        bus.streams.connections.append(self.protocols)
        self.complaints = Complaints(protocol.FORMAT, reactor.seconds, partial(named_in, bus.registry.state))
        self.name = protocol.FORMAT
        self._protocol = protocol
        self.bus = bus
        self._reactor = reactor

    def buildProtocol(self, addr: Any) -> Any:
        """A protocol for a new connection. If the wire format fails to make one, a protocol that closes it."""
        try:
            return self.if_there_is_room(self.make)
        except Exception:
            self.bus.counters["internal-error"] += 1
            self.complaints.broken("that was to open", "a new connection", Failure())
            return ClosedAtOnce()

    def if_there_is_room(self, make: Callable[[], Any]) -> Any:
        """The result of ``make`` for a new connection. If descriptors are short, a protocol that closes it."""
        if self.in_turns and self.bus.streams.is_crowded:
            self.bus.counters["no-descriptors"] += 1
            return ClosedAtOnce()
        return make()

    def make(self) -> StreamProtocol:
        """A protocol for a connection that is let in."""
        return self.make_of(self._protocol)

    def make_of(self, kind: type[StreamProtocol]) -> StreamProtocol:
        """A protocol of a class for a connection that is let in, at this port or at another one."""
        protocol = kind(self.bus, self._reactor)
        protocol.factory = self
        return protocol
