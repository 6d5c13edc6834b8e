"""A client that sends no more still gets its replies: over TCP, TLS, and a proxy of either."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from bussrv.wire.objects import ObjectReader, encode
from tests.certificates import Authority
from tests.forked import ForkedServer
from tests.tables import each_row

pytestmark = pytest.mark.processes

PINGS = 2000
ASKED = b"".join(
    [
        encode({"event": "routing/subscribe", "id": "0"}),
        encode({"event": "services/register", "name": "tv", "id": "1"}),
        *(encode({"event": "ping", "id": f"p{number}"}) for number in range(PINGS)),
    ]
)
REPLIES = ["routing/subscribe/reply", "services/register/reply", *["pong"] * PINGS]
HEADER = b"PROXY TCP4 192.0.2.7 127.0.0.1 5555 7890\r\n"


def over_tcp(connection: socket.socket, _: ssl.SSLContext) -> bytes:
    connection.sendall(ASKED)
    connection.shutdown(socket.SHUT_WR)
    return rest_of(connection)


def over_tls(connection: socket.socket, context: ssl.SSLContext) -> bytes:
    """Says with close_notify that no more comes, and leaves the TCP connection open in both directions."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    while not is_done(tls.do_handshake, connection, outgoing):
        incoming.write(connection.recv(1 << 16))
    tls.write(ASKED)
    assert not is_done(tls.unwrap, connection, outgoing)
    got = bytearray()

    def read() -> None:
        while piece := tls.read(1 << 16):
            got.extend(piece)

    while not is_done(read, connection, outgoing):
        incoming.write(connection.recv(1 << 16))
    assert rest_of(connection) == b""
    return bytes(got)


def is_done(step: Callable[[], object], connection: socket.socket, outgoing: ssl.MemoryBIO) -> bool:
    """Do a step, and send what comes of it. :returns: whether it needs nothing more from the server."""
    try:
        step()
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLZeroReturnError:
        return True
    finally:
        connection.sendall(outgoing.read())
    return True


def rest_of(connection: socket.socket) -> bytes:
    got = []
    while chunk := connection.recv(1 << 16):
        got.append(chunk)
    return b"".join(got)


def events(data: bytes) -> list[str]:
    reader = ObjectReader()
    reader.expect_server()
    reader.feed(data)
    found = []
    while (event := reader.next_event()) is not None:
        found.append(event.fields()["event"])
    assert len(reader) == 0
    return found


@each_row("proxy", ["", "haproxy:"])
@each_row("tls", [False, True])
def test_the_replies_come_after_the_end_of_the_input(tmp_path: Path, proxy: str, tls: bool) -> None:
    authority = Authority(tmp_path / "ca")
    pair = authority.pair(tmp_path / "server")
    files = f":privateKey={pair.key}:certKey={pair.certificate}" if tls else ""
    endpoint = f"{proxy}{'ssl' if tls else 'tcp'}:0:interface=127.0.0.1{files}"
    with ForkedServer(tmp_path / f"journal{proxy.rstrip(':')}{tls}", ["--objects", endpoint]) as server:
        with socket.create_connection(server.addresses["objects"], 30) as connection:
            if proxy:
                connection.sendall(HEADER)
            context = ssl.create_default_context(cafile=authority.file)
            assert events((over_tls if tls else over_tcp)(connection, context)) == REPLIES
        assert server.stop() == 0
