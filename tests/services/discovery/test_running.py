"""Devices of Home Assistant and presence at a real server: providers come and go, and the server is killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bussrv.client.inbus import publish
from bussrv.client.objects import ObjectsClient
from bussrv.services.discovery.configs import Sensors
from bussrv.testing.server import RunningServer
from bussrv.wire.mqtt.packets import Publish, Suback, Subscribe, WantedFilter
from bussrv.wire.mqtt.writer import encode
from tests.forked import ForkedServer
from tests.formats.mqtt.test_retaining import Client

pytestmark = pytest.mark.processes

OPTIONS = (
    *("--mqtt", "tcp:0:interface=127.0.0.1", "--mqtt-retain", "durable", "--server-id", "hall"),
    *("--announce-discovery", "homeassistant", "--inbus-lease", "2"),
)
SENSORS = Sensors("hall")


class Subscriber(Client):
    """Is subscribed to everything on some topics."""

    def __init__(self, server: RunningServer, wanted: str) -> None:
        super().__init__(server, f"on {wanted}")
        assert isinstance(self.ask(Subscribe(1, (WantedFilter(wanted),))), Suback)

    def until(self, topic: str) -> bytes:
        """The next payload on a topic; others are skipped."""
        while True:
            packet = self.next()
            if isinstance(packet, Publish) and packet.topic == topic:
                return packet.payload

    def send(self, topic: str, payload: bytes) -> None:
        self._socket.sendall(encode(Publish(topic, payload), 5))


def provide(server: RunningServer, name: str) -> ObjectsClient:
    client = ObjectsClient("127.0.0.1", server.port("objects"))
    client.subscribe(receive_mode="none", types="none")
    client.send({"event": "services/register", "name": name, "announce": True})
    return client


def test_devices_and_presence_come_and_go(tmp_path: Path) -> None:
    config = SENSORS.config_topic
    with ForkedServer(tmp_path / "journal", OPTIONS) as server:
        home, bus = Subscriber(server, "homeassistant/#"), Subscriber(server, "$bus/services/#")
        publish("hall/temp", b"21", server=("127.0.0.1", server.port("inbus")))
        found = json.loads(home.until(config("hall/temp")))
        assert (found["state_topic"], found["device"]["name"]) == ("hall/temp", "127.0.0.1")
        assert home.until(SENSORS.availability_topic("hall/temp")) == b"online"
        assert bus.until("$bus/services/hall/temp") == b'{"providers":1}'
        # Its lease ends.
        assert home.until(config("hall/temp")) == b""
        assert bus.until("$bus/services/hall/temp") == b""
        with provide(server, "hall/tv"):
            assert json.loads(home.until(config("hall/tv")))["state_topic"] == "hall/tv"
            state = Subscriber(server, "hall/tv")
            state.send("hall/tv", b"on")
            assert state.until("hall/tv") == b"on"
            state.close()
        assert home.until(config("hall/tv")) == b""
        for each in (home, bus):
            each.close()


def test_no_device_haunts_after_kill_9(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", OPTIONS) as server:
        home = Subscriber(server, "homeassistant/#")
        with provide(server, "stays"), provide(server, "goes"):
            for name in ("stays", "goes"):
                assert home.until(SENSORS.availability_topic(name)) == b"online"
            server.process.kill()
            server.process.wait(30)
        home.close()
    with ForkedServer(tmp_path / "journal", OPTIONS) as server:
        home = Subscriber(server, "homeassistant/#")
        assert home.until(SENSORS.availability_topic("goes")) == b"offline"
        with provide(server, "stays"):
            assert json.loads(home.until(SENSORS.config_topic("stays")))["name"] == "stays"
            assert home.until(SENSORS.availability_topic("stays")) == b"online"
        home.close()


def test_a_server_announces_nothing_unless_it_is_told_to(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", OPTIONS[:4]) as server:
        bus = Subscriber(server, "$bus/services/#")
        with provide(server, "hall/tv"):
            publish("hall/temp", b"21", server=("127.0.0.1", server.port("inbus")))
            assert bus.until("$bus/services/hall/temp") == b'{"providers":1}'
            other = Client(server, "other")
            # The last value of a service is no announcement.
            assert [each.topic for each in other.retained()] == ["hall/temp"]
            other.close()
        bus.close()
