"""Connections and their limits: nothing that a client sends, or does not, is kept without bound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from bussrv.admin.http.routes import Call, Parameter, Route
from bussrv.admin.http.sending import EventStream
from bussrv.admin.table import ROUTES
from tests.admin.scene import BEARER, Admin, Answer
from tests.logins import Held
from tests.size import sized

GET = b"GET /api/v1/server HTTP/1.1\r\nHost: localhost\r\n"
PUT = b"PUT /api/v1/log-level HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNK = b"1000\r\n" + bytes(4096) + b"\r\n"

TOO_MUCH = {
    "a first line": (b"GET /" + b"x" * 20_000, 431, "admin-max-head"),
    "a mebibyte in one line": (GET + b"x" * (1 << 20), 431, "admin-max-head"),
    "a mebibyte in lines": (GET + b"a: b\r\n" * (1 << 17), 431, "admin-max-head"),
    "a long header after short ones": (GET + b"a: " + b"b" * 17_000 + b"\r\n\r\n", 431, "admin-max-head"),
    "a body that says so": (PUT + b"Content-Length: 65537\r\n\r\n", 413, "admin-max-body"),
    "a body of a gibibyte": (PUT + b"Content-Length: 1073741824\r\n\r\nxx", 413, "admin-max-body"),
    "a body in chunks": (PUT + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNK * 17, 413, "admin-max-body"),
    "no HTTP": (b"\x16\x03\x01\r\n\r\n", 400, ""),
    "two lengths": (PUT + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, ""),
    "a length and chunks": (PUT + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, ""),
    "a header without a name": (GET + b": x\r\n\r\n", 400, ""),
    "a chunk of no size": (PUT + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, ""),
}


@pytest.mark.parametrize("case", TOO_MUCH)
@pytest.mark.parametrize("step", [1 << 30, 1000])
def test_too_much_is_refused_and_the_connection_closed(case: str, step: int) -> None:
    sent, status, counter = TOO_MUCH[case]
    scene = Admin()
    client = scene.client()
    for begin in range(0, len(sent), step):
        client.send(sent[begin : begin + step])
    scene.pass_time(3)
    assert Answer(client.said()).status == status
    assert client.is_closed
    assert scene.bus.counters[counter or "none"] == (1 if counter else 0)


@settings(max_examples=sized(180), deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(1, 60), max_size=6))
def test_whatever_is_sent_is_answered_or_waited_for(garbage: bytes, cuts: list[int]) -> None:
    scene = Admin()
    client = scene.client()
    for cut in cuts:
        client.send(garbage[:cut])
        garbage = garbage[cut:]
    client.send(garbage)
    scene.pass_time(80)
    assert client.is_closed
    assert scene.bus.counters["internal-error"] == 0
    assert scene.client().ask("/api/v1/server").status == 200


def test_a_slow_head_or_body_is_refused_however_it_drips() -> None:
    for sent in (GET, PUT + b"Content-Length: 1000\r\n\r\n"):
        scene = Admin()
        client = scene.client()
        client.send(sent)
        for _ in range(9):
            scene.pass_time(1)
            client.send(b"a")
        assert not client.is_closed
        scene.pass_time(1.25)
        assert Answer(client.said()).code == "request-timeout"
        scene.pass_time(2)
        assert client.is_closed
        assert scene.bus.counters["admin-request-timeout"] == 1


def test_an_idle_connection_is_closed() -> None:
    scene = Admin()
    silent, used = scene.client(), scene.client()
    scene.pass_time(9)
    assert used.ask("/api/v1/server").status == 200
    scene.pass_time(3)
    assert (silent.is_closed, used.is_closed) == (True, False)
    scene.pass_time(60)
    assert used.is_closed


def test_a_new_connection_replaces_the_one_idle_for_longest() -> None:
    scene = Admin(admin_max_connections=3)
    clients = [scene.client() for _ in range(3)]
    for index in (2, 0, 1):
        assert clients[index].ask("/api/v1/server").status == 200
    fourth = scene.client()
    assert [each.is_closed for each in clients] == [False, False, True]
    assert fourth.ask("/api/v1/server").status == 200
    assert scene.bus.counters["admin-max-connections"] == 1


async def forever(call: Call, stream: EventStream) -> None:
    stream.comment()
    await stream.closed()


STREAM = Route(path="/stream", function=forever, is_stream=True)


def test_connections_that_are_served_stay() -> None:
    scene = Admin(rows=[STREAM], admin_max_connections=2)
    streams = [scene.client(), scene.client()]
    assert [each.ask("/stream").status for each in streams] == [200, 200]
    assert scene.client().is_closed
    assert not any(each.is_closed for each in streams)


def test_those_who_may_write_have_a_reserve_of_connections() -> None:
    scene = Admin(rows=[STREAM, *ROUTES], admin_max_connections=10, admin_max_streams=50)
    others = [scene.client() for _ in range(10)]
    assert [each.ask("/stream").status for each in others] == [200] * 10
    operator = scene.client()
    assert operator.ask("/stream", **BEARER).status == 200
    assert [each.is_closed for each in others] == [True] + [False] * 9
    # The reserve is taken: who may write stays, and others get no further one.
    assert scene.client().is_closed
    assert not operator.is_closed


def test_a_login_that_is_checked_for_long_keeps_nobody_out() -> None:
    scene = Admin(admin_max_connections=3)
    held = scene.bus.identity = Held()  # type: ignore[misc, assignment]
    waiting = [scene.client() for _ in range(3)]
    for each in waiting:
        each.send(GET + b"Authorization: Basic YW5uOmE=\r\n\r\n")
    assert len(held.asked) == 3
    assert scene.client().ask("/api/v1/server").status == 200
    assert [each.is_closed for each in waiting] == [True, False, False]
    assert held.answers[0].called
    held.answer(1, right=False)
    assert Answer(waiting[1].said()).code == "bad-credentials"
    held.refuse_unchecked(2)
    unchecked = Answer(waiting[2].said())
    assert (unchecked.code, unchecked.status, unchecked.headers["Retry-After"]) == ("too-many-logins", 429, "1")


def test_what_everybody_may_see_needs_no_login() -> None:
    scene = Admin()
    scene.bus.identity = Held()  # type: ignore[misc, assignment]
    for path in ("/", "/healthz"):
        assert scene.client().ask(path, Authorization="Basic YW5uOmE=").status == 200


def test_requests_beyond_the_rate_of_an_address_are_refused() -> None:
    scene = Admin(admin_max_rate=5)
    client, other = scene.client("10.0.0.1"), scene.client("10.0.0.2")
    codes = [client.ask("/api/v1/server").code for _ in range(12)]
    assert codes == [""] * 10 + ["too-many-requests"] * 2
    assert client.ask("/api/v1/server").headers["Retry-After"] == "1"
    assert other.ask("/api/v1/server").status == 200
    scene.pass_time(1)
    assert client.ask("/api/v1/server").status == 200
    assert scene.bus.counters["admin-max-rate"] == 3


def test_refusals_use_up_nothing_that_others_need() -> None:
    scene = Admin(admin_max_rate=5)
    for refused in (
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Authorization": "Bearer no"},
    ):
        attacker = scene.client()
        codes = [attacker.ask("/api/v1/server", **refused).code for _ in range(11)]
        assert attacker.is_closed
        assert codes[-1] == "too-many-requests" not in codes[:-1]
        assert scene.client().ask("/api/v1/server", **refused).code == "too-many-requests"
        scene.pass_time(2)
    operator = scene.client()
    assert [operator.ask("/api/v1/server").status for _ in range(10)] == [200] * 10
    assert operator.ask("/api/v1/server").code == "too-many-requests"


def test_a_user_has_requests_of_their_own() -> None:
    scene = Admin(admin_max_rate=5)
    client = scene.client()
    assert [client.ask("/api/v1/server").status for _ in range(11)] == [200] * 10 + [429]
    assert [client.ask("/api/v1/server", **BEARER).status for _ in range(11)] == [200] * 10 + [429]
    assert scene.client("10.0.0.9").ask("/api/v1/server", **BEARER).status == 429


def test_requests_at_once_are_answered_in_order_as_they_are_read() -> None:
    scene = Admin()
    client = scene.client()
    client.send(b"".join(GET.replace(b"server", b"limits?limit=%d" % n) + b"\r\n" for n in range(1, 21)))
    scene.pass_time(1)
    said = client.said()
    assert said.count(b"HTTP/1.1 200") == 20
    assert [said.count(b'"items":[')] == [20]
    client.channel.pauseProducing()
    client.send((GET + b"\r\n") * 20)
    scene.pass_time(1)
    assert client.said() == b""
    client.channel.resumeProducing()
    scene.pass_time(1)
    assert client.said().count(b"HTTP/1.1 200") == 20


def test_a_client_that_takes_no_answer_is_cut() -> None:
    scene = Admin()
    client = scene.client()
    client.send(GET.replace(b"server", b"limits") + b"\r\n")
    client.channel.pauseProducing()
    client.send((GET + b"\r\n") * 1000)
    scene.pass_time(61)
    assert client.is_closed


def test_what_a_client_sends_while_it_waits_is_bounded() -> None:
    scene = Admin(rows=[STREAM])
    client = scene.client()
    client.ask("/stream")
    client.channel.pauseProducing()
    for _ in range(40):
        client.send(bytes(16 << 10))
    assert client.transport.producerState == "paused" or client.is_closed


def test_a_client_that_half_closes_is_answered() -> None:
    scene = Admin()
    client = scene.client()
    client.channel.dataReceived(GET + b"\r\n")
    client.channel.readConnectionLost()
    scene.pass_time(1)
    assert Answer(client.said()).status == 200
    assert client.is_closed


def test_a_stream_writes_at_once_to_a_client_that_half_closes() -> None:
    """If the client has closed altogether, its system resets the connection then."""
    client = Admin().client()
    client.ask("/api/v1/live", Sec_Fetch_Site="none")
    client.said()
    client.channel.readConnectionLost()
    assert client.said()
    assert not client.is_closed


@pytest.mark.parametrize("taken", ["nothing", "part", "all"])
def test_nothing_puts_off_the_end(taken: str) -> None:
    """After the end has begun, no queued request begins, and no other timer is set."""
    served: list[str] = []

    async def late(call: Call) -> str:
        served.append(call.query["n"])
        await gate
        return "x" * 100_000

    gate: Deferred[None] = Deferred()
    row = Route(path="/late", function=late, parameters=(Parameter(name="n", type=str, help=""),))
    scene = Admin(rows=[row])
    before = scene.reactor.getDelayedCalls()
    client = scene.client()
    client.send(b"".join(b"GET /late?n=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % n for n in range(100)))
    client.transport.loseConnection = lambda: None
    stopped = scene.site.stop()
    if taken != "nothing":
        client.channel.pauseProducing()
        gate.callback(None)
    if taken == "all":
        client.channel.resumeProducing()
    scene.pass_time(1.75)
    client.send(b"GET /late?n=101 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (served, client.is_closed, stopped.called) == (["0"], False, False)
    client.transport.loseConnection = lambda: type(client.transport).loseConnection(client.transport)
    scene.pass_time(0.5)
    assert (served, client.is_closed, stopped.called) == (["0"], True, True)
    assert scene.client().is_closed
    assert scene.reactor.getDelayedCalls() == before


# Streams.


async def flood(call: Call, stream: EventStream) -> None:
    for number in range(call.query["count"] or 0):
        await stream.room()
        stream.send("x" * 100, event="number", id=number)


async def gush(call: Call, stream: EventStream) -> None:
    while stream.is_open:
        stream.send("x" * 1000)


def streaming(function: Any, **settings: Any) -> Admin:
    parameters = (Parameter(name="count", type=int, help=""),)
    row = Route(path="/stream", function=function, is_stream=True, parameters=parameters)
    return Admin(rows=[row], **settings)


def test_a_stream_sends_what_the_client_takes() -> None:
    scene = streaming(flood)
    client = scene.client()
    client.send(b"GET /stream?count=3 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n")
    answer = Answer(client.said())
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert b"id: 2\nevent: number\ndata: xxx" in answer.body
    assert answer.body.endswith(b"0\r\n\r\n")
    assert len(scene.site.streams) == 0


def test_a_stream_goes_on_when_its_client_has_read() -> None:
    gate: Deferred[None] = Deferred()

    async def in_two(call: Call, stream: EventStream) -> None:
        stream.send("one")
        await gate
        stream.send("two")
        await stream.room()
        stream.send("three")

    scene = streaming(in_two)
    client = scene.client()
    assert client.ask("/stream").body.endswith(b"data: one\n\n\r\n")
    client.channel.pauseProducing()
    gate.callback(None)
    assert client.said() == b""
    client.channel.resumeProducing()
    said = client.said()
    assert said.index(b"data: two") < said.index(b"data: three")
    assert said.endswith(b"0\r\n\r\n")


def test_a_stream_whose_client_reads_too_slowly_is_ended() -> None:
    async def slow(call: Call, stream: EventStream) -> None:
        stream.pauseProducing()
        await gush(call, stream)

    scene = streaming(slow, admin_max_waiting=50_000)
    client = scene.client()
    client.send(b"GET /stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n")
    assert client.is_closed
    assert len(client.said()) < 2000
    assert scene.bus.counters["admin-max-waiting"] == 1
    assert len(scene.site.streams) == 0


def test_streams_are_limited_and_end_with_their_clients() -> None:
    ended: list[bool] = []

    async def watched(call: Call, stream: EventStream) -> None:
        stream.comment()
        try:
            await stream.closed()
        finally:
            ended.append(True)

    scene = streaming(watched, admin_max_streams=2)
    first, second, third = (scene.client() for _ in range(3))
    assert [first.ask("/stream").status, second.ask("/stream").status] == [200, 200]
    assert third.ask("/stream").code == "too-many-streams"
    first.transport.loseConnection()
    assert ended == [True]
    assert third.ask("/stream").status == 200


def test_the_fullest_loses_a_stream_and_those_who_may_write_last() -> None:
    scene = streaming(forever, admin_max_streams=3, admin_max_streams_total=5)
    clients = {name: [scene.client(name) for _ in range(4)] for name in ("10.0.0.1", "10.0.0.2", "10.0.0.3")}

    def opened(name: str, number: int, **headers: str) -> str:
        return clients[name][number].ask("/stream", **headers).code

    assert [opened("10.0.0.1", n) for n in range(4)] == [""] * 3 + ["too-many-streams"]
    assert [opened("10.0.0.2", n) for n in range(2)] == [""] * 2
    assert scene.bus.counters["admin-max-streams"] == 1
    assert opened("10.0.0.3", 0, **BEARER) == ""
    assert [each.is_closed for each in clients["10.0.0.1"][:3]] == [True, False, False]
    assert [opened("10.0.0.3", n, **BEARER) for n in (1, 2)] == ["", ""]
    # Two are left for others, who take none of those who may write.
    assert len(scene.site.streams) == 5
    left = [each for name in ("10.0.0.1", "10.0.0.2") for each in clients[name] if not each.is_closed]
    late = scene.client("10.0.0.4")
    assert late.ask("/stream").code == ""
    assert sum(each.is_closed for each in left) == 1
    assert not any(each.is_closed for each in clients["10.0.0.3"])
    assert scene.bus.counters["admin-max-streams-total"] == 4


def test_streams_end_when_who_clients_are_may_have_changed() -> None:
    scene = streaming(forever)
    client = scene.client()
    client.ask("/stream")
    scene.bus.identity.tell_changed()
    assert client.is_closed
