"""Attack A6: whoever takes up sessions takes them from nobody else."""

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import RunningServer
from bussrv.wire import inbus, spp
from tests.forked import ForkedServer

MOST = 20
V1 = b"PROXY TCP6 %s 2001:db8::1 5555 3002\r\n"


@contextlib.contextmanager
def connections(server: RunningServer, number: int, header: bytes = b"") -> Iterator[list[socket.socket]]:
    """SPP clients that never say anything, oldest first."""
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(number):
            made.append(stack.enter_context(socket.create_connection(server.addresses["spp"], timeout=5)))
            made[-1].sendall(header)
            if not header:
                assert made[-1].recv(8)[:4] == spp.offer("x")[:4]
        yield made


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes it; waits for that."""
    with contextlib.suppress(TimeoutError):
        while connection.recv(1 << 16):
            pass
        return True
    return False


def flood_with_datagrams(server: RunningServer) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(1, 4 * MOST):
            sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sender.bind((f"127.0.1.{number}", 0))
            sender.sendto(inbus.publish(f"s{number}", 1, b"x"), server.addresses["inbus"])
            sender.sendto(inbus.subscribe("x", f"127.0.1.{number}", number), server.addresses["inbus"])


def test_datagrams_take_no_session_that_a_connection_could_have(tmp_path: Path) -> None:
    options = ("--max-sessions", str(MOST), "--inbus-max-sessions", str(2 * MOST))
    for _ in range(2):
        with ForkedServer(tmp_path / "journal", options) as server:
            flood_with_datagrams(server)
            with ObjectsClient(*server.addresses["objects"]) as client:
                client.subscribe()
                while json.loads(client.request("bus/statistics").payload)["sessions"].get("inbus") != 2 * MOST:
                    flood_with_datagrams(server)
            server.stop()


def test_silent_clients_keep_nobody_out(tmp_path: Path) -> None:
    options = ("--spp-max-silent", str(MOST))
    with ForkedServer(tmp_path / "journal", options) as server, connections(server, MOST + 5) as silent:
        assert all(is_closed(each) for each in silent[:5])
        for each in silent[5:]:
            each.settimeout(0.01)
        assert not any(is_closed(each) for each in silent[5:])
        with connections(server, 1) as (deferred,):
            deferred.sendall(spp.subscribe("bus/statistics"))
            silent[5].settimeout(0.1)
            assert not is_closed(silent[5])
        server.stop()


def test_addresses_that_a_proxy_states_are_counted(tmp_path: Path) -> None:
    options = ("--spp", "haproxy:tcp:0:interface=127.0.0.1", "--spp-max-silent-per-address", "2")
    with (
        ForkedServer(tmp_path / "journal", options) as server,
        connections(server, 3, V1 % b"2001:db8::5") as one,
        connections(server, 2, V1 % b"2001:db8:0:1::5") as other,
    ):
        assert is_closed(one[0])
        for each in (*one[1:], *other):
            each.settimeout(0.05)
        assert not any(is_closed(each) for each in (*one[1:], *other))
        server.stop()
