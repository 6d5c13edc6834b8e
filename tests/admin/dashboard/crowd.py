"""Thousands of sessions that are present, each with a service, and hundreds of changes of the registry a second."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

OPTIONS = (
    *("--announce", "off", "--max-connects", "100000", "--max-sessions-per-address", "20000"),
    *("--journal-sync", "interval", "--admin-max-rate", "1000"),
)
"""Without these, the limits and the announcements would be what is measured."""

AT_ONCE = 200
"""Connections that wait for their replies together."""

BUSY = 50
"""Of the sessions, those that change something all the time."""


class Crowd:
    """Members of the object network, connected one batch after the other, as a context manager.

    :ivar changes: how many changes were asked for so far.
    """

    def __init__(self, port: int, number: int) -> None:
        self.changes = 0
        self._port = port
        self._stack = ExitStack()
        self._connections: list[socket.socket] = []
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        while len(self._connections) < number:
            self._connect(min(AT_ONCE, number - len(self._connections)))

    def _connect(self, number: int) -> None:
        first = len(self._connections)
        fresh = [self._stack.enter_context(socket.create_connection(("127.0.0.1", self._port))) for _ in range(number)]
        for index, each in enumerate(fresh, first):
            fields = f'"event":"routing/subscribe","receive_mode":"none","routing-id":"member-{index}","id":"1"'
            service = f'"event":"services/register","name":"device-{index}/state"'
            each.sendall(f"{{{fields}}}\0{{{service}}}\0".encode())
        for each in fresh:
            read_reply(each)
        self._connections += fresh

    def change(self, rate: int) -> None:
        """From now on have services registered and taken back, so many a second."""
        self._thread = threading.Thread(target=self._change, args=(rate,), daemon=True)
        self._thread.start()

    def _change(self, rate: int) -> None:
        busy = self._connections[:BUSY]
        began = time.monotonic()
        while not self._stopped.wait(0.02):
            due = int((time.monotonic() - began) * rate)
            while self.changes < due:
                self._turn(busy)

    def _turn(self, busy: Sequence[socket.socket]) -> None:
        """Each registers a service, or, the next time, takes it back. It asked to receive no answer."""
        number = self.changes
        connection = busy[number % len(busy)]
        event = "register" if number // len(busy) % 2 == 0 else "unregister"
        connection.sendall(f'{{"event":"services/{event}","name":"service-{number % len(busy)}","id":"c"}}\0'.encode())
        self.changes += 1

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(10)
        self._stack.close()


def read_reply(connection: socket.socket) -> bytes:
    """The next object of a connection, which has no payload."""
    reply = b""
    while not reply.endswith(b"\0"):
        received = connection.recv(4096)
        if not received:
            raise ConnectionError(f"the server closed the connection: {reply!r}")
        reply += received
    return reply
