"""The client of the admin interface, with a server that says what the test wants, and with a real one."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from bussrv.cli import admin_client as admin
from bussrv.cli.admin_client import AdminClient, AdminError
from bussrv.errors import RemoteProtocolError

Serve = Callable[..., "Script"]


class Script:
    """Answers each connection with the next of some answers, and keeps what it was asked."""

    def __init__(self, *answers: bytes) -> None:
        self.asked: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run, args=(answers,), daemon=True)
        self._thread.start()

    def _run(self, answers: tuple[bytes, ...]) -> None:
        with suppress(OSError):
            for answer in answers:
                connection, _ = self._listening.accept()
                with connection:
                    data = b""
                    while b"\r\n\r\n" not in data:
                        data += connection.recv(65536)
                    self.asked.append(data.decode())
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass

    def close(self) -> None:
        self._listening.close()
        self._thread.join(10)


@pytest.fixture
def serve() -> Iterator[Serve]:
    scripts = []

    def start(*answers: bytes) -> Script:
        scripts.append(Script(*answers))
        return scripts[-1]

    yield start
    for each in scripts:
        each.close()


def answer(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def stream(text: str) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + text.encode()


def client(script: Script, **given: str) -> AdminClient:
    return AdminClient(port=script.port, timeout=5, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({}, None),
        ({"user": "ann", "secret": "s:ü"}, "Authorization: Basic YW5uOnM6w7w="),
        ({"token": "t0ken"}, "Authorization: Bearer t0ken"),
        ({"user": "ann"}, None),
    ],
)
def test_who_asks(serve: Serve, given: dict[str, str], header: str | None) -> None:
    script = serve(answer(b"{}"))
    assert client(script, **given).get("/server") == {}
    head = script.asked[0].splitlines()
    assert head[0] == "GET /api/v1/server HTTP/1.1"
    assert [line for line in head if line.startswith("Authorization")] == ([] if header is None else [header])


def test_an_interface_below_a_path(serve: Serve) -> None:
    script = serve(answer(b"{}"), answer(b"{}"))
    below = client(script, base="/bus/")
    assert below.get("/server") == below.get("/readyz", strict=1) == {}
    assert [each.split()[1] for each in script.asked] == ["/bus/api/v1/server", "/bus/readyz?strict=1"]


def test_a_collection_is_read_page_by_page(serve: Serve) -> None:
    script = serve(answer(b'{"items":[{"a":1}],"next":"x y"}'), answer(b'{"items":[{"a":2},{"a":3}],"next":null}'))
    assert list(client(script).items("/sessions", protocol="spp", sort=None)) == [{"a": 1}, {"a": 2}, {"a": 3}]
    targets = [each.split()[1] for each in script.asked]
    assert targets == [
        "/api/v1/sessions?limit=1000&protocol=spp",
        "/api/v1/sessions?limit=1000&after=x+y&protocol=spp",
    ]
    assert list(client(serve(answer(b'{"items":[{"a":1}],"next":"x"}'))).items("/sessions", 1)) == [{"a": 1}]


def test_a_collection_without_an_end_is_left(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = answer(b'{"items":[{"a":1}],"next":"x"}')
    monkeypatch.setattr(admin, "MAX_PAGES", 3)
    script = serve(*[endless] * 3)
    with pytest.raises(RemoteProtocolError, match="does not end after 3 pages"):
        list(client(script).items("/sessions"))
    assert len(script.asked) == 3
    for body, said in {
        b'{"items":[],"next":"x"}': "has no items, and is not the last one",
        b'{"items":[1,2,3],"next":null}': "has 3 items, and 2 were asked for",
        b'{"items":{"a":1},"next":null}': "is no collection",
        b'{"items":[1],"next":7}': "is no collection",
    }.items():
        with pytest.raises(RemoteProtocolError, match=said):
            list(client(serve(answer(body))).items("/sessions", 2))
    monkeypatch.setattr(admin, "MAX_PAGE", 20)
    with pytest.raises(RemoteProtocolError, match="more than 20 bytes"):
        list(client(serve(endless)).items("/sessions"))


def test_a_line_of_a_stream_without_an_end_is_left(serve: Serve) -> None:
    script = serve(answer(b":" + b"x" * (admin.MAX_EVENT + 10_000), kind="text/event-stream"))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="an event of the stream has more than"):
            list(client(script).stream("/events"))
        assert tracemalloc.get_traced_memory()[1] < 5 * admin.MAX_EVENT
    finally:
        tracemalloc.stop()


def test_a_problem(serve: Serve) -> None:
    body = b'{"type":"urn:bussrv:problem:not-allowed","title":"t","status":403,"detail":"ann may only read"}'
    with pytest.raises(AdminError) as caught:
        client(serve(answer(body, "403 Forbidden", "application/problem+json"))).call("DELETE", "/sessions/1")
    assert (caught.value.reason, caught.value.status) == ("not-allowed", 403)
    assert str(caught.value) == "ann may only read (not-allowed)"


@pytest.mark.parametrize(
    ("said", "error", "sentence"),
    [
        (b"", ConnectionError, r"closed the connection, before the server sent anything: does that port speak TLS\?$"),
        (b"\x00\x00\x00\x01", RemoteProtocolError, "does not speak HTTP"),
        (answer(b"<html>"), RemoteProtocolError, "no JSON"),
        (answer(b"[" * 100_000), RemoteProtocolError, "no JSON"),
        (answer(b"{}")[:-1], ConnectionError, "closed the connection$"),
        (answer(b"oops", "500 Oops"), AdminError, "the server answered with the status 500"),
        (answer(b'["x"]', "400 Oops"), AdminError, "the server answered with the status 400"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", RemoteProtocolError, "does not speak HTTP"),
    ],
)
def test_answers_that_make_no_sense(serve: Serve, said: bytes, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        client(serve(said)).get("/server")


def test_too_many_requests(serve: Serve) -> None:
    body = b'{"type":"urn:bussrv:problem:too-many-requests","title":"t","status":429,"detail":"too many"}'
    later = answer(body, "429 Too Many\r\nRetry-After: 0")
    script = serve(later, answer(b"{}"))
    assert client(script).get("/server") == {}
    assert len(script.asked) == 2
    with pytest.raises(AdminError, match="too-many-requests"):
        client(serve(answer(body, "429 Too Many\r\nRetry-After: 99999"))).get("/server")


def test_a_page_that_is_none(serve: Serve) -> None:
    with pytest.raises(RemoteProtocolError, match="is no collection"):
        list(client(serve(answer(b"[]"))).items("/sessions"))


def test_a_stream_is_continued_after_its_last_event(serve: Serve) -> None:
    script = serve(stream("id: 7\ndata: one\n\ndata: lost"), b"", stream(":\n\nid: 9\ndata: two\n\n"))
    events = client(script).resuming("/events")
    assert [next(events).data for _ in range(2)] == ["one", "two"]
    events.close()
    continued = [[line for line in each.splitlines() if line.startswith("Last-Event-ID")] for each in script.asked]
    assert continued == [[], ["Last-Event-ID: 7"], ["Last-Event-ID: 7"]]


def test_a_stream_that_is_none(serve: Serve) -> None:
    with pytest.raises(RemoteProtocolError, match="is no stream"):
        next(client(serve(answer(b"{}"))).stream("/events"))


def test_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ConnectionError, match=f"cannot connect to 127.0.0.1 port {port}: Connection refused"):
        AdminClient(port=port).get("/server")


def test_a_server_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError, match="did not answer in time"):
        AdminClient(port=silent.getsockname()[1], timeout=0.1).get("/server")
