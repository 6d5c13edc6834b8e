"""The real server in memory, among clients of which each takes what it is sent at its own pace.

Only what a reactor does to a server is done to it here: connections are made and lost, chunks come, time passes, and a
transport says when it is full. What the server makes of that between two turns of the reactor is its own business; what
it has sent is looked at when a turn has ended.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

import bussrv.embedding.pipe as whole
from bussrv.bus.routing.object_ids import ObjectIds
from tests.formats.network import Network

CLIENT, SERVED = IPv4Address("TCP", "10.0.0.1", 4711), IPv4Address("TCP", "10.0.0.254", 7890)

BUFFER = 100
"""How many bytes a transport takes before it says that it is full; of Twisted's own, 64 KiB."""


class Pipe(whole.Pipe):
    """A connection whose client takes what it is sent at its own pace.

    :ivar delivered: what the client took.
    :ivar cut: those pipes of a server that were cut, in order; shared by all of them.
    """

    def __init__(self, reactor: Clock, cut: list[Pipe]) -> None:
        super().__init__(reactor, CLIENT, SERVED, room=BUFFER)
        self.delivered = b""
        self._cut = cut

    @property
    def connected(self) -> bool:
        return self.is_open and not self.is_cut

    def abortConnection(self) -> None:
        if self.connected:
            self._cut.append(self)
        super().abortConnection()

    def deliver(self, most: int | None = None) -> bool:
        """Let the client take what was sent, or the first ``most`` bytes. :returns: whether there was anything."""
        taken = self.take(most)
        self.delivered += taken
        return bool(taken)


class Arena(Network):
    """A server; the ids that it makes can be told from all others.

    :ivar cut: the connections that the server cut because their clients read too slowly, in order.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.cut: list[Pipe] = []

    def _new_id(self) -> str:
        self._made += 1
        return f"~{self._made:06}"

    def ids(self) -> ObjectIds:
        return ObjectIds("~5", 5)

    def pipe(self, kind: str) -> Pipe:
        """A new connection."""
        pipe = Pipe(self.reactor, self.cut)
        protocol = self.factory(kind).buildProtocol(pipe.getPeer())
        # A client that does not read is cut in the same turn.
        protocol.LAST_WORDS = 0
        pipe.connect(protocol)
        return pipe

    def end_turn(self, reading: list[Pipe]) -> None:
        """Do what is due, and let those that read take everything, until nothing moves any more."""
        while True:
            self.reactor.advance(0)
            now = self.reactor.seconds()
            # Every pipe is asked: what one takes may be what another waits for.
            moved = [pipe.deliver() for pipe in reading if pipe.connected]
            if not any(moved) and not any(call.getTime() <= now for call in self.reactor.getDelayedCalls()):
                return
