"""WebSocket: whom it lets in, how it ends, and what it costs. That it speaks Object System, others test."""

from typing import Any

import pytest
from wsproto import events as ws

from bussrv import events as ev
from bussrv.formats.websocket.socket import is_allowed
from bussrv.wire.objects import encode
from tests.formats.network import Connection, Network, drain
from tests.formats.websocket.browser import Browser, SocketConnection, web_member
from tests.tables import each_row
from tests.wire.test_websocket import CONTINUED, PING, frame


def answer_to(network: Network, request: bytes) -> tuple[bytes, bool]:
    """The bytes that answer a request, and whether the connection lives on."""
    connection = network.connect("websocket")
    connection.send_bytes(request)
    return connection.take(), connection.is_open


def calls_left(network: Network) -> int:
    """The calls that wait, other than those of a network that nobody has come to."""
    return len(network.reactor.getDelayedCalls()) - len(Network().reactor.getDelayedCalls())


def test_objects_go_both_ways_and_to_members_of_other_formats() -> None:
    network = Network()
    page, member, other = web_member(network, receive_mode="no_echo"), network.member(), web_member(network)
    drain([page, member, other])
    for sender, receivers in ((page, (member, other)), (member, (page, other))):
        for number in range(3):
            sender.connection.send_bytes(encode({"type": "text/plain", "number": number}, b"x" * (100 * number)))
        for receiver in receivers:
            got = [(head["number"], len(payload)) for head, payload in receiver.received()]
            assert got == [(0, 0), (1, 100), (2, 200)]
        member.received()


def test_those_with_one_interest_share_the_bytes_of_a_message() -> None:
    """Members on streams and on WebSockets are one group: the batches of others are not taken apart for them."""
    network = Network()
    member, pages = network.member(receive_mode="no_echo"), [web_member(network) for _ in range(3)]
    drain([member, *pages])
    given: list[bytes] = []
    for page in pages:
        page.connection.transport.write = given.append  # type: ignore[method-assign]
    member.send({"type": "text/plain"}, b"x" * 1000)
    network.reactor.advance(0)
    assert len(given) == 3
    assert given[0] is given[1] is given[2]


@each_row(
    ("origins", "host", "allowed", "may"),
    [
        ((), "evil.example", (), True),
        (("http://localhost:8000",), "localhost:7892", (), True),
        (("http://localhost",), "127.0.0.1:7892", (), True),
        (("http://[::1]:8000",), "localhost:7892", (), True),
        (("https://10.0.0.4",), "10.0.0.4:7892", (), True),
        (("https://[fd00::1]",), "[fd00::1]:7892", (), True),
        (("http://evil.example",), "localhost:7892", (), False),
        (("http://evil.example",), "127.0.0.1:7892", (), False),
        (("http://10.0.0.5",), "10.0.0.4:7892", (), False),
        # The owner of a name may let it point here.
        (("http://evil.example",), "evil.example:7892", (), False),
        (("http://localhost.evil.example",), "localhost:7892", (), False),
        (("http://127.0.0.1.evil.example",), "127.0.0.1:7892", (), False),
        (("http://[::1].evil.example",), "[::1].evil.example", (), False),
        (("http://localhost:80:evil",), "localhost:80:evil", (), False),
        (("http://localhost/.evil",), "localhost/.evil", (), False),
        (("http://x@localhost",), "localhost", (), False),
        (("ftp://localhost",), "localhost", (), False),
        (("null",), "localhost:7892", (), False),
        (("file://",), "localhost:7892", (), False),
        (("",), "localhost:7892", (), False),
        (("http://[::1",), "[::1:7892", (), False),
        (("http://localhost", "http://localhost"), "localhost", (), False),
        (("https://hall.example",), "hall.example", ("https://hall.example",), True),
        (("HTTPS://Hall.Example",), "hall.example", ("https://hall.example",), True),
        (("http://hall.example",), "hall.example", ("https://hall.example",), False),
        (("https://hall.example:444",), "hall.example", ("https://hall.example",), False),
        (("http://localhost",), "localhost", ("https://hall.example",), False),
        (("https://a.hall.example",), "x", ("https://*.hall.example",), True),
        (("https://hall.example.evil",), "x", ("https://*.hall.example", "https://hall.example"), False),
        (("null",), "x", ("null",), True),
        (("http://whoever",), "x", ("*",), True),
    ],
)
def test_pages_of_strangers_may_not_connect(
    origins: tuple[str, ...], host: str, allowed: tuple[str, ...], may: bool
) -> None:
    assert is_allowed(origins, host, allowed) is may


def test_the_page_of_a_stranger_is_refused_counted_and_journaled() -> None:
    network = Network()
    page = Browser(network, origin="https://evil.example")
    refused = page.connection.events[0]
    assert isinstance(refused, ws.RejectConnection)
    assert refused.status_code == 403
    assert not page.connection.is_open
    assert network.bus.counters["origin-not-allowed"] == 1
    (denied,) = network.events(ev.AccessDenied)
    assert isinstance(denied, ev.AccessDenied)
    assert (denied.action, denied.target, denied.protocol) == ("join", "https://evil.example", "websocket")
    assert (denied.reason, denied.rule) == ("origin-not-allowed", "--websocket-origin")
    (closed,) = network.events(ev.SessionClosed)
    assert closed.reason == "origin-not-allowed"


def test_whoever_asks_for_no_websocket_is_told_in_http() -> None:
    network = Network(max_sessions=1)
    answer, is_open = answer_to(network, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 426 Upgrade Required\r\n")
    assert b"bad-upgrade: that is no request for a WebSocket" in answer
    assert not is_open
    network.member()
    answer, is_open = answer_to(network, b"")
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"too-many-sessions: " in answer
    assert not is_open


def test_whoever_does_not_ask_in_time_goes() -> None:
    network = Network(subscribe_timeout=30)
    connection = network.connect("websocket")
    connection.send_bytes(b"GET / HTTP/1.1\r\n")
    network.reactor.advance(31)
    assert (connection.take(), connection.is_open) == (b"", False)


def test_servers_do_not_link_over_a_websocket() -> None:
    network = Network()
    page = Browser(network)
    page.send({"event": "routing/subscribe", "id": 1, "role": "server", "routing-id": "cellar"})
    reply = page.only_reply()
    assert (reply["event"], reply["in-reply-to"], reply["reason"]) == ("error", 1, "bad-subscription")
    assert page.connection.is_open


# The end.


@each_row(
    ("data", "code", "reason"),
    [
        (frame(b"{}\0{}\0"), 1007, "bad-message"),
        (frame(b"x\0"), 1007, "bad-json"),
        (frame(b"x" * 70_000), 1009, "metadata-too-large"),
        (frame(b'{"size":99999999}\0'), 1009, "payload-too-large"),
        (b"\x82\x01x", 1002, "bad-frame"),
        (frame(b"\xff", 1), 1007, "bad-utf8"),
        (b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"mask", 1009, "payload-too-large"),
        (frame((1005).to_bytes(2, "big"), 8), 1002, "bad-frame"),
        (frame(b"\x03\xe8\xff", 8), 1007, "bad-utf8"),
    ],
)
def test_malformed_input_is_answered_and_closed_with_a_code(data: bytes, code: int, reason: str) -> None:
    network = Network()
    page, other = web_member(network), network.member(receive_mode="no_echo")
    drain([page, other])
    Connection.send_bytes(page.connection, data)
    error = page.only_reply()
    assert (error["event"], error["reason"]) == ("error", reason)
    assert page.connection.close_frame() == (code, reason)
    assert calls_left(network) == 0
    assert not page.connection.is_open
    assert other.names() == ["routing/disconnect"]
    (closed,) = network.events(ev.SessionClosed)
    assert closed.reason == reason
    assert network.bus.counters[reason] == 1


@pytest.mark.parametrize("code", [1000, 1001, 3000, None])
def test_a_client_that_closes_gets_its_close_frame(code: int | None) -> None:
    network = Network()
    page = web_member(network)
    closing = page.connection.socket.send(ws.CloseConnection(code or 1005))
    Connection.send_bytes(page.connection, frame(encode({"event": "ping"})) + closing + frame(b"x\0"))
    assert page.names() == ["pong"]
    assert page.connection.close_frame() == (1000, "client-closed")
    assert not page.connection.is_open
    (closed,) = network.events(ev.SessionClosed)
    assert closed.reason == "client-closed"
    assert calls_left(network) == 0


@each_row("sent", [b"", bytes(70_000), frame(b"") * 12_000, frame(b"x" * 1000) * 100, b"GET /"])
def test_a_client_that_never_closes_is_cut(sent: bytes) -> None:
    """What it still sends is read in small parts, and not kept."""
    network = Network(close_timeout=10)
    page = web_member(network)
    page.connection.protocol.end("server-stopped")
    assert page.connection.transport.connected
    Connection.send_bytes(page.connection, sent)
    network.reactor.advance(11)
    assert not page.connection.transport.connected
    assert calls_left(network) == 0


@pytest.mark.parametrize("is_told_before", [True, False])
def test_a_client_that_sends_no_more_is_not_waited_for(is_told_before: bool) -> None:
    network = Network()
    page = web_member(network)
    if is_told_before:
        page.connection.protocol.end("server-stopped")
    Connection.send_bytes(page.connection, b"")
    page.connection.protocol.readConnectionLost()
    network.reactor.advance(0)
    assert not page.connection.transport.connected
    assert page.connection.close_frame() == ((1001, "server-stopped") if is_told_before else (1000, "client-closed"))


def test_a_server_that_stops_says_so() -> None:
    network = Network()
    page = web_member(network)
    page.connection.protocol.server_stops(5)
    assert page.names() == ["abboe/close/notify"]
    page.connection.protocol.end("server-stopped")
    assert page.connection.close_frame() == (1001, "server-stopped")
    assert not page.connection.is_open


# The heartbeat.


def test_who_gives_no_sign_of_life_is_disconnected() -> None:
    network = Network(websocket_ping=30)
    page, other = web_member(network), network.member()
    other.received()
    for seconds in (30, 30, 29):
        network.reactor.advance(seconds)
        assert page.connection.transport.connected
    network.reactor.advance(1)
    network.reactor.advance(0)
    assert network.bus.counters["ping-timeout"] == 1
    assert other.names() == ["routing/disconnect"]
    (closed,) = network.events(ev.SessionClosed)
    assert closed.reason == "ping-timeout"


@each_row(
    "sign", [ws.Pong(), ws.Ping(), ws.BytesMessage(b'{"type":"a/b"}'), ws.BytesMessage(b"{", message_finished=False)]
)
def test_any_sign_of_life_will_do(sign: ws.Event) -> None:
    network = Network(websocket_ping=30)
    page = web_member(network)
    network.reactor.advance(30)
    network.reactor.advance(30)
    assert page.received() == []
    assert page.connection.events[-1] == ws.Ping(bytearray())
    network.reactor.advance(29)
    page.connection.say(sign)
    network.reactor.advance(30)
    network.reactor.advance(0)
    assert page.connection.is_open


def test_nobody_is_asked_while_the_server_is_late_or_much_waits() -> None:
    network = Network(websocket_ping=30)
    late, slow = web_member(network), web_member(network)
    network.journal.hold()
    late.send({"event": "services/register", "name": "tv"})
    slow.connection.transport.producer.pauseProducing()
    network.bus.tell(slow.connection.protocol.session_id, {"event": "x"})
    for _ in range(10):
        network.reactor.advance(30)
    assert late.connection.transport.connected
    assert slow.connection.transport.connected
    network.journal.release()
    slow.connection.transport.producer.resumeProducing()
    assert {type(each) for page in (late, slow) for each in page.connection.events} == {ws.AcceptConnection}


# Hostile clients.


def test_pings_are_answered_between_the_fragments_of_a_message() -> None:
    network = Network()
    page = web_member(network)
    Connection.send_bytes(page.connection, frame(b'{"event":', final=False) + frame(b"now", PING))
    assert page.received() == []
    assert page.connection.events[-1] == ws.Pong(bytearray(b"now"))
    Connection.send_bytes(page.connection, frame(b'"ping"}', CONTINUED))
    assert page.names() == ["pong"]


def test_pings_of_a_client_that_reads_nothing_are_bounded() -> None:
    network = Network(max_outbound=100_000)
    page = web_member(network)
    page.connection.transport.producer.pauseProducing()
    for _ in range(100):
        Connection.send_bytes(page.connection, frame(b"p" * 125, PING) * 50)
        network.reactor.advance(0)
    (closed,) = network.events(ev.SessionClosed)
    assert closed.reason == "slow-consumer"
    page.connection.transport.producer.resumeProducing()
    (error,) = page.heads()
    assert (error["event"], error["reason"]) == ("error", "slow-consumer")
    assert page.connection.events[-1] == ws.CloseConnection(1008, "slow-consumer")
    assert not page.connection.transport.connected


def test_frames_that_bring_nothing_leave_others_their_slices() -> None:
    """Ten thousand empty fragments in one chunk are read over many slices, in which others are served."""
    network = Network(slice_seconds=0.002)
    page, other = web_member(network), network.member()
    drain([page, other])
    now = network.reactor.seconds

    def a_clock_that_runs() -> float:
        network.reactor.rightNow += 0.0001
        return now()

    network.reactor.seconds = a_clock_that_runs  # type: ignore[method-assign]
    Connection.send_bytes(page.connection, frame(b"", final=False) + frame(b"", CONTINUED, final=False) * 10_000)
    other.send({"event": "ping"})
    assert network.bus.counters["slice-over"] >= 1
    for _ in range(200):
        network.reactor.advance(0.001)
    assert other.names() == ["pong"]
    Connection.send_bytes(page.connection, frame(b'{"event":"ping"}', CONTINUED))
    for _ in range(10):
        network.reactor.advance(0.001)
    assert page.names() == ["pong"]


def test_a_session_counts_objects_and_no_frames() -> None:
    network = Network()
    page = web_member(network)
    for event in (ws.Ping(), ws.Pong(), ws.TextMessage('{"event":"ping"}')):
        page.connection.say(event)
    assert page.names() == ["pong"]
    page.connection.close()
    closed: Any = network.events(ev.SessionClosed)[0]
    assert (closed.objects_in, closed.objects_out) == (2, 2)
    assert closed.bytes_out > 200


def test_connections_that_are_gone_leave_nothing() -> None:
    network = Network()
    before = network.registry.state.copy()
    for pieces in ((), (b"GET /",), (frame(b"{", final=False),)):
        page = web_member(network)
        for piece in pieces:
            Connection.send_bytes(page.connection, piece)
        page.connection.close()
    SocketConnection(network.factory("websocket").buildProtocol(None)).close()
    assert network.registry.state == before
    assert calls_left(network) == 0
