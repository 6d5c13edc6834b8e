"""A server with many durable sessions, killed under load: nothing acknowledged is lost, or of QoS 2 comes twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_5, Packet, Properties, WantedFilter
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.writer import encode
from tests.forked import ForkedServer
from tests.formats.mqtt.durable.clients import Publisher, Subscriber
from tests.size import FULL, sized

pytestmark = pytest.mark.processes

SESSIONS = sized(10_000, 40)
PUBLISHERS = 20
ON_A_TOPIC = 16
OUTSTANDING = 10
KILLS = 3 if FULL else 2
OPTIONS = ("--mqtt", "tcp:0:interface=127.0.0.1", "--max-spool-total", str(4 << 30))
AT_A_TIME = 50


class Connection:
    """A client with a durable session over TCP."""

    def __init__(self, client_id: str, core: Subscriber | Publisher) -> None:
        self.client_id = client_id
        self.core = core
        self._reader = MqttReader("server", VERSION_5)
        self._writer: asyncio.StreamWriter | None = None
        self._stream: asyncio.StreamReader | None = None

    async def connect(self, port: int) -> None:
        about = Properties(session_expiry_interval=3600)
        self._stream, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._reader = MqttReader("server", VERSION_5)
        self.send([packets.Connect(self.client_id, clean_start=False, properties=about)])
        answer = await self.next()
        assert isinstance(answer, packets.Connack)
        assert answer.code == 0
        assert answer.properties.user_properties == (), "nothing is dropped"
        if isinstance(self.core, Publisher):
            self.send(self.core.connected(is_present=answer.session_present))

    def send(self, some: Iterable[Packet]) -> None:
        if self._writer is not None:
            self._writer.write(b"".join(encode(each, VERSION_5) for each in some))

    async def next(self) -> Packet:
        assert self._stream is not None
        while (packet := self._reader.next_event()) is None:
            data = await self._stream.read(1 << 16)
            if not data:
                raise ConnectionResetError
            self._reader.feed(data)
        return packet

    async def serve(self, taken: Callable[[], None] = lambda: None) -> None:
        """Answer what comes, until the connection is lost."""
        with suppress(ConnectionError):
            while True:
                self.send(self.core.take(await self.next()))
                taken()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class Load:
    """Publishers that publish as fast as they are acknowledged, and subscribers: every other one is away."""

    def __init__(self) -> None:
        self.subscribers = [Connection(f"s{number}", Subscriber()) for number in range(SESSIONS)]
        self.publishers = [Connection(f"p{number}", Publisher()) for number in range(PUBLISHERS)]
        self._made = 0
        self.progress = asyncio.Event()
        self.wanted = 0

    @property
    def acknowledged(self) -> int:
        return sum(len(each) for one in self.cores for each in one.acknowledged.values())

    @property
    def cores(self) -> list[Publisher]:
        return [each.core for each in self.publishers if isinstance(each.core, Publisher)]

    async def subscribe(self, port: int) -> None:
        async def one(each: Connection) -> None:
            await each.connect(port)
            number = int(each.client_id[1:])
            each.send([packets.Subscribe(1, (WantedFilter(topic_of(number), 2),))])
            assert isinstance(await each.next(), packets.Suback)
            each.close()

        await in_turns(self.subscribers, one)

    def publish(self, connection: Connection) -> None:
        core = connection.core
        assert isinstance(core, Publisher)
        while len(core.open) < OUTSTANDING:
            self._made += 1
            packet = core.publish(topic_of(self._made % SESSIONS), b"%d" % self._made, 1 + self._made % 2)
            connection.send([packet])
        if self.acknowledged >= self.wanted:
            self.progress.set()

    async def run_until(self, port: int, acknowledged: int) -> list[asyncio.Task[None]]:
        """:returns: what goes on until the connections are lost."""
        self.wanted = self.acknowledged + acknowledged
        self.progress.clear()
        await in_turns(self.subscribers[::2], lambda each: each.connect(port))
        tasks = [asyncio.create_task(each.serve()) for each in self.subscribers[::2]]
        await in_turns(self.publishers, lambda each: each.connect(port))
        for each in self.publishers:
            tasks.append(asyncio.create_task(each.serve(lambda each=each: self.publish(each))))
            self.publish(each)
        await asyncio.wait_for(self.progress.wait(), 120)
        return tasks

    async def finish(self, port: int) -> None:
        """Let everything come that was published."""
        await in_turns(self.publishers, lambda each: each.connect(port))
        tasks = [asyncio.create_task(each.serve()) for each in self.publishers]
        await until(lambda: all(not each.open for each in self.cores))
        await in_turns(self.subscribers, lambda each: each.connect(port))
        tasks += [asyncio.create_task(each.serve()) for each in self.subscribers]
        await until(self.is_complete)
        # Whatever comes twice, comes before the answer to this.
        for each in self.subscribers:
            each.send([packets.Pingreq()])
        for each in (*self.subscribers, *self.publishers):
            each.close()
        await asyncio.gather(*tasks)

    def is_complete(self) -> bool:
        wanted = self.acknowledged_on()
        return all(wanted[topic_of(number)] <= got(each) for number, each in enumerate(self.subscribers))

    def acknowledged_on(self) -> dict[str, set[bytes]]:
        found: dict[str, set[bytes]] = {topic_of(number): set() for number in range(SESSIONS)}
        for core in self.cores:
            for some in core.acknowledged.values():
                for each in some:
                    found[topic_of(int(each) % SESSIONS)].add(each)
        return found


def topic_of(number: int) -> str:
    return f"load/{number // ON_A_TOPIC}"


def got(connection: Connection) -> set[bytes]:
    core = connection.core
    assert isinstance(core, Subscriber)
    return {*core.got[1], *core.got[2]}


async def in_turns(connections: list[Connection], do: Callable[[Connection], Awaitable[None]]) -> None:
    for begin in range(0, len(connections), AT_A_TIME):
        await asyncio.gather(*[do(each) for each in connections[begin : begin + AT_A_TIME]])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.05)


def test_nothing_acknowledged_is_lost_or_comes_twice(tmp_path: Path) -> None:
    asyncio.run(kill_under_load(tmp_path / "journal"))


async def kill_under_load(journal: Path) -> None:
    load = Load()
    with ForkedServer(journal, OPTIONS) as server:
        await load.subscribe(server.port("mqtt"))
        server.process.kill()
    for number in range(KILLS):
        with ForkedServer(journal, OPTIONS) as server:
            tasks = await load.run_until(server.port("mqtt"), 200 + 150 * number)
            server.process.kill()
            await asyncio.gather(*tasks)
            for each in (*load.subscribers, *load.publishers):
                each.close()
    with ForkedServer(journal, OPTIONS) as server:
        await load.finish(server.port("mqtt"))
    for each in load.subscribers:
        assert isinstance(each.core, Subscriber)
        twice = each.core.got[2]
        assert len(twice) == len(set(twice)), each.client_id
    assert load.acknowledged > KILLS * 200
