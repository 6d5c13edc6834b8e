"""Many SPP clients that take whatever they are sent, in a process of their own::

with Watchers(server, 1000) as watchers:
    register_thousands(server)
    watchers.wait(spp.offer("the last one"))
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
from typing import Any, cast

from bussrv.testing.server import RunningServer

PATIENCE = 60.0


class Watchers:
    """SPP clients, as a context manager; connected and offered something when the context begins.

    :param number: how many.
    """

    def __init__(self, server: RunningServer, number: int) -> None:
        host, port = server.addresses["spp"]
        command = [sys.executable, "-m", __name__, host, str(port), str(number)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._said("connected")

    def wait(self, packet: bytes) -> None:
        """Until each of them was sent ``packet``, now or before, since the last packet that was waited for."""
        assert self._process.stdin is not None
        self._process.stdin.write(packet.hex() + "\n")
        self._process.stdin.flush()
        self._said("seen")

    def _said(self, word: str) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != word + "\n":
            raise RuntimeError("the watchers' process ended")

    def __enter__(self) -> Watchers:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


# What follows runs in the process of the watchers.


class Watcher:
    """One of them, and what it was sent since the last packet that was waited for."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, PATIENCE)
        self.sent = bytearray()

    def read(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            sys.exit("the server closed a connection")
        self.sent += data

    def saw(self, packet: bytes) -> bool:
        """Whether ``packet`` came; what came up to it is forgotten then."""
        place = self.sent.find(packet)
        if place >= 0:
            del self.sent[: place + len(packet)]
        return place >= 0


def main(host: str, port: str, number: str) -> None:
    selector: Any = selectors.DefaultSelector()
    watchers = [Watcher((host, int(port))) for _ in range(int(number))]
    for each in watchers:
        each.read()
        selector.register(each.socket, selectors.EVENT_READ, each)
    print("connected", flush=True)  # noqa: T201
    selector.register(sys.stdin, selectors.EVENT_READ)
    packet, missing = b"", set[Watcher]()
    while True:
        for key, _ in selector.select():
            if key.data is None:
                packet, missing = bytes.fromhex(sys.stdin.readline()), set(watchers)
                continue
            cast("Watcher", key.data).read()
        if missing:
            missing = {each for each in missing if not each.saw(packet)}
            if not missing:
                print("seen", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
