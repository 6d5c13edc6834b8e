"""Redis beside the journal: an append-only file with ``appendfsync always``, and the same line pushed to a list.

Alone, its closed loop is driven by ``redis-benchmark``, a C program, and the open one from here, which at 10,000
changes a second takes a fraction of a CPU. Or it stands behind the registry, in the place of the journal.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import processes
from journal_figures import Figures, figures
from journal_pacer import pacer, read_moments
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint, connectProtocol
from twisted.internet.protocol import Protocol, connectionDone
from zope.interface import implementer

from bussrv.journal.interfaces import IJournal, Waiter
from bussrv.journal.record import Record, Stamped

Encode = Callable[[int, Stamped], str]


def version() -> str | None:
    """Which Redis is installed; ``None``: none, or without ``redis-benchmark``."""
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        return None
    said = subprocess.run(["redis-server", "--version"], check=True, capture_output=True, text=True).stdout
    return next((word[2:] for word in said.split() if word.startswith("v=")), said.strip())


class Redis:
    """A running server."""

    def __init__(self, path: Path, line: bytes) -> None:
        self._path = path
        self._line = line
        self._rates: dict[tuple[int, int], float] = {}

    def closed_loop(self, connections: int, pipelined: int, seconds: float) -> Figures:
        """On each connection, so many commands are on their way."""
        key = connections, pipelined
        if key not in self._rates:
            self._rates[key] = self._benchmark(connections, pipelined, 10 * connections * pipelined + 500).rate
        measured = self._benchmark(connections, pipelined, int(self._rates[key] * seconds))
        self._rates[key] = measured.rate
        return measured

    def _benchmark(self, connections: int, pipelined: int, commands: int) -> Figures:
        self._command(b"UNLINK", b"journal")
        program = ["redis-benchmark", "-s", str(self._path), "-c", str(connections), "-P", str(pipelined), "--csv"]
        command = [*program, "-n", str(commands), "RPUSH", "journal", self._line.decode()]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        # Counted from the end: the first column is the command, with quotation marks in it.
        rate, _, _, p50, _, p99, _ = (float(word.strip('"')) for word in said.splitlines()[-1].rsplit(",", 7)[1:])
        return Figures(rate, p50 / 1000, p99 / 1000)

    def open_loop(self, connections: int, rate: float, seconds: float) -> Figures:
        """So many changes a second are asked for, over so many connections in turns."""
        self._command(b"UNLINK", b"journal")
        push = _encode(b"RPUSH", b"journal", self._line)
        with ExitStack() as stack:
            sockets = [stack.enter_context(self._connect()) for _ in range(connections)]
            pipe = stack.enter_context(pacer(rate, seconds))
            waiting: dict[int, deque[float]] = {each.fileno(): deque() for each in sockets}
            poll = stack.enter_context(select.epoll())
            for descriptor in (pipe, *waiting):
                poll.register(descriptor, select.EPOLLIN)
            turns = cycle(sockets)
            latencies: list[float] = []
            first = 0.0
            while len(latencies) < int(rate * seconds):
                for descriptor, _ in poll.poll():
                    if descriptor != pipe:
                        replies = os.read(descriptor, 1 << 16).count(b"\n")
                        now = time.perf_counter()
                        latencies += [now - waiting[descriptor].popleft() for _ in range(replies)]
                        continue
                    moments = read_moments(pipe)
                    if not moments:
                        poll.unregister(pipe)
                    for moment in moments:
                        first = first or moment
                        connection = next(turns)
                        waiting[connection.fileno()].append(moment)
                        connection.sendall(push)
            return figures(latencies, time.perf_counter() - first)

    async def as_journal(self, reactor: Any, encode: Encode) -> RedisJournal:
        """In the place of the journal, behind the same registry."""
        self._command(b"UNLINK", b"journal")
        journal = RedisJournal(encode)
        await connectProtocol(UNIXClientEndpoint(reactor, str(self._path)), journal)
        return journal

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self._path))
        return connection

    def _command(self, *words: bytes) -> None:
        with self._connect() as connection:
            connection.sendall(_encode(*words))
            connection.recv(1 << 16)


def _encode(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


@implementer(IJournal)
class RedisJournal(Protocol):
    """Pushes lines to a list, over one connection on which everything that is asked for meanwhile is on its way."""

    bytes_accepted = 0
    unavailable = None

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._seq = 0
        self._unanswered: deque[Waiter | None] = deque()
        self._closed: Deferred[None] = Deferred()

    def append_change(self, stamped: Sequence[Stamped], waiter: Waiter) -> None:
        self._push(stamped, waiter)

    def append_fact(self, stamped: Stamped) -> None:
        self._push([stamped], None)

    def refuse(self) -> None:
        """Nothing is refused."""

    def follow(self, follower: Callable[[list[Record]], None]) -> None:
        """Nobody is told."""

    def tell_between(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        """Nothing is sent by those who are told."""

    def close(self) -> Deferred[None]:
        self.transport.loseConnection()
        return self._closed

    def _push(self, stamped: Sequence[Stamped], done: Waiter | None) -> None:
        lines = []
        for each in stamped:
            self._seq += 1
            lines.append(self._encode(self._seq, each).encode())
        self.transport.write(_encode(b"RPUSH", b"journal", *lines))
        self._unanswered.append(done)

    def dataReceived(self, data: bytes) -> None:
        # Each answer is the length of the list, on a line.
        for _ in range(data.count(b"\n")):
            done = self._unanswered.popleft()
            if done is not None:
                done.callback([])

    def connectionLost(self, reason: Any = connectionDone) -> None:
        self._closed.callback(None)


@contextmanager
def redis(directory: Path, line: bytes) -> Iterator[Redis]:
    """Run a server of its own whose files are in ``directory``.

    :param line: what it is to write down, without newline.
    """
    # Not the whole path: the name of a Unix socket has at most 107 bytes.
    path = Path(os.path.relpath(directory / "socket"))
    settings = {
        "port": "0",
        "unixsocket": "socket",
        "dir": ".",
        "save": "",
        "appendonly": "yes",
        "appendfsync": "always",
        "auto-aof-rewrite-percentage": "0",
        "maxclients": "2000",
    }
    command = ["redis-server", *(word for name, value in settings.items() for word in (f"--{name}", value))]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL) as process:
        try:
            processes.wait_for(str(path), process, "see what it said above")
            yield Redis(path, line)
        finally:
            process.terminate()
