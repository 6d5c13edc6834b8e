"""``haproxy:`` endpoints: a session begins when the proxy has said whose it is, and has that address."""

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.protocols.haproxy._v2parser import V2Parser

from bussrv import events as ev
from bussrv.formats.proxied import HEADER_TIMEOUT, ProxiedFactory
from bussrv.wire import spp
from tests.formats.network import Network, Transport
from tests.formats.test_spp import service
from tests.tables import each_row

PROXY = IPv4Address("TCP", "10.0.0.250", 40_000)
V1 = b"PROXY TCP4 192.0.2.7 10.0.0.1 5555 3002\r\n"
V2 = (
    V2Parser.PREFIX
    + b"\x21\x21\x00\x24"
    + bytes.fromhex("20010db8000000000000000000000007")
    + bytes(16)
    + (5555).to_bytes(2, "big")
    + (3002).to_bytes(2, "big")
)
LOCAL = V2Parser.PREFIX + b"\x20\x00\x00\x00"


class Proxied:
    """The proxy's end of a connection."""

    def __init__(self, network: Network) -> None:
        self.factory = ProxiedFactory(network.factory("spp"), network.reactor)
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
    [(V1, "192.0.2.7:5555"), (V2, "[2001:db8::7]:5555"), (LOCAL, "10.0.0.250:40000")],
    ids=["v1", "v2", "local"],
)
@each_row("in_one", [True, False])
def test_the_stated_address_is_the_clients(header: bytes, peer: str, in_one: bool) -> None:
    network = Network()
    service(network, "tv")
    network.journal.records.clear()
    proxied = Proxied(network)
    assert peers(network) == []
    if in_one:
        proxied.send(header + spp.subscribe("tv"))
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


def test_what_is_no_header_ends_the_connection() -> None:
    network = Network()
    proxied = Proxied(network)
    proxied.send(b"GET / HTTP/1.0\r\n\r\n")
    assert not proxied.transport.connected
    assert pending(network) == 0


def test_a_port_that_closes_cuts_what_was_not_announced() -> None:
    network = Network()
    proxied = Proxied(network)
    proxied.factory.doStart()
    proxied.factory.doStop()
    assert proxied.transport.aborted
