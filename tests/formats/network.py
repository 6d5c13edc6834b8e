"""A server in memory: transports that are strings, a clock that the test moves, a journal that it holds back.

``MemoryServer`` of ``bussrv.testing`` has whole ports, and takes three to five times as long to start. Hypothesis
starts thousands of these here. A test of a format also pauses a transport, lets a write fail, or gives the server
parts of its own: an earlier state, a spool, a clock that several share. So this server stays small, and has no ports.
"""

from collections.abc import Sequence
from functools import partial
from ipaddress import ip_network
from typing import Any

from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection

from bussrv import events as ev
from bussrv.bus.bus import Bus
from bussrv.bus.routing.object_ids import ObjectIds
from bussrv.bus.sessions.left_open import settle_left_open
from bussrv.bus.sessions.membership import MembershipAnnouncer
from bussrv.events import Event
from bussrv.formats.inbus.server import InbusServer
from bussrv.formats.mqtt.over_websocket import MqttSocketProtocol
from bussrv.formats.mqtt.port import make_factory
from bussrv.formats.objects.business import BusinessProtocol
from bussrv.formats.objects.object_system import ObjectsProtocol
from bussrv.formats.objects.servers import ServersProtocol
from bussrv.formats.spp.protocol import SppFactory
from bussrv.formats.websocket.protocol import WebSocketProtocol
from bussrv.net.session.factory import StreamFactory
from bussrv.net.session.protocol import StreamProtocol
from bussrv.policy.logins.identity import UsersOfNetworks
from bussrv.registry.changes.registry import Registry
from bussrv.registry.state.state import RegistryState
from bussrv.settings import Settings
from bussrv.testing.journal import SteeredJournal
from bussrv.testing.spool import PromptSpool
from bussrv.wire import inbus, spp
from bussrv.wire.objects import ObjectReader, encode
from tests.journal.support import fold

SERVER = "hall"
Said = tuple[dict[str, Any], bytes]


class MovedClock:
    """The time of day of a Twisted clock that is moved by hand."""

    def __init__(self, reactor: Clock) -> None:
        self._reactor = reactor

    def utc(self) -> int:
        return 1_700_000_000_000_000 + self.mono()

    def mono(self) -> int:
        return int(self._reactor.seconds() * 1_000_000)


class Transport(StringTransportWithDisconnection):
    """Also knows whether it is full, and whether the connection was cut."""

    aborted = False

    def abortConnection(self) -> None:
        self.aborted = True
        self.loseConnection()


class Network:
    """One server.

    :param state: what a journal said of an earlier boot.
    :param seconds: what the clock shows.
    :param reactor: the clock, when several servers share it.
    :param inbus_users: the users that Inbus clients are.
    :param spool: that of an earlier boot.
    :param boot: the id of this one.
    :ivar proving: attributes by which members prove who they are.
    """

    def __init__(
        self,
        state: RegistryState | None = None,
        seconds: float = 0,
        *,
        server_id: str = SERVER,
        reactor: Clock | None = None,
        inbus_users: UsersOfNetworks = (),
        spool: PromptSpool | None = None,
        boot: str = "",
        **settings: Any,
    ) -> None:
        self.reactor = Clock() if reactor is None else reactor
        self.reactor.advance(seconds)
        clock = MovedClock(self.reactor)
        self._boot = boot or (("boot" if server_id == SERVER else server_id) if state is None else "next")
        self._given = settings
        self.server_id = server_id
        self.journal = SteeredJournal()
        self._made = 0
        limits = Settings(**{"link_allow": (ip_network("127.0.0.0/8"),), **settings})
        self.registry = Registry(
            self.journal, clock, self._new_id, server_id=server_id, boot=self._boot, state=state, settings=limits
        )
        self.bus = Bus(self.registry, limits, server_id, self._new_id, clock, self.reactor, ids=self.ids())
        self.bus.spool = PromptSpool(limits, self.bus.counters, clock.utc, self.reactor) if spool is None else spool
        self.registry.observe(MembershipAnnouncer(self.bus), MembershipAnnouncer.KINDS)
        self.journal.tell_between(self.bus.streams.outflow.hold, self.bus.streams.outflow.release)
        self.proving: dict[str, str] = {}
        self._factories = {
            "objects": StreamFactory(ObjectsProtocol, self.bus, self.reactor),
            "business": StreamFactory(BusinessProtocol, self.bus, self.reactor),
            "servers": StreamFactory(ServersProtocol, self.bus, self.reactor),
            "spp": SppFactory(self.bus, self.reactor),
            "websocket": StreamFactory(WebSocketProtocol, self.bus, self.reactor),
            "mqtt": make_factory(self.bus, self.reactor),
        }
        self.bus.streams.subprotocols["mqtt"] = partial(self._factories["mqtt"].make_of, MqttSocketProtocol)
        self.bus.identity.use([], networks={"inbus": inbus_users})
        self.udp = DatagramPort(InbusServer(self.bus, self.reactor))

    def restarted(self) -> "Network":
        """The server after a crash: with its journal and its spool, and without anything else."""
        state, spool = fold(self.journal.records), self.bus.spool
        assert isinstance(spool, PromptSpool)
        later = Network(state, self.reactor.seconds(), spool=spool, boot=f"{self._boot}-", **self._given)
        spool.restart(later.reactor)
        later.journal.records += self.journal.records
        later.factory("mqtt").clients.recover()  # type: ignore[attr-defined]
        settle_left_open(later.bus, later._factories)
        later.reactor.advance(0)
        return later

    def _new_id(self) -> str:
        self._made += 1
        return f"{self._boot}-{self._made}"

    def ids(self) -> ObjectIds:
        """Of objects that come without one."""
        return ObjectIds(f"{self._boot}-o", 1)

    def factory(self, name: str) -> StreamFactory:
        return self._factories[name]

    def connect(self, name: str, host: str | None = "10.0.0.1") -> "Connection":
        return Connection(self._factories[name].buildProtocol(None), host)

    def member(self, **subscription: Any) -> "Member":
        """A subscribed member of Object System, whose subscription was answered."""
        member = Member(self.connect("objects"))
        member.send({"event": "routing/subscribe", **self.proving, **subscription})
        member.routing_id = member.only_reply()["routing-id"]
        return member

    def server(self, server_id: str = "cellar", **subscription: Any) -> "Member":
        """A linked server that the test plays: it has dialed, and was told what there is to tell."""
        server = Member(self.connect("objects", "127.0.0.1"))
        asked = {"role": "server", "routing-id": server_id, "subscriptions": ["*"], **subscription}
        server.send({"event": "routing/subscribe", **asked})
        reply, subscribed, *_ = server.heads()
        assert reply["event"] == "routing/subscribe/reply"
        assert (subscribed["event"], subscribed["role"]) == ("routing/subscribe", "server")
        server.routing_id = server_id
        return server

    def business(self, **registration: Any) -> "Member":
        member = Member(self.connect("business"))
        member.send({"event": "client/register", **self.proving, **registration})
        member.routing_id = member.only_reply()["routing-id"]
        return member

    def watcher(self) -> "Watcher":
        return Watcher(self.connect("spp"))

    def events(self, *kinds: type[Event]) -> list[Event]:
        """What the journal holds of these kinds."""
        return [record.event for record in self.journal.records if isinstance(record.event, kinds)]


class Connection:
    """The client's end of a connection."""

    def __init__(self, protocol: StreamProtocol, host: str | None = "10.0.0.1") -> None:
        self.protocol = protocol
        peer = UNIXAddress(None) if host is None else IPv4Address("TCP", host, 4711)
        self.transport = Transport(peerAddress=peer)
        self.transport.protocol = protocol
        protocol.makeConnection(self.transport)

    def send_bytes(self, data: bytes) -> None:
        self.protocol.dataReceived(data)

    def send(self, data: bytes) -> None:
        self.send_bytes(data)

    def take(self) -> bytes:
        """What was sent since the last time, with what goes at the end of the turn."""
        self.protocol.reactor.advance(0)
        data: bytes = self.transport.value()
        self.transport.clear()
        return data

    @property
    def is_open(self) -> bool:
        return bool(self.transport.connected)

    def close(self) -> None:
        self.transport.loseConnection()


class Member:
    """A client of the object network."""

    routing_id = ""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._reader = ObjectReader()
        self._reader.expect_server()

    def send(self, fields: dict[str, Any], payload: bytes = b"") -> None:
        self.connection.send_bytes(encode(fields, payload))

    def received(self) -> list[Said]:
        """Everything since the last time."""
        self._reader.feed(self.connection.take())
        found = []
        while (event := self._reader.next_event()) is not None:
            found.append((event.fields(), event.payload))
        return found

    def heads(self) -> list[dict[str, Any]]:
        return [fields for fields, _ in self.received()]

    def names(self) -> list[str]:
        """The event, or the type of content, of everything since the last time."""
        return [fields.get("event", fields.get("type")) for fields in self.heads()]

    def only_reply(self) -> dict[str, Any]:
        (fields,) = self.heads()
        return fields


class Watcher:
    """A client of SPP."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._reader = spp.SppReader("server")

    def subscribe(self, service: str) -> None:
        self.connection.send_bytes(spp.subscribe(service))

    def unsubscribe(self, service: str) -> None:
        self.connection.send_bytes(spp.unsubscribe(service))

    def received(self) -> list[spp.Event]:
        self._reader.feed(self.connection.take())
        found = []
        while (event := self._reader.next_event()) is not None:
            found.append(event)
        return found

    def messages(self) -> list[bytes]:
        return [event.message for event in self.received() if isinstance(event, spp.Info)]


class DatagramPort:
    """The network's end of a UDP port."""

    def __init__(self, server: InbusServer) -> None:
        self.server = server
        self.sent: list[tuple[bytes, tuple[str, int]]] = []
        self.failing: Exception | None = None
        server.transport = self
        server.startProtocol()

    def getHost(self) -> IPv4Address:
        return IPv4Address("UDP", "10.0.0.1", 7222)

    def write(self, datagram: bytes, address: tuple[str, int]) -> None:
        if self.failing is not None:
            raise self.failing
        self.sent.append((datagram, address))

    def receive(self, datagram: bytes, source: str = "10.0.0.2") -> None:
        self.server.datagramReceived(datagram, (source, 40_000))

    def subscribe(self, app_key: str, port: int = 5000, version: int = 2, host: str = "10.0.0.2") -> None:
        self.receive(inbus.subscribe(app_key, host, port, version), host)

    def unsubscribe(self, app_key: str, port: int = 5000, host: str = "10.0.0.2") -> None:
        self.receive(inbus.unsubscribe(app_key, host, port), host)

    def publish(
        self, app_key: str, payload: bytes, app_type: int = 1, version: int = 2, source: str = "10.0.0.3"
    ) -> None:
        self.receive(inbus.publish(app_key, app_type, payload, version), source)

    def taken(self) -> list[tuple[bytes, tuple[str, int]]]:
        sent, self.sent = self.sent, []
        return sent

    def payloads(self) -> list[bytes]:
        return [inbus.decode(datagram).payload for datagram, _ in self.taken()]


def drain(members: Sequence[Member]) -> None:
    """Forget what the members were told so far."""
    for member in members:
        member.received()


def limits(network: Network) -> list[tuple[str, int, str | None, str | None]]:
    """The limits that the journal says were hit: which, what it is set to, why, and from where."""
    return [(event.limit, event.value, event.reason, event.peer) for event in network.events(ev.LimitReached)]
