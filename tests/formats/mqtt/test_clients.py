"""Libraries for clients of MQTT as they are in the field, against a server that runs as a user would run it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from paho.mqtt import client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.forked import ForkedServer

pytestmark = pytest.mark.processes

PATIENCE = 20.0
HOUR = 3600
OPTIONS = ("--mqtt", "tcp:0:interface=127.0.0.1")


class Message(NamedTuple):
    topic: str
    payload: bytes
    qos: int
    retain: bool


class Client(Protocol):
    """A library, in the few words that the test needs."""

    inbox: asyncio.Queue[Message]

    async def connect(self, port: int, client_id: str, *, is_durable: bool, will: str | None) -> None: ...

    async def subscribe(self, topic: str, qos: int) -> None: ...

    async def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None: ...

    async def close(self) -> None: ...

    def cut(self) -> None:
        """The connection is lost."""


class Paho:
    """paho-mqtt; with a thread of its own."""

    def __init__(self, version: int) -> None:
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._version = version
        self._loop = asyncio.get_running_loop()

    async def connect(self, port: int, client_id: str, *, is_durable: bool, will: str | None) -> None:
        version = paho.MQTTv5 if self._version == 5 else paho.MQTTv311
        clean = None if self._version == 5 else not is_durable
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id, clean, protocol=version)
        about: dict[str, Any] = {}
        if self._version == 5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = HOUR if is_durable else 0
            about = {"clean_start": not is_durable, "properties": properties}
        if will is not None:
            self._client.will_set(will, b"gone", 1, retain=True)
        connected = self._future("on_connect")
        self._client.on_message = self._came
        await asyncio.to_thread(self._client.connect, "127.0.0.1", port, **about)
        self._client.loop_start()
        await asyncio.wait_for(connected, PATIENCE)

    def _future(self, callback: str) -> asyncio.Future[None]:
        done: asyncio.Future[None] = self._loop.create_future()

        def called(*_: object) -> None:
            self._loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))

        setattr(self._client, callback, called)
        return done

    def _came(self, client: object, data: object, message: Any) -> None:
        found = Message(message.topic, message.payload, message.qos, message.retain)
        self._loop.call_soon_threadsafe(self.inbox.put_nowait, found)

    async def subscribe(self, topic: str, qos: int) -> None:
        done = self._future("on_subscribe")
        self._client.subscribe(topic, qos)
        await asyncio.wait_for(done, PATIENCE)

    async def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        sent = self._client.publish(topic, payload, qos, retain)
        await asyncio.to_thread(sent.wait_for_publish, PATIENCE)

    async def close(self) -> None:
        self._client.disconnect()
        await asyncio.to_thread(self._client.loop_stop)

    def cut(self) -> None:
        self._client.loop_stop()
        found = self._client.socket()
        assert found is not None
        found.close()


class Aiomqtt:
    """aiomqtt; on asyncio."""

    def __init__(self, version: int) -> None:
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._version = version

    async def connect(self, port: int, client_id: str, *, is_durable: bool, will: str | None) -> None:
        import aiomqtt

        about: dict[str, Any] = {"clean_session": not is_durable, "protocol": aiomqtt.ProtocolVersion.V311}
        if self._version == 5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = HOUR if is_durable else 0
            about = {"clean_start": not is_durable, "properties": properties, "protocol": aiomqtt.ProtocolVersion.V5}
        if will is not None:
            about["will"] = aiomqtt.Will(will, b"gone", 1, retain=True)
        self._client = aiomqtt.Client("127.0.0.1", port, identifier=client_id, **about)
        await self._client.__aenter__()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for each in self._client.messages:
            assert isinstance(each.payload, bytes)
            self.inbox.put_nowait(Message(each.topic.value, each.payload, each.qos, each.retain))

    async def subscribe(self, topic: str, qos: int) -> None:
        await self._client.subscribe(topic, qos)

    async def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        await self._client.publish(topic, payload, qos, retain)

    async def close(self) -> None:
        self._reading.cancel()
        await self._client.__aexit__(None, None, None)

    def cut(self) -> None:
        self._reading.cancel()
        found = self._client._client.socket()
        assert found is not None
        found.close()


class Gmqtt:
    """gmqtt; on asyncio."""

    def __init__(self, version: int) -> None:
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._version = version

    async def connect(self, port: int, client_id: str, *, is_durable: bool, will: str | None) -> None:
        import gmqtt

        about = {"session_expiry_interval": HOUR} if is_durable and self._version == 5 else {}
        message = None if will is None else gmqtt.Message(will, b"gone", 1, retain=True)
        self._client = gmqtt.Client(client_id, clean_session=not is_durable, will_message=message, **about)
        self._client.set_config({"reconnect_retries": 0, "reconnect_delay": 60})
        self._client.on_message = self._came
        self._subscribed = asyncio.Event()
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        version = gmqtt.constants.MQTTv50 if self._version == 5 else gmqtt.constants.MQTTv311
        await self._client.connect("127.0.0.1", port, version=version)

    async def _came(self, client: object, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> int:
        self.inbox.put_nowait(Message(topic, payload, qos, bool(properties["retain"])))
        return 0

    async def subscribe(self, topic: str, qos: int) -> None:
        self._client.subscribe(topic, qos)
        await asyncio.wait_for(self._subscribed.wait(), PATIENCE)

    async def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        self._client.publish(topic, payload, qos, retain)

    async def close(self) -> None:
        await self._client.disconnect()

    def cut(self) -> None:
        self._client._connection._transport.abort()


LIBRARIES: dict[str, Callable[[int], Client]] = {"paho-mqtt": Paho, "aiomqtt": Aiomqtt, "gmqtt": Gmqtt}


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library(library: str, version: int, tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", OPTIONS) as server:
        asyncio.run(use(LIBRARIES[library], version, server.port("mqtt")))


async def use(make: Callable[[int], Client], version: int, port: int) -> None:
    subscriber, publisher = make(version), make(version)
    await subscriber.connect(port, "sub", is_durable=True, will=None)
    await subscriber.subscribe("hall/#", 2)
    await publisher.connect(port, "pub", is_durable=False, will="hall/pub")
    for qos in (0, 1, 2):
        await publisher.publish("hall/tv", b"%d" % qos, qos)
        assert await heard(subscriber) == Message("hall/tv", b"%d" % qos, qos, False)
    await subscriber.close()
    await publisher.publish("hall/tv", b"while away", 2, retain=True)
    # Confirmed after that. Not every library says when a message is.
    await publisher.subscribe("nothing", 0)
    other = make(version)
    await other.connect(port, "other", is_durable=False, will=None)
    await other.subscribe("hall/tv", 1)
    assert await heard(other) == Message("hall/tv", b"while away", 1, True)
    again = make(version)
    await again.connect(port, "sub", is_durable=True, will=None)
    assert await heard(again) == Message("hall/tv", b"while away", 2, False)
    publisher.cut()
    assert await heard(again) == Message("hall/pub", b"gone", 1, False)
    await again.close()
    await other.close()


async def heard(client: Client) -> Message:
    return await asyncio.wait_for(client.inbox.get(), PATIENCE)
