"""``haproxy:`` endpoints: a session begins when the proxy has said whose it is, and has that address."""

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.logger import capturedLogs, formatEvent

from bussrv import events as ev
from bussrv.net.transport.proxied import HEADER_TIMEOUT, ProxiedFactory
from bussrv.wire import spp
from bussrv.wire.mqtt.packets import Connect
from bussrv.wire.mqtt.writer import encode as encode_packet
from bussrv.wire.objects import ObjectReader, encode
from bussrv.wire.proxy import SIGNATURE
from tests.formats.network import Network, Transport
from tests.formats.spp.test_protocol import service
from tests.tables import each_row
from tests.wire.test_websocket import REQUEST, frame

PROXY = IPv4Address("TCP", "10.0.0.250", 40_000)
V1 = b"PROXY TCP4 192.0.2.7 10.0.0.1 5555 3002\r\n"
V2 = (
    SIGNATURE
    + b"\x21\x21\x00\x24"
    + bytes.fromhex("20010db8000000000000000000000007")
    + bytes(16)
    + (5555).to_bytes(2, "big")
    + (3002).to_bytes(2, "big")
)
LOCAL = SIGNATURE + b"\x20\x00\x00\x00"
UNKNOWN = b"PROXY UNKNOWN\r\n"
MAPPED = b"PROXY TCP6 ::ffff:c000:207 ::ffff:a00:1 5555 3002\r\n"


class Proxied:
    """The proxy's end of a connection."""

    def __init__(self, network: Network, name: str = "spp") -> None:
        self.factory = ProxiedFactory(network.factory(name), network.reactor)
        self.transport = Transport(peerAddress=PROXY)
        self.protocol: Any = self.factory.buildProtocol(PROXY)
        self.transport.protocol = self.protocol
        self.protocol.makeConnection(self.transport)

    def send(self, data: bytes) -> None:
        self.protocol.dataReceived(data)


def pending(network: Network) -> int:
    """How many calls wait, the sweep of the Inbus port not counted."""
    return len(network.reactor.getDelayedCalls()) - 1


def peers(network: Network) -> list[str | None]:
    return [event.peer for event in network.events(ev.SessionOpened)]


@each_row(
    ("header", "peer"),
    [
        (V1, "192.0.2.7:5555"),
        (MAPPED, "192.0.2.7:5555"),
        (V2, "[2001:db8::7]:5555"),
        (LOCAL, "10.0.0.250:40000"),
        (UNKNOWN, "10.0.0.250:40000"),
    ],
    ids=["v1", "mapped", "v2", "local", "unknown"],
)
@each_row("cut", ["in one", "after it", "everywhere"])
def test_the_stated_address_is_the_clients(header: bytes, peer: str, cut: str) -> None:
    network = Network()
    service(network, "tv")
    network.journal.records.clear()
    proxied = Proxied(network)
    assert peers(network) == []
    if cut == "in one":
        proxied.send(header + spp.subscribe("tv"))
    elif cut == "everywhere":
        for byte in header + spp.subscribe("tv"):
            proxied.send(bytes([byte]))
    else:
        proxied.send(header)
        assert spp.offer("tv") in proxied.transport.value()
        proxied.send(spp.subscribe("tv"))
    network.reactor.advance(0)
    assert peers(network) == [peer]
    assert [event.service for event in network.events(ev.SubscriptionAdded)] == ["tv"]
    proxied.transport.loseConnection()
    assert [event.peer for event in network.events(ev.SessionClosed)] == [peer]
    assert pending(network) == 0


def test_limits_for_one_address_hold_for_the_stated_one() -> None:
    network = Network(max_sessions_per_address=1)
    connections = [Proxied(network) for _ in range(3)]
    for connection, header in zip(connections, (V1, V1, V2), strict=True):
        connection.send(header)
    assert [each.transport.connected for each in connections] == [True, False, True]


@each_row("said", [b"", V1[:9]])
def test_a_proxy_that_says_nothing_is_cut(said: bytes) -> None:
    network = Network()
    proxied = Proxied(network)
    if said:
        proxied.send(said)
    network.reactor.advance(HEADER_TIMEOUT)
    assert not proxied.transport.connected
    assert network.registry.state.sessions == {}


def test_a_client_that_sends_no_more_still_gets_its_replies() -> None:
    network = Network()
    provider = network.member()
    proxied = Proxied(network, "objects")
    request = encode({"event": "routing/subscribe"}) + encode({"event": "services/register", "name": "tv"})
    network.journal.hold()
    proxied.send(V1 + request + encode({"event": "ping", "id": 7}))
    proxied.protocol.readConnectionLost()
    assert proxied.transport.connected
    network.journal.release()
    network.reactor.advance(0)
    reader = ObjectReader()
    reader.expect_server()
    reader.feed(proxied.transport.value())
    names = []
    while (event := reader.next_event()) is not None:
        names.append(event.fields()["event"])
    assert names == ["routing/subscribe/reply", "services/register/reply", "pong"]
    assert not proxied.transport.connected
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.reason, closed.peer) == ("client-closed", "192.0.2.7:5555")
    assert provider.connection.is_open


def test_another_protocol_may_take_the_connection_over() -> None:
    """As MQTT does at the port of WebSocket. It has the stated address, and everything that comes later."""
    network = Network()
    proxied = Proxied(network, "websocket")
    proxied.send(V1 + REQUEST.replace(b"\r\nHost", b"\r\nSec-WebSocket-Protocol: mqtt\r\nHost"))
    proxied.send(frame(encode_packet(Connect("ann", 5), 5)))
    network.reactor.advance(0)
    (opened,) = network.events(ev.SessionOpened)
    assert isinstance(opened, ev.SessionOpened)
    assert (opened.protocol, opened.peer) == ("mqtt", "192.0.2.7:5555")
    proxied.protocol.readConnectionLost()
    network.reactor.advance(0)
    assert not proxied.transport.connected
    assert [each.reason for each in network.events(ev.SessionClosed)] == ["client-closed"]


def test_a_proxy_that_sends_no_more_before_its_header_is_cut() -> None:
    network = Network()
    proxied = Proxied(network)
    proxied.send(V1[:9])
    proxied.protocol.readConnectionLost()
    assert not proxied.transport.connected
    assert pending(network) == 0


def test_what_is_no_header_ends_the_connection() -> None:
    network = Network()
    proxied = Proxied(network)
    with capturedLogs() as logged:
        proxied.send(b"GET / HTTP/1.0\r\n\r\n")
    (said,) = (formatEvent(each) for each in logged)
    assert said.startswith("10.0.0.250:40000: the header of the proxy cannot be read: it begins with neither form")
    assert not proxied.transport.connected
    assert pending(network) == 0


def test_a_port_that_closes_cuts_what_was_not_announced() -> None:
    network = Network()
    proxied = Proxied(network)
    proxied.factory.doStart()
    proxied.factory.doStop()
    assert proxied.transport.aborted
