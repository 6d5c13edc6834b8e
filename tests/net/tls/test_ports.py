"""TLS: a session begins after the handshake; whoever does not come that far holds nothing and gets nothing."""

import ssl
import weakref
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs

from bussrv import events as ev
from bussrv.errors import ConfigError
from bussrv.memory.bundle import Bundle
from bussrv.net.tls.connection import FED, MOST_SHAKEN
from bussrv.net.tls.output import MOST_UNSENT, PART, parts
from bussrv.wire import spp
from bussrv.wire.objects import ObjectReader, encode
from tests.certificates import END, Authority
from tests.formats.network import Network
from tests.formats.spp.test_protocol import service
from tests.net.tls.tls_clients import Place, Port, Secure
from tests.tables import check_each, each_row


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("tls"))


def heads(client: Secure) -> list[dict[str, Any]]:
    reader = ObjectReader()
    reader.expect_server()
    reader.feed(client.take())
    found = []
    while (event := reader.next_event()) is not None:
        found.append(event.fields())
    return found


def pending(network: Network) -> int:
    """How many calls wait, the sweep of the Inbus port not counted."""
    return len(network.reactor.getDelayedCalls()) - 1


def hello(place: Place) -> bytes:
    """What a client says first."""
    outgoing = ssl.MemoryBIO()
    tls = place.context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_a_session_lasts_from_the_handshake_to_the_end(place: Place) -> None:
    network = Network()
    service(network, "tv")
    port = Port(network, place.port, "spp")
    before = len(network.events(ev.SessionOpened))
    plain = port.connect()
    plain.send(hello(place))
    assert plain.take()
    assert len(network.events(ev.SessionOpened)) == before
    client = Secure(port.connect("10.0.0.5"), place.context())
    assert spp.offer("tv") in client.take()
    assert [event.peer for event in network.events(ev.SessionOpened)[before:]] == ["10.0.0.5:4711"]
    client.finish()
    assert (client.has_ended, client.plain.is_open) == (True, False)
    closed = network.events(ev.SessionClosed)[-1]
    assert (closed.peer, closed.reason) == ("10.0.0.5:4711", "client-closed")


@each_row("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@each_row("size", [0, 7, 5000])
def test_what_is_sent_arrives(place: Place, version: ssl.TLSVersion, size: int) -> None:
    """In records of any size: in very small ones it is read a slice at a time."""
    network = Network()
    context = place.context()
    context.minimum_version = context.maximum_version = version
    client = Secure(Port(network, place.port).connect(), context)
    payload = bytes(range(256)) * (10 if size else 2000)
    said = encode({"event": "routing/subscribe"}) + encode({"type": "x/y", "id": "1", "size": len(payload)}, payload)
    data = client.encrypted(said, size)
    for begin in range(0, len(data), 1 << 16):
        client.plain.send(data[begin : begin + (1 << 16)])
    received = client.take()
    protocol = client.plain.protocol.protocol
    assert (protocol.traffic.bytes_in, protocol.traffic.objects_in) == (len(said), 2)
    assert b'"routing/subscribe/reply"' in received
    assert received.endswith(payload)


@each_row(
    ("said", "why"),
    [
        (encode({"event": "routing/subscribe"}), "does not speak TLS"),
        (b"GET / HTTP/1.0\r\n\r\n", "does not speak TLS"),
        (b"\x16", None),
        (b"\x16\x03\x01\xff\xff" + bytes(100), ""),
        (b"\x16\x03\x01\x00\x00" * 100, ""),
    ],
)
def test_who_does_not_speak_tls_gets_nothing_and_holds_nothing(place: Place, said: bytes, why: str | None) -> None:
    network = Network()
    plain = Port(network, place.port).connect()
    with capturedLogs() as logged:
        plain.send(said)
    sent = plain.take()
    assert plain.is_open is (why is None)
    if why:
        assert sent == b""
        assert [event["why"] for event in logged] == ["the other end does not speak TLS"]
    assert network.bus.counters["tls-failed"] == (why is not None)
    if plain.is_open:
        plain.transport.loseConnection()
    assert network.journal.records == []
    assert network.registry.state.sessions == {}
    assert sum(map(len, network.bus.streams.connections)) == 0
    assert pending(network) == 0


def test_a_failure_is_counted_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network()
    plain = Port(network, place.port).connect()
    monkeypatch.setattr(plain.transport, "loseConnection", lambda: None)  # what is sent last is still under way
    plain.send(b"hello")
    plain.send(b"hello")
    plain.protocol.readConnectionLost()
    assert network.bus.counters["tls-failed"] == 1


@each_row("step", [None, 1, 60])
def test_a_handshake_that_takes_too_long_is_cut(place: Place, step: int | None) -> None:
    """The client says nothing, or a little now and then."""
    network = Network(handshake_timeout=10)
    plain = Port(network, place.port).connect()
    said = hello(place)
    for second in range(10):
        assert plain.is_open
        if step is not None:
            plain.send(said[second * step : second * step + step])
        network.reactor.advance(1)
    network.reactor.advance(0)
    assert not plain.is_open
    assert network.bus.counters["handshake-timeout"] == 1
    (event,) = network.events(ev.LimitReached)
    assert (event.limit, event.value, event.protocol) == ("handshake-timeout", 10, "objects")
    assert (event.reason, event.peer) == ("handshake-timeout", "10.0.0.1:4711")
    assert (network.registry.state.sessions, pending(network)) == ({}, 0)


def test_a_handshake_has_a_most_of_bytes(place: Place) -> None:
    network = Network()
    plain = Port(network, place.port).connect()
    # A message of 100,000 bytes, in records.
    record = b"\x16\x03\x01\x40\x00" + b"\x01\x01\x86\xa0" + bytes((16 << 10) - 4)
    sent = 0
    while plain.is_open:
        plain.send(record)
        sent += len(record)
        record = b"\x16\x03\x01\x40\x00" + bytes(16 << 10)
        assert sent <= MOST_SHAKEN + len(record)
    assert network.bus.counters["tls-failed"] == 1


def test_of_too_many_handshakes_the_fullest_address_loses_one(place: Place) -> None:
    network = Network(max_handshakes=3)
    port = Port(network, place.port)
    other, first, second = port.connect("10.0.0.2"), port.connect(), port.connect()
    third = port.connect()
    assert [each.is_open for each in (other, first, second, third)] == [True, False, True, True]
    assert network.bus.counters["max-handshakes"] == 1
    (event,) = network.events(ev.LimitReached)
    assert (event.limit, event.reason) == ("max-handshakes", "too-many-handshakes")


def test_handshakes_count_as_sessions_of_their_address(place: Place) -> None:
    network = Network(max_sessions_per_address=2)
    port = Port(network, place.port)
    client, shaking = Secure(port.connect(), place.context()), port.connect()
    refused = port.connect()
    assert [client.plain.is_open, shaking.is_open, refused.is_open] == [True, True, False]
    assert port.connect("10.0.0.2").is_open
    shaking.transport.loseConnection()
    assert Secure(port.connect(), place.context()).plain.is_open
    assert not port.connect().is_open
    assert {event.limit for event in network.events(ev.LimitReached)} == {"max-sessions-per-address"}
    assert network.bus.counters["max-sessions-per-address"] == 2


def test_a_session_counts_once_against_the_rate_of_its_address(place: Place) -> None:
    network = Network(max_connects=1, max_connects_burst=2)
    port = Port(network, place.port)
    clients = [Secure(port.connect(), place.context()).plain.is_open for _ in range(2)]
    assert (clients, port.connect().is_open) == ([True, True], False)


def test_handshakes_count_as_connections(place: Place) -> None:
    network = Network()
    network.factory("objects").in_turns = True
    network.bus.streams.most_connections = 2
    port = Port(network, place.port)
    assert [port.connect(host).is_open for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3")] == [True, True, False]
    assert network.bus.counters["no-descriptors"] == 1


def test_handshakes_are_done_in_turns_with_other_work(place: Place) -> None:
    network = Network()
    port = Port(network, place.port)
    waiting: list[object] = []
    network.bus.slices.do(lambda until: not waiting)  # something takes long
    plain = port.connect()
    plain.send(hello(place))
    assert plain.transport.value() == b""
    plain.send(b"")
    waiting.append(True)
    assert plain.take()


def test_very_small_records_are_read_in_turns_with_other_work(place: Place) -> None:
    network = Network()
    client = Secure(Port(network, place.port).connect(), place.context())
    said = encode({"event": "routing/subscribe", "name": "x" * 300})
    waiting: list[object] = []
    network.bus.slices.do(lambda until: not waiting)  # something takes long
    client.plain.send(client.encrypted(said, 1))
    traffic = client.plain.protocol.protocol.traffic
    assert traffic.bytes_in == FED
    waiting.append(True)
    network.reactor.advance(0)
    assert traffic.bytes_in == len(said)


def test_a_port_that_closes_cuts_handshakes(place: Place) -> None:
    network = Network()
    port = Port(network, place.port)
    port.factory.doStart()
    plain, client = port.connect(), Secure(port.connect(), place.context())
    port.factory.doStop()
    assert (plain.is_open, client.plain.is_open, pending(network)) == (False, True, 1)


@each_row(
    ("wanted", "whose", "is_served"),
    [
        ("required", "ann", True),
        ("required", None, False),
        ("required", "stranger", False),
        ("optional", "ann", True),
        ("optional", None, True),
        ("optional", "stranger", False),
        (None, "ann", True),
        (None, "stranger", True),
    ],
)
def test_certificates_of_clients(place: Place, wanted: str | None, whose: str | None, is_served: bool) -> None:
    network = Network()
    asked = "" if wanted is None else f":clientCA={place.authority.file}:clientCert={wanted}"
    stranger = Authority(place.directory / "strangers").pair(place.directory / "stranger")
    pair = {"ann": place.client, "stranger": stranger, None: None}[whose]
    client = Secure(Port(network, place.port + asked).connect(), place.context(pair))
    client.turn()
    assert (client.plain.is_open, client.refused is None) == (is_served, is_served)
    assert len(network.registry.state.sessions) == is_served
    assert network.bus.counters["tls-failed"] == (not is_served)
    failed = [] if is_served else [("certificate", "bad-certificate", "objects", "10.0.0.1:4711")]
    assert [(each.method, each.reason, each.protocol, each.peer) for each in network.events(ev.AuthFailed)] == failed
    assert len(network.journal.records) == 1


def test_old_versions_and_weak_ciphers_are_refused(place: Place) -> None:
    old, weak = place.context(), place.context()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.deprecated_call():
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("AES256-GCM-SHA384:ECDHE-ECDSA-AES128-SHA256")
    for context in (old, weak):
        network = Network()
        client = Secure(Port(network, place.port).connect(), context)
        assert client.refused is not None
        assert not client.plain.is_open


def test_an_intermediate_authority_can_be_trusted_alone(place: Place) -> None:
    middle = Authority(place.directory / "middle", signed_by=place.authority)
    pair = middle.pair(place.directory / "below", "eve")
    port = Port(Network(), f"{place.port}:clientCA={middle.file}")
    assert Secure(port.connect(), place.context(pair)).plain.is_open
    assert not Secure(port.connect(), place.context(place.client)).plain.is_open


def test_nobody_can_renegotiate(place: Place) -> None:
    port = Port(Network(), place.port)
    assert port.certificates.context.options & ssl.OP_NO_RENEGOTIATION


def test_a_session_is_not_resumed(place: Place) -> None:
    """Otherwise nobody would look at the client's certificate again."""
    port = Port(Network(), place.port)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = place.context()
        context.maximum_version = version
        client = Secure(port.connect(), context)
        client.send(encode({"event": "routing/subscribe"}))
        assert client.take()
        session = client.tls.session
        assert session is None or not session.has_ticket


def test_new_connections_use_what_was_read_again_and_others_stay(place: Place, tmp_path: Path) -> None:
    network = Network()
    mine = Place(tmp_path)
    port = Port(network, mine.port)
    before = Secure(port.connect(), mine.context())
    other = Authority(tmp_path / "other")
    other.pair(tmp_path / "server")
    port.certificates.reload()
    assert Secure(port.connect(), mine.context()).refused is not None
    after = Secure(port.connect(), ssl.create_default_context(cafile=other.file))
    for client in (before, after):
        client.send(encode({"event": "routing/subscribe"}))
        assert heads(client)[0]["event"] == "routing/subscribe/reply"


def test_what_cannot_be_used_changes_nothing(place: Place, tmp_path: Path) -> None:
    network = Network()
    mine = Place(tmp_path)
    port = Port(network, mine.port)
    mine.authority.pair(tmp_path / "server", end=END.replace(year=2021))
    with pytest.raises(ConfigError, match=r"server.crt: the certificate of CN=localhost expired at 2021-01-01"):
        port.certificates.reload()
    assert Secure(port.connect(), mine.context()).refused is None


def test_days_are_counted_until_the_first_certificate_expires(place: Place, tmp_path: Path) -> None:
    network = Network()
    mine = Place(tmp_path)
    mine.authority.pair(tmp_path / "server", end=END.replace(year=2024))
    port = Port(network, f"{mine.port}:clientCA={mine.authority.file}")
    assert port.certificates.days_left() == 47  # The clock of the network begins on 2023-11-14.
    network.reactor.advance(47 * 86_400 + 86_399)
    assert port.certificates.days_left() == -1


# Output.


class Narrow:
    """A transport that takes so many bytes, and has room again when it is told to."""

    def __init__(self, transport: Any, room: int) -> None:
        self.room = room
        self.sent = b""
        self._transport = transport

    def send_now(self, data: bytes) -> int:
        sent = min(self.room, len(data))
        self.room -= sent
        self.sent += data[:sent]
        if sent < len(data):
            self._transport.producer.pauseProducing()
        return sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def narrow(client: Secure, room: int) -> Narrow:
    """Let the transport of the server take only ``room`` further bytes."""
    transport = Narrow(client.plain.transport, room)
    client.plain.protocol.transport = transport
    client.plain.protocol._send_now = transport.send_now
    return transport


def test_what_waits_encrypted_is_little_and_counts(place: Place) -> None:
    network = Network(max_outbound=1_000_000)
    client = Secure(Port(network, place.port).connect(), place.context())
    output, link = client.plain.protocol, client.plain.protocol.protocol.link
    transport = narrow(client, 10_000)
    data = bytes(range(256)) * 4000
    assert output.send_now(data) == PART
    assert PART - 10_000 < output.unsent < PART
    assert network.bus.streams.outbound.total >= output.unsent
    link.send(Bundle([b"a" * (1_000_000 - output.unsent)]))
    assert not link.is_closing
    link.send(Bundle([b"bc"]))
    assert link.is_closing
    client.plain.transport.loseConnection()
    network.reactor.advance(0)
    assert network.bus.streams.outbound.total == 0
    assert transport.room == 0


def test_everything_arrives_in_order_however_little_the_room(place: Place) -> None:
    network = Network()
    client = Secure(Port(network, place.port).connect(), place.context())
    link = client.plain.protocol.protocol.link
    transport = narrow(client, 1)
    frames = [bytes([number]) * size for number, size in enumerate((1, 70_000, 3, 5, 200_000, PART, 9))]
    for frame in frames:
        link.send(Bundle([frame]))
    while client.plain.protocol.unsent or link._backlog:
        transport.room = 3000
        client.plain.protocol.has_room()
        network.reactor.advance(0)
    client._incoming.write(transport.sent)
    client._look()
    assert b"".join(client._got) == b"".join(frames)


def test_what_is_queued_goes_out_before_the_connection_closes(place: Place) -> None:
    network = Network()
    client = Secure(Port(network, place.port).connect(), place.context())
    protocol = client.plain.protocol.protocol
    transport = narrow(client, 100)
    protocol.link.send(Bundle([b"x" * 1000]))
    assert (len(transport.sent), client.plain.protocol.unsent > 900) == (100, True)
    protocol.end("server-stopped")
    assert not client.plain.is_open
    client._incoming.write(transport.sent + client.plain.take())
    client._look()
    assert (b"".join(client._got), client.has_ended) == (b"x" * 1000, True)


def test_who_makes_tls_answer_and_does_not_read_is_cut(place: Place) -> None:
    network = Network()
    client = Secure(Port(network, place.port).connect(), place.context())
    narrow(client, 0)
    output = client.plain.protocol
    output._keep(b"x" * MOST_UNSENT)
    assert client.plain.is_open
    output.write(b"y")
    assert not client.plain.is_open


def test_parts_are_neither_long_nor_many() -> None:
    def check(pieces: list[bytes]) -> None:
        found = list(parts(pieces))
        assert b"".join(found) == b"".join(pieces)
        assert all(len(each) <= PART for each in found)
        # No two that follow each other would fit into one, unless they are of one long piece.
        assert len(found) <= 2 * (sum(map(len, pieces)) // PART + 1) + len(
            [each for each in pieces if len(each) > PART]
        )

    check_each(
        [
            ("none", []),
            ("one", [b"a"]),
            ("many", [b"a"] * 1000),
            ("exact", [b"a" * PART, b"b" * PART]),
            ("long", [b"a", b"b" * (3 * PART + 1), b"c"]),
            ("mixed", [b"a" * 20_000, b"b" * 20_000, b"c" * 20_000, b"d" * 100_000, b"e"]),
        ],
        check,
    )
    whole = b"a" * (2 * PART)
    assert all(isinstance(each, memoryview) for each in parts([whole])), "a long piece is not copied"


def test_input_of_a_busy_session_waits(place: Place) -> None:
    network = Network()
    client = Secure(Port(network, place.port).connect(), place.context())
    connection = client.plain.protocol
    connection.pauseProducing()
    client.plain.send(client.encrypted(encode({"event": "routing/subscribe"})))
    assert network.registry.state.subscriptions == {}
    connection.resumeProducing()
    network.reactor.advance(0)
    assert heads(client)[0]["event"] == "routing/subscribe/reply"


def test_bytes_that_were_changed_on_their_way_end_the_session(place: Place) -> None:
    network = Network()
    client = Secure(Port(network, place.port).connect(), place.context())
    data = bytearray(client.encrypted(encode({"event": "routing/subscribe"})))
    data[-1] ^= 1
    client.plain.send(bytes(data))
    assert not client.plain.is_open
    assert network.registry.state.sessions == {}
    assert network.bus.counters["tls-failed"] == 1


@each_row("ends", ["client", "server", "lost", "handshake"])
def test_what_tls_takes_is_free_once_the_connection_is_gone(place: Place, ends: str) -> None:
    """It is outside of Python, so the collector of garbage would come too late."""
    network = Network()
    port = Port(network, place.port)
    plain = port.connect()
    connection = plain.protocol
    if ends == "handshake":
        plain.send(hello(place)[:-1])
    else:
        client = Secure(plain, place.context())
        client.send(encode({"event": "routing/subscribe"}))
    tls = weakref.ref(connection.tls)
    assert tls() is not None
    if ends == "client":
        client.finish()
    elif ends == "server":
        connection.protocol.end("server-stopped")
    plain.transport.loseConnection()
    assert tls() is None
