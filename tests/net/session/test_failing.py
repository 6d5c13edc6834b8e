"""A plugin's protocol, encoding or service that raises: ``internal-error``, and nobody else notices."""

from typing import Any, ClassVar

import pytest
from twisted.logger import LogLevel, capturedLogs
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.interfaces import IEncoding
from bussrv.errors import RemoteProtocolError
from bussrv.interfaces import IServiceHost, IServiceObject
from bussrv.net.session.factory import StreamFactory
from bussrv.net.session.protocol import StreamProtocol
from bussrv.net.transport.complaints import LOG_BURST
from bussrv.plugin import HostedService
from bussrv.wire.reader import StreamReader
from tests.formats.network import Connection, Network
from tests.services.scene import Hosting
from tests.tables import each_row


class Lines(StreamReader[bytes]):
    """A reader of lines."""

    def __init__(self, failing: str) -> None:
        super().__init__()
        self._failing = failing
        self._data = b""

    def feed(self, data: bytes) -> None:
        if self._failing == "feed":
            raise ZeroDivisionError
        self._data += data

    def next_event(self) -> bytes | None:
        if self._failing == "next_event":
            raise ZeroDivisionError
        line, end, rest = self._data.partition(b"\n")
        if not end:
            return None
        self._data = rest
        if line == b"bad":
            raise RemoteProtocolError("bad-utf8", "bad")
        return line


@implementer(IEncoding)
class Broken:
    def encode(self, delivery: Any) -> bytes:
        raise ZeroDivisionError


BROKEN = Broken()


class FailingProtocol(StreamProtocol):
    """Fails where ``failing`` says."""

    FORMAT = "lines"
    failing: ClassVar[str] = ""

    def make_reader(self) -> Lines:
        return Lines(self.failing)

    def encoding(self) -> IEncoding:
        return BROKEN

    def _fail(self, where: str) -> None:
        if self.failing == where:
            raise ZeroDivisionError

    def opened(self) -> None:
        self._fail("opened")

    def received(self, event: bytes) -> None:
        self._fail("received")
        self.busy_with(self._serve(event))

    async def _serve(self, event: bytes) -> None:
        self._fail("busy_with")
        await self.subscribe(event.decode())

    def malformed(self, error: RemoteProtocolError) -> None:
        self._fail("malformed")

    def closed(self, reason: str) -> None:
        self._fail("closed")


def lines(network: Network, failing: str, host: str = "10.0.0.9") -> Connection:
    protocol = type("Protocol", (FailingProtocol,), {"failing": failing})
    return Connection(StreamFactory(protocol, network.bus, network.reactor).buildProtocol(None), host)


PLACES = ["opened", "feed", "next_event", "received", "busy_with", "malformed", "closed"]


@each_row("place", PLACES)
def test_a_protocol_that_raises_ends_only_its_own_session(place: str) -> None:
    network = Network()
    other = network.member()
    with capturedLogs() as logged:
        connection = lines(network, place)
        if place != "opened":
            connection.send_bytes(b"bad\n" if place in ("malformed", "closed") else b"tv\n")
    assert not connection.is_open
    (closed,) = network.events(ev.SessionClosed)
    assert closed.reason == ("bad-utf8" if place == "closed" else "internal-error")
    assert network.bus.counters["internal-error"] == 1
    assert [event["log_failure"].type for event in logged if "log_failure" in event] == [ZeroDivisionError]
    network.reactor.advance(60)
    other.received()
    other.send({"event": "ping"})
    assert other.names() == ["pong"]


def test_a_protocol_that_keeps_raising_does_not_fill_the_log() -> None:
    network = Network()
    protocol = type("Protocol", (FailingProtocol,), {"failing": "received"})
    factory = StreamFactory(protocol, network.bus, network.reactor)
    with capturedLogs() as logged:
        for _ in range(LOG_BURST * 3):
            Connection(factory.buildProtocol(None)).send_bytes(b"tv\n")
    assert sum(event["log_level"] is LogLevel.critical for event in logged) == LOG_BURST
    assert network.bus.counters["internal-error"] == LOG_BURST * 3


def test_an_encoding_that_raises_does_not_end_the_publisher() -> None:
    network = Network()
    publisher, watcher = network.member(receive_mode="none"), network.watcher()
    publisher.send({"event": "services/register", "name": "tv"})
    watcher.subscribe("tv")
    broken = [lines(network, ""), lines(network, "")]
    for each in broken:
        each.send_bytes(b"tv\n")
    watcher.received()
    with capturedLogs() as logged:
        for _ in range(2):
            publisher.send({"type": "text/plain", "sender": "tv"}, b"on")
        assert watcher.messages() == [b"on", b"on"]
        network.reactor.advance(0)
    assert [each.is_open for each in broken] == [False, False]
    assert publisher.connection.is_open
    assert [closed.reason for closed in network.events(ev.SessionClosed)] == ["internal-error"] * 2
    assert network.bus.counters["internal-error"] == 2
    assert sum("log_failure" in event for event in logged) == 1
    publisher.send({"type": "text/plain", "sender": "tv"}, b"off")
    assert watcher.messages() == [b"off"]


@implementer(IServiceObject)
class BadService:
    """Fails at everything."""

    def snapshot(self) -> bytes:
        raise ZeroDivisionError

    def first_subscriber_came(self) -> None:
        raise ZeroDivisionError

    def last_subscriber_left(self) -> None:
        raise ZeroDivisionError


def make(host: IServiceHost) -> BadService:
    return BadService()


def test_a_service_of_a_plugin_that_raises() -> None:
    network = Hosting(HostedService("bad", module=__name__, content_type="text/plain", summary="fails"))
    bystander = network.watcher()
    asker, watcher = network.member(receive_mode="no_echo"), network.watcher()
    with capturedLogs() as logged:
        watcher.subscribe("bad")
        asker.send({"event": "services/request", "name": "bad", "id": "1"})
        network.reactor.advance(0)
    assert asker.connection.is_open
    assert watcher.connection.is_open
    assert network.events(ev.SessionClosed) == []
    # The first subscriber, its snapshot, and the snapshot for the asker.
    assert network.bus.counters["internal-error"] == 3
    assert all(event["log_failure"].type is ZeroDivisionError for event in logged if "log_failure" in event)
    network.hosted.stop()
    assert network.bus.counters["internal-error"] == 4
    assert bystander.connection.is_open


def test_a_failing_datagram_is_counted_and_the_next_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = Network()
    publish = network.bus.publish

    def failing(session_id: str, publication: Any) -> None:
        if publication.payload == b"bad":
            raise ZeroDivisionError
        publish(session_id, publication)

    monkeypatch.setattr(network.bus, "publish", failing)
    network.udp.subscribe("tv")
    with capturedLogs():
        for payload in (b"bad", b"good", b"bad", b"better"):
            network.udp.publish("tv", payload)
    assert network.udp.payloads() == [b"good", b"better"]
    assert network.bus.counters["internal-error"] == 2
