"""Redis beside the journal: an append-only file with ``appendfsync always``, and the same line pushed to a list.

The closed loop is driven by ``redis-benchmark``, a C program; the open one from here, which at 10,000 changes a second
takes a fraction of a CPU.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

from journal_figures import Figures, figures
from journal_pacer import pacer, read_moments

START_TIME = 10.0
"""Seconds within which it has to answer."""


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
            _wait_for(path, process)
            yield Redis(path, line)
        finally:
            process.terminate()


def _wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + START_TIME
    while not _listens(path):
        if process.poll() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"redis-server did not start (exit status {process.poll()}): see what it said above")
        time.sleep(0.01)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0
