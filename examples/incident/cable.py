"""A link between two servers that can be cut: a port that passes every connection on to another one."""

from __future__ import annotations

import contextlib
import socket
import threading

LOOPBACK = "127.0.0.1"


class Cable:
    """Passes connections on, until it is cut.

    :param port: the port of the server that is dialed through it.
    :ivar port: the port to dial.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._listen()

    def cut(self) -> None:
        """End every connection, and refuse further ones."""
        for each in (self._listener, *self._ends):
            _end(each)
        self._ends.clear()

    def mend(self) -> None:
        """Accept connections again."""
        self._listener = socket.create_server((LOOPBACK, self.port))
        self._listen()

    def _listen(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection((LOOPBACK, self._to))
                self._ends += (near, far)
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=ends, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        _end(each)


def _end(each: socket.socket) -> None:
    # Closing alone does not wake up a thread that waits for it.
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
