"""What is STOMP's own, at a server in memory: heart-beats, time-outs, escapes, and frames that are none."""

from collections.abc import Iterator
from typing import Any

import pytest
from bussrv_stomp.frames import MAX_HEAD, Frame, FrameReader, encode
from twisted.plugins.bussrv_stomp_plugin import stomp

from bussrv.testing.memory import Connection, MemoryServer


@pytest.fixture
def server() -> Iterator[MemoryServer]:
    with MemoryServer({"subscribe-timeout": 30}, formats=[stomp]) as made:
        yield made


def frames(data: bytes) -> list[Frame]:
    reader, found = FrameReader(1 << 20), []
    reader.feed(data)
    while (frame := reader.next_event()) is not None:
        found.append(frame)
    return found


def connected(server: MemoryServer, **headers: str) -> Connection:
    client = server.connect("stomp")
    client.send(encode("CONNECT", {"accept-version": "1.1,1.2", "host": "x", **headers}))
    (answer,) = frames(client.take())
    assert (answer.command, answer.headers["version"]) == ("CONNECTED", "1.2")
    return client


def error(client: Connection) -> str:
    """The reason of the error that a client is told, after which its connection is closed."""
    (frame,) = frames(client.take())
    assert frame.command == "ERROR"
    assert not client.is_open
    return frame.headers["message"]


def test_heart_beats_go_both_ways_and_silence_ends_the_session(server: MemoryServer) -> None:
    client = connected(server, **{"heart-beat": "5000,4000"})
    for _ in range(3):
        server.advance(10)
        assert client.take() == b"\n"
        client.send(b"\r\n")
    server.advance(19)
    assert client.is_open
    client.take()
    server.advance(1)
    assert error(client) == "keep-alive-timeout"


def test_a_client_that_promises_no_heart_beat_may_be_silent(server: MemoryServer) -> None:
    client = connected(server)
    server.advance(3600)
    assert (client.take(), client.is_open) == (b"", True)


def test_who_does_not_connect_is_cut(server: MemoryServer) -> None:
    client = server.connect("stomp")
    server.advance(31)
    assert error(client) == "subscribe-timeout"


def test_names_and_types_are_escaped_and_repeated_headers_are_ignored(server: MemoryServer) -> None:
    client = connected(server)
    client.send(b"SUBSCRIBE\nid:1\ndestination:a\\cb\\\\c\n\n\0")
    client.send(b"SUBSCRIBE\r\nid:2\r\ndestination:a\\cb\r\ndestination:other\r\n\r\n\0")
    client.send(b"SEND\ndestination:a\\cb\ncontent-type:x/y\n\nbody\0")
    *_, message = frames(client.take())
    assert message.headers["destination"] == "a:b"
    assert (message.headers["content-type"], message.body) == ("x/y", b"body")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"SEND\n\n\0", "malformed-packet"),
        (b"SEND\ndestination:\\t\n\n\0", "malformed-packet"),
        (b"SEND\ndestination:\xff\n\n\0", "bad-utf8"),
        (b"SEND\ndestination\n\n\0", "malformed-packet"),
        (b"SEND\ndestination:a\ncontent-length:-1\n\n\0", "malformed-packet"),
        (b"SEND\ndestination:a\ncontent-length:1\n\nab\0", "malformed-packet"),
        (b"SEND\ndestination:a\ncontent-length:999999999\n\n", "packet-too-large"),
        (b"SEND\ndestination:a\n\n" + b"x" * ((16 << 20) + 1), "packet-too-large"),
        (b"SEND\n" + b"x" * (MAX_HEAD + 2), "packet-too-large"),
        (b"SEND\ndestination:a\ntransaction:t\n\n\0", "malformed-packet"),
        (b"SEND\ndestination:bus/clock\n\n\0", "reserved-name"),
        (b"SUBSCRIBE\nid:1\ndestination:a\nack:client\n\n\0", "malformed-packet"),
        (b"SUBSCRIBE\nid:1\ndestination:a\n\n\0SUBSCRIBE\nid:1\ndestination:b\n\n\0", "malformed-packet"),
        (b"UNSUBSCRIBE\nid:1\n\n\0", "no-such-subscription"),
        (b"ACK\nid:1\n\n\0", "malformed-packet"),
        (b"CONNECT\naccept-version:1.2\n\n\0", "malformed-packet"),
    ],
)
def test_what_cannot_be_served_is_an_error(server: MemoryServer, data: bytes, reason: str) -> None:
    client = connected(server)
    client.send(data)
    assert error(client) == reason


@pytest.mark.parametrize("headers", [{}, {"accept-version": "1.1"}, {"accept-version": "1.2", "heart-beat": "1"}])
def test_another_version_is_refused(server: MemoryServer, headers: dict[str, Any]) -> None:
    client = server.connect("stomp")
    client.send(encode("STOMP", headers))
    assert error(client) == "malformed-packet"


def test_a_disconnect_has_its_receipt(server: MemoryServer) -> None:
    client = connected(server)
    client.send(encode("DISCONNECT", {"receipt": "bye"}))
    (receipt,) = frames(client.take())
    assert (receipt.command, receipt.headers["receipt-id"], client.is_open) == ("RECEIPT", "bye", False)
