"""A server is asked for its summary: within bounds, whatever answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from bussrv.admin.http.answers import encode
from bussrv.admin.servers import asking
from bussrv.admin.servers.asking import MOST_BYTES, Answered, AskedServer, Question
from bussrv.admin.servers.facts import Rates, ServerSummary
from bussrv.journal.record import format_time, parse_time
from tests.tables import each_row

NOW = 1_700_000_000_000_000

SUMMARY = ServerSummary(
    server="attic",
    version="1",
    boot="b",
    started=format_time(NOW),
    time=format_time(NOW + 90_000_000),
    status="ready",
    degraded=[],
    sessions=3,
    away=0,
    rates=Rates(),
    waiting_bytes=0,
    lost_objects=0,
    links=[],
)

Answers = Callable[[socket.socket], None]


@contextmanager
def answering(answer: Answers) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers one request so. :returns: its URL, and what it was asked."""
    asked: list[bytes] = []

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            asked.append(connection.recv(4096))
            # The other end may have had enough.
            with suppress(OSError):
                answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        thread.join()


def http(body: bytes, status: str = "200 OK") -> Answers:
    return lambda connection: connection.sendall(
        b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)
    )


def ask(url: str, token: str | None = None) -> Answered:
    return Question(AskedServer(url, token, None), lambda: NOW, parse_time).ask()


def test_a_server_is_asked_with_its_token_and_its_clock_compared() -> None:
    with answering(http(encode(SUMMARY))) as (url, asked):
        answered = ask(f"{url}/bus", "secret")
    assert answered.summary == SUMMARY
    assert answered.problem is None
    assert answered.round_trip is not None
    assert answered.ahead == pytest.approx(90 - answered.round_trip / 2, abs=1e-6)
    assert asked[0].startswith(b"GET /bus/api/v1/summary HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret\r\n" in asked[0]


def chatter(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(bytes(65536))


@each_row(
    ("answer", "problem"),
    [
        (http(b"{}", "401 Unauthorized"), "it answered 401 Unauthorized"),
        (http(b"{}"), "its answer is no summary"),
        (http(b"[" * 50_000), "its answer is no summary"),
        (http(encode(SUMMARY).replace(b"ready", b"happy")), "its answer is no summary"),
        (http(encode(SUMMARY).replace(b"Z", b"")), "its answer is no summary"),
        (lambda connection: connection.sendall(b"SSH-2.0\r\n"), "its answer is no summary"),
        (lambda connection: None, "Remote end closed connection"),
        (chatter, f"its answer has more than {MOST_BYTES} bytes"),
    ],
)
def test_an_answer_that_is_none_is_a_sentence(answer: Answers, problem: str) -> None:
    with answering(answer) as (url, _):
        answered = ask(url)
    assert (answered.summary, answered.problem or "") == (None, answered.problem)
    assert (answered.problem or "").startswith(problem)


def test_nobody_who_listens_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert ask(f"http://127.0.0.1:{port}").problem == "Connection refused"


def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step has a time-out; and :meth:`Question.abort` ends a server that says a little again and again."""
    monkeypatch.setattr(asking, "TIMEOUT", 0.05)
    over = threading.Event()
    with answering(lambda connection: over.wait(30) and None) as (url, _):
        assert ask(url).problem == "it does not answer in time"
        over.set()
    monkeypatch.setattr(asking, "TIMEOUT", 30)
    begun = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        begun.set()
        connection.recv(1)

    with answering(drip) as (url, _):
        question, found = Question(AskedServer(url, None, None), lambda: NOW, parse_time), list[Answered]()
        thread = threading.Thread(target=lambda: found.append(question.ask()))
        thread.start()
        begun.wait()
        question.abort()
        thread.join()
    assert found[0].summary is None
