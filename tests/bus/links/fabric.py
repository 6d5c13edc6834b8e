"""Several servers in memory, linked by cables that can be unplugged; one clock that the test moves."""

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet import error
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import ITransport
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.formats.objects.dialing import DialedProtocol, LinkDialer
from bussrv.net.session.factory import StreamFactory
from bussrv.net.tls.link_tokens import TokenFile
from tests.formats.network import Connection, Member, Network

LATENCY = 0.001


@implementer(ITransport)
class End:
    """One end of a cable: what is written arrives at the other end after a while, in order."""

    def __init__(self, clock: Clock, latency: float, host: str = "127.0.0.1", tls: Any = None) -> None:
        self.host = host
        self.tls = tls
        self.other: End
        self.protocol: Any = None
        self._clock = clock
        self._latency = latency
        self._arrived: deque[bytes] = deque()
        self._paused = False
        self.is_open = True
        self.written = 0

    def write(self, data: bytes) -> None:
        if self.is_open:
            self.written += len(data)
            self.record(data)
            self._clock.callLater(self._latency, self.other.arrive, data)

    def record(self, data: bytes) -> None:
        """For a test that looks at what is sent."""

    def arrive(self, data: bytes) -> None:
        if self.is_open:
            self._arrived.append(data)
            self._hand_over()

    def _hand_over(self) -> None:
        while self._arrived and not self._paused and self.is_open:
            self.protocol.dataReceived(self._arrived.popleft())

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        self._clock.callLater(0, self._hand_over)

    def loseConnection(self) -> None:
        if self.is_open:
            self._clock.callLater(self._latency, self.other.lose, error.ConnectionDone())
            self._clock.callLater(0, self.lose, error.ConnectionDone())

    def abortConnection(self) -> None:
        self.loseConnection()

    def lose(self, reason: Exception) -> None:
        if self.is_open:
            self.is_open = False
            self.protocol.connectionLost(Failure(reason))

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", self.host, 1)

    def getHost(self) -> IPv4Address:
        return self.getPeer()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Never full."""

    def unregisterProducer(self) -> None:
        """Never full."""


class Cable:
    """Between two servers, of which the first dials; a client endpoint of Twisted.

    :param host: the address that each end has for the other.
    :param tls: what both ends have for TLS, if they have it.
    :ivar is_plugged: while it is not, nobody can connect.
    :ivar sent: all bytes that the dialing ends were given to send.
    """

    def __init__(
        self, clock: Clock, listener: Network, latency: float, host: str = "127.0.0.1", tls: Any = None
    ) -> None:
        self._about = host, tls
        self.sent = b""
        self.is_plugged = True
        self.attempts: list[float] = []
        self._clock = clock
        self._listener = listener
        self._latency = latency
        self._ends: list[End] = []

    def connect(self, factory: Any) -> Deferred[Any]:
        self.attempts.append(self._clock.seconds())
        if not self.is_plugged:
            return fail(error.ConnectionRefusedError())
        dialing, listening = (End(self._clock, self._latency, *self._about) for _ in range(2))
        dialing.record = self._record
        dialing.other, listening.other = listening, dialing
        self._ends = [dialing, listening]
        dialing.protocol = factory.buildProtocol(listening.getPeer())
        listening.protocol = self._listener.factory("objects").buildProtocol(listening.getPeer())
        listening.protocol.makeConnection(listening)
        dialing.protocol.makeConnection(dialing)
        return succeed(dialing.protocol)

    def _record(self, data: bytes) -> None:
        self.sent += data

    @property
    def is_open(self) -> bool:
        return any(end.is_open for end in self._ends)

    @property
    def written(self) -> int:
        """How many bytes the present connection was given, both routes."""
        return sum(end.written for end in self._ends)

    def unplug(self) -> None:
        """The connection breaks: what is under way is lost."""
        self.is_plugged = False
        for end in self._ends:
            end.lose(error.ConnectionLost())

    def plug(self) -> None:
        self.is_plugged = True


class Fabric:
    """Servers by name, and the cables between them."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.clock = Clock()
        self.servers = {name: Network(server_id=name, reactor=self.clock, **settings) for name in names}
        self.cables: dict[tuple[str, str], Cable] = {}
        self.dialers: list[LinkDialer] = []

    def __getitem__(self, name: str) -> Network:
        return self.servers[name]

    def link(
        self,
        dialer: str,
        listener: str,
        latency: float = LATENCY,
        token: TokenFile | None = None,
        host: str = "127.0.0.1",
        tls: Any = None,
    ) -> Cable:
        """Let one server dial another."""
        cable = self.cables[dialer, listener] = Cable(self.clock, self.servers[listener], latency, host, tls)
        service = LinkDialer(f"{dialer}-{listener}", cable, self.servers[dialer].bus, self.clock, token)
        service.startService()
        self.dialers.append(service)
        return cable

    def links(self, *pairs: str) -> None:
        """Cables for pairs such as ``ab``; settle."""
        for pair in pairs:
            self.link(pair[0], pair[1])
        self.settle()

    def settle(self, seconds: float = 1.0) -> None:
        """Let time pass, until everything that was said has arrived."""
        self.run(seconds)

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        end = self.clock.seconds() + seconds
        while not until():
            calls = self.clock.getDelayedCalls()
            due = min((call.getTime() for call in calls), default=end)
            if due > end:
                break
            self.clock.advance(max(0.0, due - self.clock.seconds()))
        self.clock.advance(max(0.0, end - self.clock.seconds()) if not until() else 0.0)

    def known(self, name: str) -> dict[str, str | None]:
        """The members that a server knows, with their homes."""
        state = self.servers[name].registry.state
        return {
            session.routing_id: session.home
            for session in state.sessions.values()
            if state.subscription(session.id, None) is not None
        }


# A linked server that a test plays itself.

SUBSCRIPTION = {"event": "routing/subscribe", "role": "server"}
WORDS = {"objects": "routing/subscribe/notify", "rules": "routing/subscribe/notification"}
DIALECTS = {"objects": {"receive_mode": "all"}, "rules": {"subscriptions": "all"}}


def ask(network, host="127.0.0.1", **fields):
    """Somebody who asked for a link, and every answer."""
    server = Member(network.connect("objects", host))
    server.send({**SUBSCRIPTION, **fields})
    return server, server.heads()


def dial(network, server_id, **fields):
    """Somebody whom ``network`` dialed."""
    protocol = StreamFactory(DialedProtocol, network.bus, network.reactor).buildProtocol(None)
    connection = Connection(protocol, "127.0.0.1")
    connection.protocol.linked.addErrback(lambda _: None)
    server = Member(connection)
    server.routing_id = server_id
    server.send({**SUBSCRIPTION, "routing-id": server_id, **fields})
    return server


def notify(server, routing_id, **fields):
    about = {"routing-id": routing_id, "routing-ids": [], "route": [server.routing_id], **fields}
    server.send({"event": "routing/subscribe/notify", **about})


def provide(server, routing_id, name, **fields):
    server.send({"event": "services/register", "name": name, "route": [routing_id, server.routing_id], **fields})


def leave(server, routing_id):
    server.send({"event": "routing/disconnect", "routing-id": routing_id, "route": [server.routing_id]})


def say(server, *route, payload=b"", **fields):
    """An object that passed ``route`` before that server."""
    named = {key.replace("_", "-"): value for key, value in fields.items()}
    server.send({"type": "text/plain", **named, "route": [*route, server.routing_id]}, payload)


def about(head):
    return head["event"], head.get("name", head.get("routing-id")), head["route"]


def homes(network):
    return {session.routing_id: session.home for session in network.registry.state.sessions.values() if session.home}
