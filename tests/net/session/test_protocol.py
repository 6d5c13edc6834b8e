"""One connection, one session: back-pressure, limits and endings, the same for every stream format."""

import gc
import weakref
from typing import Any

import pytest
from twisted.internet.error import ConnectionLost
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from bussrv import events as ev
from bussrv.addresses import format_address, parse_address
from bussrv.bus.interfaces import IBus, IEncoding, ISessionLink
from bussrv.errors import ConfigError
from bussrv.formats.inbus import server as inbus
from bussrv.formats.objects import business
from bussrv.formats.objects import object_system as objects
from bussrv.formats.spp import protocol as spp
from bussrv.interfaces import IListener
from bussrv.memory.send_turns import PIECE
from bussrv.net.listening import parse_udp
from bussrv.net.session.input import FREE_INPUT
from bussrv.net.session.protocol import StreamProtocol
from bussrv.registry.interfaces import IRegistry, IRegistryObserver
from bussrv.registry.state.session import ISession
from bussrv.wire.objects import encode
from tests.formats.network import Member, Network, drain
from tests.formats.websocket.browser import web_member
from tests.tables import each_row
from tests.wire.test_websocket import REQUEST, frame


def stalled(network: Network) -> Member:
    """A member whose transport is full."""
    member = network.member()
    member.connection.protocol.link.pauseProducing()
    return member


def test_what_a_slow_client_does_not_take_waits_in_order() -> None:
    network = Network()
    sender, slow, fast = network.member(receive_mode="none"), stalled(network), network.member()
    drain([slow, fast])
    for number in range(3):
        sender.send({"type": "a/b", "n": number}, b"x")
    assert slow.received() == []
    assert len(fast.received()) == 3
    slow.connection.protocol.link.resumeProducing()
    assert [fields.get("n") for fields in slow.heads() if "n" in fields] == [0, 1, 2]


@each_row("reads", [True, False])
@each_row("kind", ["objects", "business", "a deaf one"])
def test_a_client_that_lets_too_much_wait_is_cut_others_are_not(reads: bool, kind: str) -> None:
    """If it reads in time, it is told why. Its backlog is lost, and takes no memory."""
    network = Network(max_outbound=1000)
    sender, fast = network.member(receive_mode="none"), network.member()
    slow = stalled(network) if kind == "objects" else network.business()
    slow.connection.protocol.link.pauseProducing()
    drain([fast, slow])
    if kind == "a deaf one":
        slow.connection.protocol.receives_nothing = True
    with capturedLogs() as logged:
        for _ in range(20):
            sender.send({"type": "a/b"}, b"x" * 100)
        assert slow.connection.protocol.link._backlog.size < 1200
        network.reactor.advance(0)
    (line,) = [each for each in logged if each.get("event") == "session.cut"]
    assert (line["limit"], line["value"], line["reason"]) == ("max-outbound", 1000, "slow-consumer")
    assert "10.0.0.1" in (formatEvent(line) or "")
    assert fast.connection.is_open
    assert sum(fields.get("type") == "a/b" for fields in fast.heads()) == 20
    link = slow.connection.protocol.link
    if kind != "a deaf one":
        assert 0 < link.waiting < 500
        assert slow.connection.is_open
        if reads:
            link.resumeProducing()
            (last,) = slow.heads()
            assert (last["event"], last["reason"]) == ("error", "slow-consumer")
            assert last["message"]
        else:
            network.reactor.advance(StreamProtocol.LAST_WORDS)
    assert slow.connection.transport.aborted == (kind == "a deaf one" or not reads)
    assert not slow.connection.is_open
    (reached,) = network.events(ev.LimitReached)
    assert (reached.limit, reached.value, reached.session) == (
        "max-outbound",
        1000,
        slow.connection.protocol.session_id,
    )
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.reason, network.bus.counters["slow-consumer"]) == ("slow-consumer", 1)


def test_what_was_taken_no_longer_counts_as_waiting() -> None:
    network = Network(max_outbound=500)
    sender, slow = network.member(receive_mode="none"), network.member()
    slow.received()
    for _ in range(10):
        slow.connection.protocol.link.pauseProducing()
        for _ in range(2):
            sender.send({"type": "a/b"}, b"x" * 100)
        slow.connection.protocol.link.resumeProducing()
    network.reactor.advance(0)
    assert slow.names() == ["a/b"] * 20
    assert slow.connection.is_open


def filling(network: Network) -> Member:
    """A member whose transport is full after each piece that it is given."""
    member = network.member()
    transport, link = member.connection.transport, member.connection.protocol.link
    write = transport.write
    transport.write = lambda data: (write(data), link.pauseProducing())
    return member


def test_what_is_sent_while_the_transport_is_full_waits() -> None:
    network = Network()
    sender, slow = network.member(receive_mode="none"), filling(network)
    link = slow.connection.protocol.link
    link.pauseProducing()
    sender.send({"type": "a/b", "n": 0})
    for number in range(3):
        link.resumeProducing()
        sender.send({"type": "a/b", "n": number + 1})
        assert [fields["n"] for fields in slow.heads() if "n" in fields] == [number]
        assert link.waiting > 0


def test_the_chunk_that_is_being_sent_does_not_count_as_waiting() -> None:
    network = Network(max_outbound=1000)
    sender, slow = network.member(receive_mode="none"), filling(network)
    slow.connection.protocol.link.resumeProducing()
    sender.send({"type": "a/b"}, b"x" * 100_000)
    sender.send({"type": "a/b"}, b"x" * 100)
    network.reactor.advance(0)
    assert slow.connection.protocol.link.waiting > 50_000
    sender.send({"type": "a/b"}, b"x" * 100)
    network.reactor.advance(0)
    assert network.bus.counters["slow-consumer"] == 0
    sender.send({"type": "a/b"}, b"x" * 1000)
    network.reactor.advance(0)
    assert network.bus.counters["slow-consumer"] == 1


def test_the_end_of_a_slow_client_comes_after_what_others_got() -> None:
    network = Network(max_outbound=500)
    slow, fast = stalled(network), network.member()
    sender = network.member(receive_mode="none")
    drain([slow, fast])
    sender.send({"type": "a/b"}, b"x" * 600)
    network.reactor.advance(0)
    assert fast.names() == ["a/b", "routing/disconnect"]


def test_a_slow_client_that_leaves_by_itself_is_closed_once() -> None:
    network = Network(max_outbound=500)
    slow, sender = stalled(network), network.member(receive_mode="none")
    sender.send({"type": "a/b"}, b"x" * 600)
    slow.connection.close()
    network.reactor.advance(0)
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.reason, network.events(ev.LimitReached)) == ("client-closed", [])


@each_row("slow", [True, False])
def test_a_connection_that_ended_leaves_nothing_to_wait_for(slow: bool) -> None:
    network = Network()
    waiting = len(network.reactor.getDelayedCalls())
    member = stalled(network) if slow else network.member()
    member.connection.send_bytes(b'{"a":}\0')
    if slow:
        member.connection.protocol.link.resumeProducing()
    assert not member.connection.is_open
    network.reactor.advance(0)
    assert len(network.reactor.getDelayedCalls()) == waiting


def test_answers_wait_until_all_changes_of_a_batch_are_applied() -> None:
    network = Network(announce="off")
    members = {name: network.member() for name in ("a", "b", "c")}
    applied: list[list[str]] = []
    for member in members.values():
        write = member.connection.transport.write
        member.connection.transport.write = lambda data, write=write: (
            applied.append(sorted(network.registry.state.services)),
            write(data),
        )
    network.journal.hold()
    for name, member in members.items():
        member.send({"event": "services/register", "id": name, "name": name})
    network.journal.release(2)
    assert applied == [["a", "b"]] * 2
    network.journal.release()
    assert applied == [["a", "b"]] * 2 + [["a", "b", "c"]]
    assert [member.only_reply()["in-reply-to"] for member in members.values()] == ["a", "b", "c"]


def test_a_session_that_ends_in_a_batch_is_sent_all_in_order() -> None:
    network = Network(announce="off")
    member = network.member()
    network.journal.hold()
    asked: list[dict[str, Any]] = [{"event": "services/register", "name": "tv"}, {"event": "ping"}]
    member.connection.send_bytes(b"".join(map(encode, asked)) + b"no JSON\0")
    network.journal.release()
    assert member.names() == ["services/register/reply", "pong", "error"]
    assert not member.connection.is_open


def test_a_closing_connection_is_given_what_is_queued() -> None:
    network = Network()
    slow = stalled(network)
    slow.connection.send_bytes(b'{"event":"ping"}\0{"a":}\0')
    assert slow.connection.is_open
    slow.connection.protocol.link.resumeProducing()
    assert slow.names() == ["pong", "error"]
    assert not slow.connection.is_open


def test_a_closing_connection_that_does_not_read_is_cut() -> None:
    network = Network(close_timeout=10)
    slow = stalled(network)
    slow.connection.send_bytes(b'{"a":}\0')
    network.reactor.advance(9)
    assert slow.connection.is_open
    network.reactor.advance(1)
    assert slow.connection.transport.aborted


def test_what_comes_behind_the_end_is_not_read() -> None:
    network = Network()
    member, other = stalled(network), network.member()
    member.connection.send_bytes(b'{"a":}\0')
    other.received()
    member.send({"event": "late"})
    assert other.received() == []


def test_a_client_that_only_stops_sending_is_given_its_answers() -> None:
    network = Network()
    member = network.member()
    network.journal.hold()
    member.send({"event": "services/register", "name": "tv"})
    member.connection.protocol.readConnectionLost()
    assert member.connection.is_open
    network.journal.release()
    assert member.names() == ["services/register/reply"]
    assert not member.connection.is_open


@each_row("broken", [True, False])
def test_a_session_closes_once_with_its_counters(broken: bool) -> None:
    network = Network()
    member = network.member()
    member.send({"type": "a/b"}, b"12345")
    network.reactor.advance(2)
    if broken:
        member.connection.protocol.connectionLost(Failure(ConnectionLost()))
    else:
        member.connection.close()
    (closed,) = network.events(ev.SessionClosed)
    assert isinstance(closed, ev.SessionClosed)
    assert closed.reason == ("connection-lost" if broken else "client-closed")
    assert (closed.duration, closed.objects_in, closed.objects_out) == (2_000_000, 2, 2)
    assert closed.bytes_in == len(b'{"event":"routing/subscribe"}\0{"type":"a/b","size":5}\0' + b"12345")
    assert network.registry.state.sessions == {}


def test_a_connection_that_is_lost_while_its_change_is_pending() -> None:
    network = Network()
    member, watcher = network.member(), network.watcher()
    network.journal.hold()
    member.send({"event": "services/register", "name": "tv"})
    member.send({"event": "ping"})
    member.connection.close()
    network.journal.release()
    assert network.registry.state.services == {}
    assert watcher.received() == []
    assert member.connection.transport.producerState == "paused"


def test_a_fault_of_the_server_ends_the_session_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network()
    member, other = network.member(), network.member()
    monkeypatch.setattr(network.registry, "identify", lambda identity, interest: 1 / 0)
    member.send({"event": "routing/subscribe"})
    assert (member.connection.is_open, other.connection.is_open) == (False, True)
    (closed,) = network.events(ev.SessionClosed)
    assert closed.reason == "internal-error"


@each_row("name", ["objects", "business", "spp", "websocket"])
def test_connections_that_are_gone_are_forgotten(name: str) -> None:
    network = Network()
    waiting = len(network.reactor.getDelayedCalls())
    connection = network.connect(name)
    factory = connection.protocol.factory
    assert factory.protocols == {connection.protocol}
    connection.close()
    assert factory.protocols == set()
    assert len(network.reactor.getDelayedCalls()) == waiting


def test_what_strangers_send_fills_no_log() -> None:
    network = Network()
    with capturedLogs() as logged:
        for _ in range(30):
            network.connect("objects").send_bytes(b"[]\0")
        network.connect("objects", "10.0.0.9").send_bytes(b"[]\0")
        network.reactor.advance(10)
        network.connect("objects").send_bytes(b"[]\0")
    peers = [event["peer"] for event in logged if "error" in event]
    assert peers == ["10.0.0.1:4711"] * 10 + ["10.0.0.9:4711", "10.0.0.1:4711"]
    assert logged[-1]["suppressed"] == 20
    assert network.bus.counters["not-an-object"] == 32


def test_what_provides_the_interfaces() -> None:
    network = Network()
    member, watcher = network.member(), network.watcher()
    network.udp.subscribe("a")
    assert verifyObject(IBus, network.bus)
    assert verifyObject(IRegistry, network.registry)
    assert all(verifyObject(ISession, session) for session in network.registry.state.sessions.values())
    page = web_member(network).connection
    for protocol in (member.connection.protocol, watcher.connection.protocol, page.protocol):
        assert verifyObject(ISessionLink, protocol.link)
        assert verifyObject(IEncoding, protocol.encoding())
    assert verifyObject(IRegistryObserver, watcher.connection.protocol.factory)
    (subscriber,) = network.udp.server._subscribers._by_address.values()
    assert verifyObject(ISessionLink, subscriber.link)
    assert all(verifyObject(IEncoding, encoding) for encoding in network.udp.server._outlet.encodings.values())
    for module, endpoint in ((objects, "tcp:0"), (business, "tcp:0"), (spp, "tcp:0"), (inbus, "udp:0")):
        assert verifyObject(IListener, module.listen(network.bus, endpoint, network.reactor))


@each_row(
    ("description", "means"),
    [("udp:7222", (7222, "")), ("udp:0:interface=::1", (0, "::1")), (r"udp:1:interface=\:\:1", (1, "::1"))],
)
def test_udp_endpoints(description: str, means: tuple[int, str]) -> None:
    assert parse_udp(description) == means


@each_row("description", ["", "udp", "udp:", "udp:x", "udp:65536", "tcp:1", "udp:1:mtu=2", "udp:-1"])
def test_what_is_no_udp_endpoint(description: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form"):
        parse_udp(description)


@each_row("address", [("127.0.0.1", 1), ("::1", 65535), ("fe80::1%eth0", 7)])
def test_addresses(address: tuple[str, int]) -> None:
    assert parse_address(format_address(*address)) == address


LARGE = 300_000
"""More bytes than are sent in one go."""


def large_to(network: Network, members: list[Member], count: int = 1) -> Member:
    sender = network.member(receive_mode="none")
    drain(members)
    for number in range(count):
        sender.send({"type": "a/b", "n": number}, bytes([number]) * LARGE)
    return sender


def test_a_large_object_goes_in_pieces_to_all_in_turn_in_order() -> None:
    network = Network()
    members = [network.member() for _ in range(5)]
    sender = large_to(network, members)
    at_once = [len(member.connection.transport.value()) for member in members]
    assert at_once == [PIECE, 0, 0, 0, 0]
    sender.send({"type": "c/d"}, b"small")
    for member in members:
        assert [(fields["type"], len(payload)) for fields, payload in member.received()] == [("a/b", LARGE), ("c/d", 5)]
    assert not network.bus.streams.outflow.is_busy


def test_all_who_wait_for_an_object_share_its_bytes() -> None:
    network = Network(announce="off")
    members = [stalled(network) for _ in range(50)]
    large_to(network, members)
    assert LARGE < network.bus.streams.outbound.total < LARGE + 20_000
    for member in members:
        member.connection.protocol.link.resumeProducing()
    assert [len(payload) for member in members for _, payload in member.received()] == [LARGE] * 50
    assert network.bus.streams.outbound.total == 0


def test_who_sends_large_objects_waits_while_others_are_sent_to() -> None:
    network = Network()
    members = [network.member() for _ in range(5)]
    sender = large_to(network, members)
    assert sender.connection.protocol.is_busy
    network.reactor.advance(0)
    assert not sender.connection.protocol.is_busy


def test_past_the_total_the_fullest_address_loses_its_idlest() -> None:
    network = Network(max_outbound_total=1_000_000, max_outbound=1_000_000, announce="off")
    members = [Member(network.connect("objects", host)) for host in ("10.0.0.1", "10.0.0.2", "10.0.0.2")]
    for number, member in enumerate(members):
        member.send({"event": "routing/subscribe", "types": [f"t/{number}"]})
        member.connection.protocol.link.pauseProducing()
    sender = network.member(receive_mode="none")
    for kind, size in ((0, 400_000), (2, 200_000), (1, 300_000), (2, 150_000)):
        sender.send({"type": f"t/{kind}"}, bytes(size))
    network.reactor.advance(0)
    assert [member.connection.is_open for member in members] == [True, True, False]
    assert 700_000 < network.bus.streams.outbound.total < 702_000
    (reached,) = network.events(ev.LimitReached)
    assert (reached.limit, reached.value, reached.reason) == ("max-outbound-total", 1_000_000, "outbound-full")
    assert network.events(ev.SessionClosed)[-1].reason == "outbound-full"
    assert network.bus.counters["outbound-full"] == 1
    members[0].connection.close()
    members[1].connection.protocol.link.resumeProducing()
    assert len(members[1].received()[-1][1]) == 300_000
    assert network.bus.streams.outbound.total == 0


def test_an_object_over_the_total_is_not_kept_for_nonreaders() -> None:
    network = Network(max_outbound_total=LARGE // 2, announce="off")
    slow, fast = network.member(), network.member()
    slow.connection.protocol.link.pauseProducing()
    large_to(network, [fast])
    network.reactor.advance(0)
    assert (slow.connection.is_open, network.bus.streams.outbound.total) == (False, 0)


def test_past_the_total_the_busiest_address_loses_its_first() -> None:
    network = Network(max_inbound_total=1_000_000)
    half = encode({"type": "a/b"}, bytes(800_000))[:400_000]

    def waiting() -> int:
        return round(network.bus.streams.inbound.total / 1000)

    members = [Member(network.connect("objects", host)) for host in ("10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2")]
    for member in members:
        member.send({"event": "routing/subscribe"})
    drain(members)
    members[0].connection.send_bytes(half)
    members[1].connection.send_bytes(half[:100_000])
    members[2].connection.send_bytes(half)
    assert waiting() == 900
    assert all(member.connection.is_open for member in members)
    members[3].send({"type": "a/b"}, bytes(FREE_INPUT))
    members[3].connection.send_bytes(half[:FREE_INPUT])
    assert waiting() == 900
    members[3].connection.send_bytes(half[FREE_INPUT:150_000])
    assert [member.connection.is_open for member in members] == [True, False, True, True]
    (error,) = (fields for fields in members[1].heads() if fields.get("event") == "error")
    assert error["reason"] == "inbound-full"
    (reached,) = network.events(ev.LimitReached)
    assert (reached.limit, reached.value, reached.reason) == ("max-inbound-total", 1_000_000, "inbound-full")
    assert (network.events(ev.SessionClosed)[-1].reason, network.bus.counters["inbound-full"]) == ("inbound-full", 1)
    assert waiting() == 950
    for member in members:
        member.connection.close()
    assert network.bus.streams.inbound.total == 0


def test_a_large_payload_of_who_has_not_subscribed_is_not_kept() -> None:
    network = Network()
    client = Member(network.connect("objects"))
    data = encode({"type": "a/b"}, bytes(10 << 20)) + encode({"event": "routing/subscribe"}, bytes(LARGE))
    for begin in range(0, len(data), 50_000):
        client.connection.send_bytes(data[begin : begin + 50_000])
        assert network.bus.streams.inbound.total == 0
    assert client.names() == ["routing/subscribe/reply"]
    assert network.bus.counters["not-subscribed"] == 1
    client.send({"type": "a/b"}, bytes(LARGE))
    assert [len(payload) for _, payload in client.received()] == [LARGE]


@pytest.mark.dear
@pytest.mark.parametrize("name", ["objects", "business", "spp", "websocket"])
def test_a_gone_connection_is_no_work_for_the_garbage_collector(name: str) -> None:
    network = Network()
    join = encode({"event": "routing/subscribe"})
    joining = {
        "objects": join,
        "business": encode({"event": "client/register"}),
        "websocket": REQUEST + frame(join) + frame(b"{", final=False),
    }
    gc.collect()
    gc.disable()
    try:
        connection = network.connect(name)
        if name in joining:
            connection.send_bytes(joining[name])
        connection.take()
        connection.close()
        network.reactor.advance(1)
        # Twisted's transports let go of the protocol and the producer, too.
        connection.transport.unregisterProducer()
        del connection.transport.protocol
        is_there = weakref.ref(connection.protocol)
        del connection
        assert is_there() is None
    finally:
        gc.enable()
