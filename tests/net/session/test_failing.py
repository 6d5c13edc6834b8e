"""A plugin's protocol, encoding or service that raises: ``internal-error``, and nobody else notices."""

import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from msgspec import Struct
from twisted.internet.defer import Deferred, fail
from twisted.logger import LogLevel, capturedLogs
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.interfaces import IEncoding
from bussrv.errors import OverLimit, RemoteProtocolError
from bussrv.interfaces import IPreparedService, IServiceHost, IServiceObject
from bussrv.memory.bundle import Bundle
from bussrv.net.draining import Drain
from bussrv.net.session.backlog import Backlog
from bussrv.net.session.client_link import StreamLink
from bussrv.net.session.factory import StreamFactory
from bussrv.net.session.protocol import StreamProtocol
from bussrv.net.transport.complaints import LOG_BURST
from bussrv.plugin import HostedService
from bussrv.policy.permissions.permissions import Permissions
from bussrv.values import Publication
from bussrv.wire.reader import StreamReader
from tests.formats.network import Connection, Network
from tests.services.scene import Hosting
from tests.tables import each_row


class Lines(StreamReader[bytes]):
    """A reader of lines."""

    def __init__(self, failing: str) -> None:
        super().__init__()
        self.failing = failing

    def _fail(self, where: str) -> None:
        if self.failing == where:
            raise ZeroDivisionError

    def __len__(self) -> int:
        self._fail("reader.__len__")
        return super().__len__()

    def feed(self, data: bytes) -> None:
        self._fail("reader.feed")
        super().feed(data)

    def clear(self) -> None:
        self._fail("reader.clear")
        super().clear()

    def read_event(self) -> bytes | None:
        self._fail("reader.read_event")
        end = self.buffer.find(b"\n", 1000)
        line = None if end < 0 else self.buffer.take(end + 1)[:-1]
        if line == b"bad":
            raise RemoteProtocolError("bad-utf8", "bad")
        return line


@implementer(IEncoding)
class Frames(Struct, frozen=True):
    """Equal ones share their bytes."""

    failing: str = ""

    def encode(self, delivery: Delivery) -> Any:
        if self.failing == "encode":
            raise ZeroDivisionError
        publication = delivery.publication
        if publication is None:
            return None
        return publication.payload.decode() if self.failing == "encode text" else publication.payload


@implementer(IEncoding)
class NoHash(Struct):
    """Sessions cannot be put together by it."""

    def encode(self, delivery: Delivery) -> None:
        raise NotImplementedError


class FailingProtocol(StreamProtocol):
    """Fails where ``failing`` says. ``own LINE`` is a line that it is sent, and every other one a service."""

    FORMAT = "lines"
    failing: ClassVar[str] = ""

    def _fail(self, where: str) -> None:
        if self.failing == where:
            raise ZeroDivisionError

    def make_reader(self) -> Lines:
        self._fail("make_reader")
        return Lines(self.failing)

    def encoding(self) -> IEncoding:
        self._fail("encoding")
        return NoHash() if self.failing == "no hash" else Frames(self.failing)

    def encoding_for(self, options: dict[str, Any]) -> IEncoding:
        self._fail("encoding_for")
        return super().encoding_for(options)

    def personal(self, frame: bytes) -> Any:
        self._fail("personal")
        return frame.decode() if self.failing == "personal text" else frame

    def make_backlog(self) -> Backlog:
        self._fail("make_backlog")
        return super().make_backlog()

    def make_link(self, backlog: Backlog) -> StreamLink:
        self._fail("make_link")
        return super().make_link(backlog)

    def not_admitted(self, refusal: OverLimit) -> None:
        self._fail("not_admitted")

    def opened(self) -> None:
        self._fail("opened")

    def next_event(self) -> Any:
        self._fail("next_event")
        return super().next_event()

    def received(self, event: bytes) -> None:
        self._fail("received")
        if self.failing == "send text":
            self.send(["text"])  # type: ignore[list-item]
        if self.failing == "publish text":
            self.publish(Publication("tv", "text/plain", "on"))  # type: ignore[arg-type]
        self.busy_with(self._serve(event))

    async def _serve(self, event: bytes) -> None:
        self._fail("busy_with")
        if self.failing == "send_in_slices":
            await self.send_in_slices(1 / 0 for _ in range(1))  # type: ignore[misc]
        await self.subscribe(event.decode(), {"as": "lines"})

    def malformed(self, error: RemoteProtocolError) -> None:
        self._fail("malformed")

    def server_stops(self, seconds: float) -> None:
        self._fail("server_stops")

    def last_words(self, reason: str) -> Bundle | None:
        self._fail("last_words")
        return Bundle([b"too slow"])

    def farewell(self, reason: str) -> None:
        self._fail("farewell")

    def reason_of_end(self, reason: str) -> str:
        self._fail("reason_of_end")
        return reason

    def close_session(self, reason: str) -> None:
        self._fail("close_session")
        super().close_session(reason)

    def closed(self, reason: str) -> None:
        self._fail("closed")


def lines(network: Network, failing: str, host: str = "10.0.0.9") -> Connection:
    protocol = type("Protocol", (FailingProtocol,), {"failing": failing})
    return Connection(StreamFactory(protocol, network.bus, network.reactor).buildProtocol(None), host)


def connects(network: Network, failing: str) -> Connection:
    return lines(network, failing)


def sends(network: Network, failing: str) -> Connection:
    connection = lines(network, failing)
    connection.send_bytes(b"tv\n")
    return connection


def sends_bad(network: Network, failing: str) -> Connection:
    connection = lines(network, failing)
    connection.send_bytes(b"bad\n")
    return connection


def leaves(network: Network, failing: str) -> Connection:
    connection = lines(network, failing)
    connection.close()
    return connection


def is_drained(network: Network, failing: str) -> Connection:
    connection, other = lines(network, failing), lines(network, "")
    Drain([connection.protocol, other.protocol], 1.0, network.bus.slices, network.reactor)
    network.reactor.advance(0)
    assert other.is_open
    return connection


def reads_too_slowly(network: Network, failing: str) -> Connection:
    connection = lines(network, failing)
    connection.protocol.overflow(1)
    network.reactor.advance(0)
    return connection


def is_one_too_many(network: Network, failing: str) -> Connection:
    for _ in range(MOST - 1):
        lines(network, "")
    return lines(network, failing)


MOST = 3
"""The most sessions of an address. A healthy one is there before."""

Happens = Callable[[Network, str], Connection]

HOOKS: dict[str, tuple[Happens, str | None]] = {
    "make_reader": (connects, None),
    "encoding": (connects, None),
    "no hash": (connects, None),
    "make_backlog": (connects, None),
    "make_link": (connects, None),
    "not_admitted": (is_one_too_many, None),
    "opened": (connects, "internal-error"),
    "next_event": (sends, "internal-error"),
    "received": (sends, "internal-error"),
    "busy_with": (sends, "internal-error"),
    "send text": (sends, "internal-error"),
    "publish text": (sends, "internal-error"),
    "send_in_slices": (sends, "internal-error"),
    "encoding_for": (sends, "internal-error"),
    "encode": (sends, "internal-error"),
    "encode text": (sends, "internal-error"),
    "personal": (sends, "internal-error"),
    "personal text": (sends, "internal-error"),
    "reader.feed": (sends, "internal-error"),
    "reader.read_event": (sends, "internal-error"),
    "reader.__len__": (sends, "internal-error"),
    "reader.clear": (leaves, "client-closed"),
    "malformed": (sends_bad, "internal-error"),
    "server_stops": (is_drained, "internal-error"),
    "last_words": (reads_too_slowly, "slow-consumer"),
    "farewell": (sends_bad, "bad-utf8"),
    "reason_of_end": (leaves, "internal-error"),
    "close_session": (sends_bad, "bad-utf8"),
    "closed": (sends_bad, "bad-utf8"),
}
"""Where a protocol fails: what happens first, and why its session ends; ``None``: there is none yet."""


@each_row("hook", HOOKS)
def test_a_protocol_that_raises_ends_only_its_own_session(hook: str) -> None:
    happens, reason = HOOKS[hook]
    network = Network(max_sessions_per_address=MOST)
    publisher, watcher, healthy = network.member(receive_mode="none"), network.watcher(), sends(network, "")
    publisher.send({"event": "services/register", "name": "tv"})
    watcher.subscribe("tv")
    watcher.received()
    with capturedLogs() as logged:
        failing = happens(network, hook)
        publisher.send({"type": "text/plain", "sender": "tv"}, b"on")
        network.reactor.advance(0)
    assert not failing.is_open
    ended = {each.session: each.reason for each in network.events(ev.SessionClosed)}
    assert ended.get(getattr(failing.protocol, "session_id", "")) == reason
    assert network.bus.counters["internal-error"] == 1
    failures = [event["log_failure"].type for event in logged if "log_failure" in event]
    assert failures in ([ZeroDivisionError], [TypeError])
    publisher.send({"type": "text/plain", "sender": "tv"}, b"off")
    assert (watcher.messages(), healthy.take()) == ([b"on", b"off"], b"onoff")


def test_every_hook_is_tried() -> None:
    """Those that the class names, and the readers and encodings that they return."""
    named = set(re.findall(r":meth:`(\w+)`", StreamProtocol.__doc__ or ""))
    assert len(named) > 12
    assert named <= HOOKS.keys()


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
    broken = [lines(network, "encode"), lines(network, "encode")]
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


@implementer(IPreparedService)
class BadlyPrepared(BadService):
    """Fails at what a client waits for, too."""

    def snapshot_for(self, permissions: Permissions) -> bytes:
        raise ZeroDivisionError

    def ready_for(self, permissions: Permissions) -> Deferred[None]:
        return fail(ZeroDivisionError())


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


def test_a_service_that_fails_to_get_ready_ends_no_client() -> None:
    prepared = HostedService("bad", module=__name__, content_type="text/plain", summary="fails")
    prepared.make = lambda host: BadlyPrepared()  # type: ignore[method-assign]
    network = Hosting(prepared)
    watcher, connection = network.watcher(), lines(network, "")
    with capturedLogs():
        watcher.subscribe("bad")
        connection.protocol.busy_with(connection.protocol.subscribe("bad"))
    assert (connection.is_open, watcher.connection.is_open) == (True, True)
    assert "bad" in network.registry.state.subscriptions[connection.protocol.session_id]
    # The two that waited, the first subscriber, and the snapshot for the watcher.
    assert network.bus.counters["internal-error"] == 4


def test_what_a_service_says_is_checked_before_others_get_it() -> None:
    network = Hosting(HostedService("door", module="tests.services.door", content_type="text/plain", summary="a door"))
    watcher = network.watching("door")
    with pytest.raises(TypeError):
        network.bus.update("door", lambda _: ["open"])  # type: ignore[list-item, return-value]
    assert watcher.connection.is_open


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
