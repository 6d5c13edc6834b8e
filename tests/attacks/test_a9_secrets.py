"""Attack A9: whoever guesses keeps nobody out."""

import itertools
import selectors
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bussrv.policy.logins.users import user_line
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from tests.attacks.bystanders import share
from tests.forked import ForkedServer
from tests.size import further, sized

GUESSING = sized(300, 10)
RIGHT = sized(1000, 10)
USERS = ("ann", "bob", "eve", "joe")
ACCEPTED, UNCHECKED = map(spp.auth_result, (spp.AUTH_ACCEPTED, spp.AUTH_UNCHECKED))

BAR = 30.0
"""Seconds in which all have to be in, with scrypt as ``bussrv passwd`` sets it up."""


PATIENCE = 200.0
"""Seconds that all this takes at most on a machine that has other things to do."""


class Stopwatch:
    """Seconds on a machine that a server has to itself. Secrets are checked in threads that let all others go first."""

    def __init__(self, server: RunningServer) -> None:
        self._process = server.process.pid
        self._began, self._before = time.monotonic(), self._scheduled()

    def _scheduled(self) -> dict[str, tuple[int, int]]:
        """How long each thread has run, and how long it has waited for a core, in ns; see proc(5)."""
        found: dict[str, tuple[int, int]] = {}
        for thread in Path(f"/proc/{self._process}/task").iterdir():
            with suppress(OSError):
                ran, waited, _ = (thread / "schedstat").read_text().split()
                found[thread.name] = int(ran), int(waited)
        return found

    def seconds(self) -> float:
        after = self._scheduled()
        before = [self._before.get(each, (0, 0)) for each in after]
        took = time.monotonic() - self._began
        return took * share(total(before), total(after.values()))


def total(threads: Iterable[tuple[int, int]]) -> tuple[int, int]:
    ran, waited = zip(*threads, strict=True)
    return sum(ran), sum(waited)


class Clients:
    """Connections of an attacker that are served in a thread. A context manager."""

    def __init__(self, server: RunningServer) -> None:
        self._place = server.addresses["spp"]
        self._numbers = itertools.count()
        self._selector = selectors.DefaultSelector()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Clients":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for key in tuple(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]

    def _run(self) -> None:
        while not self._ended.is_set():
            for key, _ in self._selector.select(0.1):
                self._serve(key)

    def _serve(self, key: selectors.SelectorKey) -> None:
        raise NotImplementedError


class Guessers(Clients):
    """Connections that guess, all the time; they come back when they are closed."""

    def __init__(self, server: RunningServer, source: str) -> None:
        super().__init__(server)
        self._source = source
        for _ in range(GUESSING):
            self._connect()

    def _connect(self) -> None:
        connection = socket.create_connection(self._place, source_address=(self._source, 0))
        self._selector.register(connection, selectors.EVENT_READ)
        self._guess(connection)

    def _guess(self, connection: socket.socket) -> None:
        number = next(self._numbers)
        connection.sendall(spp.authenticate(USERS[number % len(USERS)], f"guess{number}"))

    def _serve(self, key: selectors.SelectorKey) -> None:
        connection: socket.socket = key.fileobj  # type: ignore[assignment]
        try:
            if connection.recv(1 << 16):
                self._guess(connection)
                return
        except OSError:
            pass
        self._selector.unregister(connection)
        connection.close()
        self._connect()


def log_in_all(server: RunningServer, source: str) -> float:
    """A thousand clients log in at once, and try again if the server says so.

    :returns: after how many seconds the last one is in, on a machine that the server has to itself.
    """
    stopwatch, end = Stopwatch(server), time.monotonic() + PATIENCE
    connections = [socket.create_connection(server.addresses["spp"], source_address=(source, 0)) for _ in range(RIGHT)]
    logins = list(zip(connections, itertools.cycle(USERS), strict=False))
    for connection, user in logins:
        connection.sendall(spp.authenticate(user, f"secret of {user}"))
    for connection, user in logins:
        connection.settimeout(max(0.1, end - time.monotonic()))
        while (answer := connection.recv(len(ACCEPTED), socket.MSG_WAITALL)) == UNCHECKED:
            connection.sendall(spp.authenticate(user, f"secret of {user}"))
        assert answer == ACCEPTED
    took = stopwatch.seconds()
    for connection in connections:
        connection.close()
    return took


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("source", further(["127.0.0.2", "127.0.0.1"]))
def test_guesses_do_not_keep_right_secrets_out(tmp_path: Path, source: str) -> None:
    users = tmp_path / "users"
    users.write_text("".join(user_line(user, f"secret of {user}".encode()) + "\n" for user in USERS))
    # Those who guess are at 127.0.0.2; to be right is hardest from there.
    with (
        ForkedServer(tmp_path / "journal", ["--auth", f"users:{users}"]) as server,
        Guessers(server, "127.0.0.2"),
    ):
        assert log_in_all(server, source) < BAR
        assert log_in_all(server, source) < BAR / 3


class Flood(Clients):
    """Addresses that guess the secret of ann; each comes back whenever it is refused or closed.

    :param sources: the addresses.
    :param waiting: how many guesses of each wait at a time, on connections of their own.
    """

    def __init__(self, server: RunningServer, sources: list[str], waiting: int) -> None:
        super().__init__(server)
        for source in sources * waiting:
            self._guess(source)

    def _guess(self, source: str) -> None:
        connection = socket.create_connection(self._place, source_address=(source, 0))
        connection.sendall(spp.authenticate("ann", f"guess{next(self._numbers)}"))
        self._selector.register(connection, selectors.EVENT_READ, source)

    def _serve(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]
        self._guess(key.data)


def log_in_once(server: RunningServer, source: str) -> float:
    """Log in, and try again if the server says so.

    :returns: after how many seconds ann is in, on a machine that the server has to itself.
    """
    stopwatch = Stopwatch(server)
    with socket.create_connection(server.addresses["spp"], PATIENCE, source_address=(source, 0)) as connection:
        answer = UNCHECKED
        while answer == UNCHECKED:
            connection.sendall(spp.authenticate("ann", "secret of ann"))
            answer = connection.recv(len(UNCHECKED), socket.MSG_WAITALL)
    assert answer == ACCEPTED
    return stopwatch.seconds()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server that knows ann."""
    users = tmp_path / "users"
    users.write_text(user_line("ann", b"secret of ann") + "\n")
    with ForkedServer(tmp_path / "journal", ["--auth", f"users:{users}"]) as server:
        yield server


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("source", further(["127.0.0.2", "127.0.1.2"]))
def test_guesses_from_many_addresses_do_not_keep_a_user_out(server: RunningServer, source: str) -> None:
    sources = [f"127.0.{number // 200 + 1}.{number % 200 + 1}" for number in range(sized(600))]
    with Flood(server, sources, 3):
        assert log_in_once(server, source) < 10


@pytest.mark.usefixtures("many_descriptors")
def test_guesses_do_not_keep_a_user_out_at_the_same_address(server: RunningServer) -> None:
    with Flood(server, ["127.0.0.2"], sized(300, 10)):
        assert log_in_once(server, "127.0.0.2") < 5
