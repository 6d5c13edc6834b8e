"""The port of a witness: each of its limits, and what is counted of it. On a clock that the test moves."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from bussrv.embedding.pipe import Pipe
from bussrv.settings import Settings
from bussrv.testing.reactor import MemoryReactor
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import COSIGNATURE
from bussrv.witness.memory import WitnessMemory
from bussrv.witness.site import WitnessConnections, WitnessSite
from bussrv.witness.witness import Witness
from tests.witness.logs import Log

HALL = Log(entries=[b"%d" % number for number in range(9)])


class Port:
    """A port of a witness that knows one log.

    :param limits: by their names in :class:`Settings`, without ``witness_``.
    """

    def __init__(self, place: Path, **limits: Any) -> None:
        self.reactor = MemoryReactor()
        self.memory = WitnessMemory(place)
        keys = {HALL.origin: [HALL.key.verifier]}
        witness = Witness(keys, [SigningKey("attic.example/w1", COSIGNATURE, bytes(32))], self.memory, self.reactor.utc)
        self.settings = Settings(**{f"witness_{name}": value for name, value in limits.items()})
        self.counters: Counter[str] = Counter()
        self.site = WitnessSite(witness, self.reactor, self.settings, self.counters)
        self.connections = WitnessConnections(self.site, self.reactor)
        self.reactor.listenTCP(7281, self.connections)

    def connect(self, host: str = "10.0.0.1") -> Pipe:
        return self.reactor.connect(7281, host)

    def is_refused(self, host: str) -> bool:
        return self.connections.buildProtocol(IPv4Address("TCP", host, 1)) is None

    def ask(self, pipe: Pipe, body: bytes, path: str = "/add-checkpoint") -> None:
        pipe.send(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body)

    def answer(self, pipe: Pipe) -> bytes:
        """The first line of what came."""
        self.reactor.advance(0)
        return pipe.take().partition(b"\r\n")[0]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "witness"


def test_connections_of_all_and_of_one_address_are_limited(place: Path) -> None:
    port = Port(place, max_connections=3, max_connections_per_address=2)
    first = [port.connect(), port.connect()]
    assert port.is_refused("10.0.0.1")
    port.connect("10.0.0.2")
    assert port.is_refused("10.0.0.3")
    assert port.counters == {"witness-max-connections-per-address": 1, "witness-max-connections": 1}
    first[0].abort()
    assert not port.is_refused("10.0.0.1")
    port.memory.close()


def test_one_network_of_ipv6_is_one_address(place: Path) -> None:
    port = Port(place, max_connections_per_address=1)
    port.connect("2001:db8::1")
    assert port.is_refused("2001:db8::2")
    assert not port.is_refused("2001:db8:0:1::1")
    port.memory.close()


def test_a_long_body_is_refused_before_it_is_read(place: Path) -> None:
    port = Port(place, max_body=100)
    stated, chunked = port.connect(), port.connect()
    stated.send(b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n")
    chunked.send(b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + b"x" * 101)
    for pipe in (stated, chunked):
        assert port.answer(pipe) == b"HTTP/1.1 413 Content Too Large"
        port.reactor.advance(0)
        assert not pipe.is_open
    assert (port.counters, port.site.answers) == ({"witness-max-body": 2}, {413: 2})
    port.memory.close()


def test_submissions_that_wait_are_limited(place: Path) -> None:
    port = Port(place, max_waiting=2)
    asking = [port.connect() for _ in range(3)]
    for pipe in asking:
        port.ask(pipe, HALL.submission(0, 5).encode())
    assert [port.answer(pipe)[9:12] for pipe in asking] == [b"200", b"409", b"503"]
    assert port.counters == {"witness-max-waiting": 1}
    port.ask(asking[2], HALL.submission(5, 9).encode())
    assert port.answer(asking[2])[9:12] == b"200"
    port.ask(asking[2], HALL.submission(5, 9).encode())
    assert port.answer(asking[2])[9:12] == b"409"
    assert port.site.answers == {200: 2, 409: 2, 503: 1}
    port.memory.close()


def test_a_connection_over_which_nothing_comes_is_closed(place: Path) -> None:
    port = Port(place, idle_timeout=5)
    idle, slow = port.connect(), port.connect()
    for _ in range(4):
        slow.send(b"POST")
        port.reactor.advance(3)
    assert (idle.is_open, slow.is_open) == (False, True)
    port.reactor.advance(5)
    idle.take()
    slow.take()
    assert not slow.is_open
    assert port.counters == {"witness-idle-timeout": 2}
    port.memory.close()


def test_no_connection_stays_for_longer_than_the_limit(place: Path) -> None:
    port = Port(place, idle_timeout=5, connection_timeout=20)
    before = port.reactor.getDelayedCalls()
    slow = port.connect()
    for _ in range(6):
        slow.send(b"x")
        port.reactor.advance(4)
    assert not slow.is_open
    assert port.counters == {"witness-connection-timeout": 1}
    assert len(port.reactor.getDelayedCalls()) == len(before)
    port.memory.close()
