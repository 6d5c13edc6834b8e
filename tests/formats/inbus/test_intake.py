"""What comes in at the Inbus port: a turn reads for a slice of time, and what the system loses is counted."""

import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.interfaces import ISystemHandle
from twisted.logger import globalLogPublisher
from zope.interface import implementer

from bussrv.formats.inbus import intake as inbus_intake
from bussrv.formats.inbus.drops import Drops
from bussrv.formats.inbus.intake import SLICE, Intake
from bussrv.wire import inbus
from tests.bus.groups.test_sliced_fanout import sliced, subscribers
from tests.formats.network import Network

THROUGHPUT = 1 << 18


@implementer(ISystemHandle)
class Port:
    """A bound port."""

    maxThroughput = THROUGHPUT  # noqa: N815 - named by Twisted

    def __init__(self, handle: socket.socket) -> None:
        self.handle = handle
        self.is_read = True

    def pauseProducing(self) -> None:
        self.is_read = False

    def resumeProducing(self) -> None:
        self.is_read = True

    def getHandle(self) -> socket.socket:
        return self.handle


@pytest.fixture
def port() -> Iterator[Port]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        handle.bind(("127.0.0.1", 0))
        yield Port(handle)


def intake(network: Network, port: Any) -> Intake:
    made = Intake(network.bus, network.reactor, Drops(network.bus, network.reactor.seconds))
    made.open(port)
    return made


def test_a_turn_reads_no_longer_than_a_slice(port: Port) -> None:
    network = Network()
    reading = intake(network, port)
    for _ in range(2):
        for _ in range(10):
            reading.read()
            network.reactor.advance(SLICE / 10)
            assert port.maxThroughput == THROUGHPUT
        reading.read()
        assert port.maxThroughput == 0
        reading.turn_ended()
        assert port.maxThroughput == THROUGHPUT


def test_a_single_datagram_may_take_as_long_as_it_likes(port: Port) -> None:
    network = Network()
    reading = intake(network, port)
    for _ in range(3):
        network.reactor.advance(1)
        reading.read()
        reading.turn_ended()
        assert port.maxThroughput == THROUGHPUT


def test_the_server_reads_a_slice_and_the_rest_in_the_next_turn(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network()
    server = network.udp.server
    server.transport = port
    monkeypatch.setattr(server._outlet, "watch", lambda told: None)
    server.listening()
    for _ in range(3):
        network.udp.publish("tv", b"x")
        network.reactor.rightNow += SLICE  # A slow datagram: the turn does not end meanwhile.
    assert port.maxThroughput == 0
    network.reactor.advance(0)
    assert port.maxThroughput == THROUGHPUT


def test_nothing_is_read_until_what_came_is_sent_to_many(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    network, steps = sliced(monkeypatch)
    peers = subscribers(network, 0)
    server = network.udp.server
    server.transport = port
    monkeypatch.setattr(server._outlet, "watch", lambda told: None)
    server.listening()
    network.udp.publish("tv/1", b"x")
    network.reactor.advance(0)
    assert not port.is_read
    while network.bus.is_behind:
        assert not port.is_read
        steps.step()
    assert port.is_read
    assert all(peer.messages() == [("tv/1", b"x")] for peer in peers)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what it lost")
def test_what_the_system_loses_is_counted_and_logged(port: Port) -> None:
    network = Network(inbus_receive_buffer=1)
    reading = intake(network, port)
    sent = 200
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(sent):
            sender.sendto(inbus.publish("tv", 1, b"x" * 1000), port.handle.getsockname())
    read = 0
    port.handle.setblocking(False)
    while True:
        try:
            port.handle.recv(2000)
        except BlockingIOError:
            break
        read += 1
    reading.look()
    reading.turn_ended()
    assert read < sent
    assert network.bus.counters["inbus-lost"] == sent - read


def test_a_buffer_that_the_system_does_not_grant_is_warned_of(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[Any] = []
    globalLogPublisher.addObserver(logged.append)
    try:
        intake(Network(inbus_receive_buffer=10_000), port)
        monkeypatch.setattr(inbus_intake, "_enlarge", lambda handle, size: 500)
        intake(Network(inbus_receive_buffer=10_000), port)
    finally:
        globalLogPublisher.removeObserver(logged.append)
    assert [(event["granted"], event["wanted"]) for event in logged if "granted" in event] == [(500, 10_000)]


def test_a_buffer_is_as_large_as_was_asked_for(port: Port) -> None:
    intake(Network(inbus_receive_buffer=100_000), port)
    assert port.handle.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 100_000
