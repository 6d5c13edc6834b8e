"""Connections that a test can unplug."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any

_ABORT = struct.pack("ii", 1, 0)
_CHUNK = 1 << 16

Address = tuple[str, int]


class Bench:
    """Runs cables in a thread of its own; a context manager."""

    def __enter__(self) -> Bench:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cables", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in that thread, and wait for its end."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    @staticmethod
    async def _cancel_all() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Cable:
    """Forwards one TCP connection after another. It is new and unplugged: what dials it has to wait.

    :ivar port: where it is dialed, on this machine.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]
        self._carrying: asyncio.Task[None] | None = None
        self._flowing = asyncio.Event()

    def plug(self, address: Address) -> None:
        """Connect who dials the cable with ``address``."""
        self._bench.run(self._start(address))

    def unplug(self) -> None:
        """The connection breaks: what is under way is lost."""
        self._bench.run(self._stop())

    def hold(self) -> None:
        """Keep back what is sent from now on, both ways, until it is let go."""
        self._bench.run(self._flow(False))

    def let_go(self) -> None:
        """Forward what was kept back."""
        self._bench.run(self._flow(True))

    def close(self) -> None:
        """Who dials it is refused from now on."""
        self.unplug()
        self._listening.close()

    async def _start(self, address: Address) -> None:
        assert self._carrying is None
        self._flowing.set()
        self._carrying = asyncio.create_task(self._carry(address))

    async def _flow(self, flows: bool) -> None:
        (self._flowing.set if flows else self._flowing.clear)()

    async def _stop(self) -> None:
        if self._carrying is not None:
            self._carrying.cancel()
            await asyncio.wait([self._carrying])
            self._carrying = None

    async def _carry(self, address: Address) -> None:
        loop = asyncio.get_running_loop()
        while True:
            dialed, _ = await loop.sock_accept(self._listening)
            with contextlib.suppress(OSError):
                await _forward(dialed, address, self._flowing)


async def _forward(dialed: socket.socket, address: Address, flowing: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    with dialed, socket.socket() as beyond:
        ends = (dialed, beyond)
        pumps: list[asyncio.Task[None]] = []
        try:
            for end in ends:
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(beyond, address)
            pumps = [asyncio.create_task(_pump(*each, flowing)) for each in (ends, ends[::-1])]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            for end in ends:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            raise
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(source: socket.socket, target: socket.socket, flowing: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, _CHUNK):
        await flowing.wait()
        await loop.sock_sendall(target, data)


def reserve_port() -> socket.socket:
    """A port of this machine that refuses connections until a server listens on it; nobody else is given it."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
