"""The first request of a connection: for the script, for a WebSocket, for something else, or none."""

import pytest
from hypothesis import given

from bussrv import events as ev
from bussrv.formats.websocket.request import client_script
from bussrv.wire.frames import MAX_REQUEST, pong
from tests.formats.network import Connection, Network, limits
from tests.formats.websocket.browser import web_member
from tests.tables import each_row
from tests.wire.chunks import chunks_of, in_bytes
from tests.wire.test_websocket import PING, REQUEST, frame

GET = b"GET /client.js HTTP/1.1\r\nHost: localhost:7892\r\n\r\n"
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/javascript; charset=utf-8\r\nContent-Length: %d\r\n"
    b"Cache-Control: max-age=300\r\nAccess-Control-Allow-Origin: *\r\n"
    b"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
)


def connect(network: Network, *, is_admitted: bool = False) -> Connection:
    protocol = network.factory("websocket").buildProtocol(None)
    protocol.is_admitted = is_admitted
    return Connection(protocol)


def answer(network: Network, *chunks: bytes) -> bytes:
    """The answer to a request, after which the connection is closed."""
    connection = connect(network)
    for chunk in chunks:
        connection.send_bytes(chunk)
    found = connection.take()
    assert not connection.is_open
    return found


def expect_nothing_left(network: Network) -> None:
    """No session has been opened, nothing was journaled, and nothing waits."""
    assert network.registry.state == Network().registry.state
    assert network.journal.records == []
    assert network.factory("websocket").protocols == set()
    assert len(network.reactor.getDelayedCalls()) == len(Network().reactor.getDelayedCalls())


@each_row(
    ("request_line", "headers"),
    [
        (b"GET /client.js HTTP/1.1", b""),
        (b"GET /client.js HTTP/1.0", b""),
        (b"GET /client.js? HTTP/1.1", b""),
        (b"GET /client.js?v=1&x=/../%00 HTTP/1.1", b""),
        (b"GET /client.js HTTP/1.1", b"Origin: null\r\n"),
        (b"GET /client.js HTTP/1.1", b"Origin: https://evil.example\r\n"),
        (b"GET /client.js HTTP/1.1", b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"),
        (b"GET /client.js HTTP/1.1", b"Upgrade-Insecure-Requests: 1\r\nX-For: upgrade: websocket\r\n"),
        (b"HEAD /client.js HTTP/1.1", b""),
    ],
)
def test_the_script_is_served_without_a_session(request_line: bytes, headers: bytes) -> None:
    network = Network()
    request, script = request_line + b"\r\nHost: localhost\r\n" + headers + b"\r\n", client_script()
    wanted = HEAD % len(script) + (b"" if request.startswith(b"HEAD") else script)
    for chunks in ([request], in_bytes(request), [request + GET], [request + REQUEST], [request + b"\xff" * 70_000]):
        assert answer(network, *chunks) == wanted
    assert network.bus.counters["client-script"] == 5
    expect_nothing_left(network)


@given(chunks=chunks_of(GET))
def test_the_script_is_served_however_its_request_is_split(chunks: list[bytes]) -> None:
    assert answer(Network(), *chunks) == HEAD % len(client_script()) + client_script()


@each_row(
    "request_line",
    [
        b"POST /client.js HTTP/1.1",
        b"PUT /client.js HTTP/1.1",
        b"OPTIONS /client.js HTTP/1.1",
        b"get /client.js HTTP/1.1",
        b"GET / HTTP/1.1",
        b"GET /../client.js HTTP/1.1",
        b"GET /./client.js HTTP/1.1",
        b"GET //client.js HTTP/1.1",
        b"GET /client.js/ HTTP/1.1",
        b"GET /client.jsx HTTP/1.1",
        b"GET /client.js%00 HTTP/1.1",
        b"GET /client.js#x HTTP/1.1",
        b"GET /client.js?a b HTTP/1.1",
        b"GET /client.js?\xff HTTP/1.1",
        b"GET /Client.js HTTP/1.1",
        b"GET /client%2Ejs HTTP/1.1",
        b"GET http://localhost/client.js HTTP/1.1",
        b"GET /protocol.py HTTP/1.1",
        b"GET /client.js HTTP/2.0",
        b"GET /client.js",
        b"\r\nGET /client.js HTTP/1.1",
    ],
)
def test_nothing_else_is_served(request_line: bytes) -> None:
    network = Network()
    for chunks in ([request_line + b"\r\nHost: a\r\n\r\n"], in_bytes(request_line + b"\r\nHost: a\r\n\r\n")):
        assert answer(network, *chunks).startswith(b"HTTP/1.1 426 Upgrade Required\r\n")
    assert network.bus.counters["client-script"] == 0
    assert [event.reason for event in network.events(ev.SessionClosed)] == ["bad-upgrade"] * 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("upgrade", [b"Upgrade: websocket", b"upgrade:WebSocket", b"UPGRADE:\th2c, websocket"])
def test_a_websocket_may_be_asked_for_at_any_path(upgrade: bytes) -> None:
    network = Network()
    connection = connect(network)
    connection.send_bytes(REQUEST.replace(b"/any", b"/client.js").replace(b"Upgrade: websocket", upgrade))
    assert connection.take().startswith(b"HTTP/1.1 101 ") == (b"h2c" not in upgrade)
    assert network.bus.counters["client-script"] == 0
    assert len(network.events(ev.SessionOpened)) == 1


def test_a_request_without_an_end_is_refused_at_the_limit() -> None:
    network = Network()
    endless = GET[:-2] + b"X: " + b"x" * MAX_REQUEST
    connection = connect(network)
    connection.send_bytes(endless[: MAX_REQUEST - 1])
    assert (connection.take(), connection.is_open) == (b"", True)
    connection.send_bytes(endless[MAX_REQUEST - 1 : MAX_REQUEST])
    assert b"bad-upgrade: the request has more than 16384 bytes" in connection.take()
    assert not connection.is_open


# Limits.


def test_who_has_not_asked_yet_counts_as_a_session() -> None:
    network = Network(max_sessions=1)
    waiting = connect(network)
    assert answer(network).startswith(b"HTTP/1.1 503 ")
    waiting.close()
    assert answer(network, GET).startswith(b"HTTP/1.1 200 ")
    member = web_member(network)
    assert answer(network).startswith(b"HTTP/1.1 503 ")
    member.connection.close()
    assert limits(network) == [("max-sessions", 1, "too-many-sessions", "10.0.0.1:4711")] * 2
    assert len(network.events(ev.SessionOpened)) == len(network.events(ev.SessionClosed)) == 1
    assert network.factory("websocket").protocols == set()


def test_requests_for_the_script_are_limited_like_sessions() -> None:
    network = Network(max_connects=1, max_connects_burst=3)
    statuses = [answer(network, GET).split()[1] for _ in range(3)]
    assert statuses == [b"200", b"200", b"200"]
    assert answer(network).startswith(b"HTTP/1.1 503 ")
    network.reactor.advance(1)
    assert answer(network, GET).split()[1] == b"200"


def test_who_was_admitted_before_is_not_counted_again() -> None:
    network = Network(max_connects=1, max_connects_burst=1)
    for _ in range(3):
        connection = connect(network, is_admitted=True)
        connection.send_bytes(GET)
        assert connection.take().startswith(b"HTTP/1.1 200 ")
    assert limits(network) == []


@each_row("sent", [b"", GET[:-1], b"G"])
def test_who_asks_for_nothing_in_time_is_cut(sent: bytes) -> None:
    network = Network(subscribe_timeout=30)
    connection = connect(network)
    for chunk in in_bytes(sent):
        network.reactor.advance(29 / len(sent))
        connection.send_bytes(chunk)
    network.reactor.advance(31)
    network.reactor.advance(0)
    assert connection.transport.aborted
    assert network.bus.counters["subscribe-timeout"] == 1
    assert limits(network) == [("subscribe-timeout", 30, "subscribe-timeout", "10.0.0.1:4711")]
    assert network.events(ev.SessionOpened) == []


def test_who_does_not_read_the_script_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(close_timeout=10)
    connection = connect(network)
    monkeypatch.setattr(connection.transport, "loseConnection", lambda: None)
    connection.send_bytes(GET)
    connection.send_bytes(REQUEST)
    assert connection.take() == HEAD % len(client_script()) + client_script()
    network.reactor.advance(9)
    assert not connection.transport.aborted
    monkeypatch.undo()
    network.reactor.advance(1)
    network.reactor.advance(0)
    assert connection.transport.aborted
    expect_nothing_left(network)


@pytest.mark.parametrize("ending", ["end", "outbound_is_full", "readConnectionLost"])
def test_a_connection_without_a_session_can_be_ended(ending: str) -> None:
    network = Network()
    connection = connect(network)
    connection.send_bytes(GET[:-1])
    getattr(connection.protocol, ending)(*["server-stopped"][: ending == "end"])
    assert not connection.is_open
    expect_nothing_left(network)


def test_the_session_begins_with_all_that_came() -> None:
    """Frames may follow the request at once."""
    network = Network()
    connection = connect(network)
    connection.send_bytes(REQUEST + frame(b"", PING) + frame(b"x\0"))
    assert network.events(ev.SessionOpened) != []
    answered = connection.take()
    assert answered.startswith(b"HTTP/1.1 101 ")
    assert pong(b"") in answered
    assert answered.endswith(b"\x88\x0a\x03\xefbad-json")
