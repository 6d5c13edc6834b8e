"""Ports: what listens, what it says of itself, and what stopping it ends."""

from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock
from zope.interface.verify import verifyObject

from bussrv import events as ev
from bussrv.errors import ConfigError
from bussrv.formats.inbus import server as inbus
from bussrv.formats.objects import business
from bussrv.formats.objects import object_system as objects
from bussrv.formats.spp import protocol as spp
from bussrv.formats.websocket import protocol as websocket
from bussrv.interfaces import IListener, IWireFormat
from bussrv.memory.bundle import Bundle
from bussrv.net.listening import parse_udp
from bussrv.server.configuration.option_kinds import OFF
from bussrv.server.configuration.plugins import installed
from bussrv.wire import inbus as datagrams
from bussrv.wire.objects import encode
from tests.formats.network import Connection, Network
from tests.formats.websocket.browser import SocketConnection
from tests.tables import each_row

FORMATS = {"objects": objects, "business": business, "spp": spp, "inbus": inbus, "websocket": websocket}
QUEUED = encode({"event": "queued"})
STREAMS = ("objects", "business", "spp", "websocket")


class UdpPort:
    """Also the transport of the protocol that is bound to it."""

    def __init__(self, number: int, protocol: Any, interface: str) -> None:
        self.where = (number, interface)
        self.protocol = protocol
        self.sent: list[bytes] = []

    def getHost(self) -> IPv4Address:
        return IPv4Address("UDP", self.where[1], self.where[0])

    def write(self, datagram: bytes, address: tuple[str, int]) -> None:
        self.sent.append(datagram)

    def stopListening(self) -> Deferred[None]:
        self.protocol.transport = None
        return succeed(None)


class Reactor(MemoryReactorClock):
    """With UDP, which the one of Twisted lacks; ``busy`` says that no port is free."""

    busy = False

    def __init__(self) -> None:
        super().__init__()
        self.stopped: list[int] = []
        self.udp_ports: list[UdpPort] = []

    def listenTCP(self, port: int, *arguments: Any, **more: Any) -> Any:
        if self.busy:
            raise CannotListenError("127.0.0.1", port, OSError(98, "in use"))
        bound = super().listenTCP(port, *arguments, **more)
        bound.stopListening = lambda: self.stopped.append(port)
        return bound

    def listenUDP(self, port: int, protocol: Any, interface: str = "", **more: int) -> UdpPort:
        if self.busy:
            raise CannotListenError(interface, port, OSError(98, "in use"))
        assert more["maxPacketSize"] > datagrams.MAX_DATAGRAM
        bound = UdpPort(port, protocol, interface)
        self.udp_ports.append(bound)
        protocol.transport = bound
        protocol.startProtocol()
        return bound


def listener(network: Network, name: str, reactor: Reactor) -> IListener:
    kind = "udp" if name == "inbus" else "tcp"
    made: IListener = FORMATS[name].listen(network.bus, f"{kind}:7000:interface=127.0.0.1", reactor)
    return made


def test_what_is_installed_provides_the_interfaces() -> None:
    found = installed().formats
    assert {each.name for each in found} >= FORMATS.keys()
    for each in found:
        assert verifyObject(IWireFormat, each)
        endpoint = "tcp:7000" if each.default_endpoint == OFF else each.default_endpoint
        assert verifyObject(IListener, each.listen(Network().bus, endpoint, Reactor()))


@each_row("name", FORMATS)
def test_it_listens_where_it_is_told_to(name: str) -> None:
    network, reactor = Network(), Reactor()
    made = listener(network, name, reactor)
    made.startService()
    if name == "inbus":
        assert made.address == "udp 127.0.0.1:7000"
        assert reactor.udp_ports[0].where == (7000, "127.0.0.1")
    else:
        assert made.address == "tcp 0.0.0.0:7000"
        assert reactor.tcpServers[0][0] == 7000
        assert reactor.tcpServers[0][3] == "127.0.0.1"


@each_row("name", FORMATS)
def test_a_busy_port_is_said_at_once(name: str) -> None:
    reactor = Reactor()
    reactor.busy = True
    with pytest.raises(CannotListenError):
        listener(Network(), name, reactor).startService()


@each_row("name", FORMATS)
@each_row("endpoint", ["", "nonsense", "nonsense:1", "tcp:", "tcp:x"])
def test_what_is_no_endpoint_is_refused(name: str, endpoint: str) -> None:
    with pytest.raises(ConfigError, match="is not"):
        FORMATS[name].listen(Network().bus, endpoint, Reactor())


@each_row(
    ("endpoint", "where"),
    [
        ("udp:7222", (7222, "")),
        ("udp:0:interface=127.0.0.1", (0, "127.0.0.1")),
        (r"udp:7222:interface=\:\:1", (7222, "::1")),
        (r"udp:7222:interface=\:\:", (7222, "::")),
        ("udp:7222:interface=::1", (7222, "::1")),
    ],
)
def test_endpoints_of_udp(endpoint: str, where: tuple[int, str]) -> None:
    """Colons of IPv6 as Twisted wants them, and as people write them."""
    assert parse_udp(endpoint) == where


@each_row("endpoint", ["udp:65536", "udp:-1", "udp:7222:interface=lo", "udp:7222:interface=10.0.0"])
def test_what_is_no_endpoint_of_udp_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="is not"):
        parse_udp(endpoint)


@each_row("name", STREAMS)
def test_stopping_ends_every_connection_and_waits_for_it(name: str) -> None:
    network, reactor = Network(), Reactor()
    made = listener(network, name, reactor)
    made.startService()
    # A session of WebSocket begins with its request.
    connect = SocketConnection if name == "websocket" else Connection
    quick, slow = (connect(reactor.tcpServers[0][1].buildProtocol(None)) for _ in range(2))
    slow.protocol.link.pauseProducing()
    slow.protocol.link.send(Bundle([QUEUED]))
    stopping = made.stopService()
    assert reactor.stopped == [7000]
    assert (quick.is_open, slow.is_open, stopping.called) == (False, True, False)
    assert {event.reason for event in network.events(ev.SessionClosed)} == {"server-stopped"}
    assert network.registry.state.sessions == {}
    slow.protocol.link.resumeProducing()
    assert slow.take().endswith(QUEUED)
    assert (slow.is_open, stopping.called) == (False, True)


def test_stopping_inbus_ends_publishers_and_keeps_subscribers() -> None:
    network, reactor = Network(), Reactor()
    made = listener(network, "inbus", reactor)
    made.startService()
    server = reactor.udp_ports[0].protocol
    server.datagramReceived(datagrams.subscribe("a", "10.0.0.2", 5000), ("10.0.0.2", 1))
    server.datagramReceived(datagrams.publish("a", 1, b"x"), ("10.0.0.3", 1))
    assert reactor.udp_ports[0].sent == [datagrams.publish("a", 1, b"x")]
    assert made.stopService().called
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.peer, closed.reason) == ("10.0.0.3", "server-stopped")
    assert [session.peer for session in network.registry.state.sessions.values()] == ["10.0.0.2:5000"]
    assert reactor.getDelayedCalls() == []


@each_row("name", FORMATS)
def test_what_never_started_stops(name: str) -> None:
    assert listener(Network(), name, Reactor()).stopService().called
