"""The client over a network that cuts, delays, splits and half-opens connections, at a real server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bussrv.client.aio import Backoff, BusError, Gap, Lost, Message, Offline, connect
from tests.client.shells import run
from tests.forked import ForkedServer
from tests.size import further, sized

pytestmark = pytest.mark.processes

CUTS = sized(1000, 10)
IN_FLIGHT = 50

MOST_GROWTH = 300
"""The most objects that three quarters of all cuts may leave. Each of them ends a connection."""


class Network:
    """Forwards every connection to a server, and ends each one after some bytes, chosen at random.

    :ivar cuts: how many connections it has ended.
    """

    def __init__(self, port: int, seed: int) -> None:
        self.cuts = 0
        self.is_kind = False
        self._port = port
        self._random = random.Random(seed)
        self._carrying: set[asyncio.Task[None]] = set()

    async def listen(self) -> int:
        """:returns: the port to connect to."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Nothing is forwarded any more."""
        self._server.close()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        left = [self._random.choice((0, 1, 100, 3000, 30_000)) * self._random.randint(1, 10)]
        ways = [(reader, far_writer), (far_reader, writer)]
        tasks = [asyncio.ensure_future(self._pump(*way, left)) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.cuts += not self.is_kind
        finally:
            for task in tasks:
                task.cancel()
            for each in (writer, far_writer):
                if self._random.random() < 0.5:
                    each.transport.abort()
                each.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int]) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(self._random.choice((1, 7, 1000, 1 << 16))):
                if not self.is_kind:
                    data, left[0] = data[: left[0]], left[0] - len(data)
                    if self._random.random() < 0.02:
                        await asyncio.sleep(self._random.random() / 100)
                writer.write(data)
                await writer.drain()
                if left[0] <= 0 and not self.is_kind:
                    return


class Ledger:
    """What was asked and what was done.

    :ivar done: how often each request was done.
    :ivar told: what its asker was told: ``answered``, ``maybe`` or ``never``.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.done: dict[bytes, int] = {}
        self.told: dict[bytes, str] = {}

    async def serve(self, request: Any) -> bytes:
        self.done[request.payload] = self.done.get(request.payload, 0) + 1
        await asyncio.sleep(0)
        return bytes(request.payload)

    async def ask(self, bus: Any, number: int) -> None:
        name = b"%d" % number
        try:
            reply = await bus.request("echo", name, timeout=30)
        except Lost as lost:
            self.told[name] = "maybe" if lost.maybe_done else "never"
        except Offline:
            self.told[name] = "never"
            await asyncio.sleep(0.005)
        else:
            assert reply.payload == name
            self.told[name] = "answered"

    async def ask_until(self, bus: Any, network: Network, cuts: int) -> None:
        while network.cuts < cuts:
            self.asked += 1
            await self.ask(bus, self.asked)

    def check(self) -> None:
        assert set(self.done) <= set(self.told)
        assert set(self.done.values()) <= {1}
        for name, told in self.told.items():
            done = self.done.get(name, 0)
            assert (done == 1) if told == "answered" else (done == 0) if told == "never" else done <= 1, name


async def publish_until(bus: Any, network: Network, cuts: int, numbers: Iterator[int]) -> None:
    while network.cuts < cuts:
        await bus.publish("numbers", b"%d" % next(numbers))
        await asyncio.sleep(0.001)


def living_objects() -> int:
    """How many objects there are that hold others. What this test itself keeps are bytes and messages, which do not."""
    gc.collect()
    return len(gc.get_objects())


def check_sequence(events: list[Any]) -> None:
    """Each number is the next one, unless a gap says that some are missing."""
    last, is_after_gap = -1, True
    for event in events:
        if isinstance(event, Gap):
            is_after_gap = True
        else:
            assert isinstance(event, Message)
            number = int(event.payload)
            assert (number > last) if is_after_gap else (number == last + 1), (last, number)
            last, is_after_gap = number, False


@pytest.mark.parametrize("scheme", further(["bus", "ws"]))
def test_requests_and_publications_over_a_bad_network(
    tmp_path: Path, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "bussrv.client")  # Records that are captured stay.
    ledger = Ledger()
    kind = {"bus": "objects", "ws": "websocket"}[scheme]
    limits = ["--websocket", "0", "--max-connects", "100000", "--routing-id-hold", "1"]
    with ForkedServer(tmp_path / "journal", limits) as server:
        here = f"bus://127.0.0.1:{server.port('objects')}"

        async def work() -> None:
            network = Network(server.port(kind), seed=7)
            address = f"{scheme}://127.0.0.1:{await network.listen()}"
            received: list[Any] = []
            quick = Backoff(0.001, 0.01)
            async with (
                connect(here) as service_bus,
                service_bus.serve("echo", ledger.serve, concurrency=100) as service,
                connect(address, offline="wait", reconnect=quick) as listener,
                connect(address, reconnect=quick, offline="wait") as asker,
            ):
                await service.registered()
                subscription = await subscribed(listener, received)
                numbers, objects = itertools.count(), []
                for cuts in (CUTS // 4, CUTS):
                    asking = (ledger.ask_until(asker, network, cuts) for _ in range(IN_FLIGHT))
                    await asyncio.gather(publish_until(service_bus, network, cuts, numbers), *asking)
                    objects.append(living_objects())
                assert objects[1] - objects[0] < MOST_GROWTH, objects
                network.is_kind = True
                core = asker._core
                assert (len(core._questions), core._services.open_requests) == (0, 0)
                subscription.cancel()
                await asyncio.wait([subscription])
            await network.close()
            ledger.check()
            check_sequence(received)
            assert any(isinstance(each, Message) for each in received)

        async def subscribed(listener: Any, received: list[Any]) -> asyncio.Task[None]:
            entered = asyncio.Event()

            async def listen() -> None:
                while True:
                    with contextlib.suppress(BusError):
                        async with listener.subscribe("numbers", queue=100_000) as events:
                            entered.set()
                            async for event in events:
                                received.append(event)  # noqa: PERF401  the rest is to be seen, too

            task = asyncio.ensure_future(listen())
            await entered.wait()
            return task

        run(work(), 600)
    answers = list(ledger.told.values())
    assert answers.count("answered") > CUTS
    assert "maybe" in answers
