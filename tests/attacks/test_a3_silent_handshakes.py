"""Thousands of clients of one address begin TLS handshakes and do not end them. Real sockets."""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest

from bussrv.testing.server import PATIENCE, RunningServer
from bussrv.wire.objects import encode
from tests.attacks.bystanders import IDLE, MOST_ATTACKS, Bystanders
from tests.net.tls.tls_clients import Place
from tests.resident import resident
from tests.size import sized

pytestmark = pytest.mark.usefixtures("many_descriptors")

MOST = sized(2000)
"""Handshakes at the same time that the server allows; its default at full size."""

SILENT = 7 * MOST // 4
SECONDS = 2
"""The time limit of a handshake."""

EACH = 64 << 10
"""The most bytes that a handshake may cost the server while it lasts."""

HANGUP = select.POLLRDHUP | select.POLLHUP | select.POLLERR
BEGUN = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a client's greeting."""

ELSEWHERE = "127.0.0.2"


class Silent:
    """So many connections, half of which have said something; a context manager.

    :ivar closed: how many of them the server has closed, as far as was looked.
    """

    def __init__(self, address: tuple[str, int], number: int) -> None:
        self.closed = 0
        self._poll = select.poll()
        self._stack = ExitStack()
        for count in range(number):
            connection = self._stack.enter_context(socket.create_connection(address, PATIENCE))
            connection.sendall(BEGUN[: count % 2 * len(BEGUN)])
            self._poll.register(connection, HANGUP)

    def wait_for_closed(self, number: int) -> None:
        """Wait until so many are closed."""
        while self.closed < number:
            found = self._poll.poll(1000 * PATIENCE)
            assert found, f"{self.closed} of {number} were closed"
            for descriptor, _ in found:
                self._poll.unregister(descriptor)
            self.closed += len(found)

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def test_others_get_in_and_nobody_waits_and_nothing_is_kept(tmp_path: Path) -> None:
    place = Place(tmp_path)
    context = place.context()
    options = ("--business", place.port, "--max-handshakes", str(MOST), "--handshake-timeout", str(SECONDS))
    with (
        RunningServer(tmp_path / "journal", options) as server,
        Bystanders(server, leave_out=("business",), host=ELSEWHERE) as bystanders,
    ):
        address, process = server.addresses["business"], Path(f"/proc/{server.process.pid}/fd")
        idle, before, files = bystanders.watch(IDLE), resident(server), len(list(process.iterdir()))

        def attack() -> None:
            with Silent(address, SILENT) as clients:
                clients.wait_for_closed(SILENT - MOST)
                assert resident(server) - before < MOST * EACH
                join(address, context)
                clients.wait_for_closed(SILENT)

        bystanders.expect_no_wait(attack, idle, MOST_ATTACKS)
        assert len(list(process.iterdir())) == files
        assert server.stop() == 0
    assert not any("Traceback" in line for line in server.lines)


def join(address: tuple[str, int], context: ssl.SSLContext) -> None:
    """A client of another address gets in, and is answered, while the others are still there."""
    with (
        socket.create_connection(address, PATIENCE, (ELSEWHERE, 0)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as client,
    ):
        client.sendall(encode({"event": "client/register"}))
        assert b"client/register/reply" in client.recv(1 << 16)
