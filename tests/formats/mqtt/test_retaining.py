"""Retained messages that outlive the server: a real one, which is killed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bussrv.testing.server import RunningServer
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_5, Packet, Properties, Publish, WantedFilter
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.reasons import ReasonCode
from bussrv.wire.mqtt.writer import encode
from tests.forked import ForkedServer
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import Network

pytestmark = pytest.mark.processes

DURABLE = ("--mqtt", "tcp:0:interface=127.0.0.1", "--mqtt-retain", "durable")


class Client:
    """A client of MQTT 5.0 over TCP."""

    def __init__(self, server: RunningServer, client_id: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port("mqtt")), 30)
        self._reader = MqttReader("server", VERSION_5)
        assert isinstance(self.ask(packets.Connect(client_id)), packets.Connack)

    def close(self) -> None:
        self._socket.close()

    def next(self) -> Packet:
        while (packet := self._reader.next_event()) is None:
            data = self._socket.recv(1 << 16)
            assert data, "the server closed the connection"
            self._reader.feed(data)
        return packet

    def ask(self, packet: Packet) -> Packet:
        self._socket.sendall(encode(packet, VERSION_5))
        return self.next()

    def retain(self, topic: str, payload: bytes, properties: Properties = packets.NO_PROPERTIES) -> int:
        """:returns: the reason code."""
        answer = self.ask(Publish(topic, payload, 1, True, 1, properties=properties))
        assert isinstance(answer, packets.Puback)
        return answer.code

    def retained(self) -> list[Publish]:
        """Everything that is retained. The last message is one that says that no others come."""
        self.ask(packets.Subscribe(1, (WantedFilter("#", 1),)))
        self._socket.sendall(encode(Publish("~", b"end"), VERSION_5))
        found: list[Publish] = []
        while not found or found[-1].topic != "~":
            packet = self.next()
            if isinstance(packet, Publish):
                found.append(packet)
        return found[:-1]


@contextmanager
def client(server: RunningServer, client_id: str = "ann") -> Iterator[Client]:
    made = Client(server, client_id)
    try:
        yield made
    finally:
        made.close()


def test_what_was_acknowledged_is_retained_after_kill_9(tmp_path: Path) -> None:
    given = Properties(content_type="text/plain", user_properties=(("a", "1"),))
    with ForkedServer(tmp_path / "journal", DURABLE) as server, client(server) as ann:
        for number in range(20):
            assert ann.retain(f"hall/{number}", b"%d" % number, given if number == 3 else packets.NO_PROPERTIES) == 0
        assert ann.retain("hall/0", b"") == 0
        assert ann.retain("hall/1", b"again") == 0
        server.process.kill()
        server.process.wait(30)
    with ForkedServer(tmp_path / "journal", DURABLE) as server, client(server, "ben") as ben:
        found = ben.retained()
    assert {each.topic: each.payload for each in found} == {
        "hall/1": b"again",
        **{f"hall/{number}": b"%d" % number for number in range(2, 20)},
    }
    assert all(each.retain and each.qos == 1 for each in found)
    (with_properties,) = [each.properties for each in found if each.topic == "hall/3"]
    assert with_properties == given


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    few = ("--max-spool-entries", "2")
    with ForkedServer(tmp_path / "journal", [*DURABLE, *few]) as server, client(server) as ann:
        codes = [ann.retain(f"hall/{number}", b"x") for number in range(3)]
        assert codes == [0, 0, ReasonCode.QUOTA_EXCEEDED]
        assert ann.retain("hall/0", b"") == 0
        assert ann.retain("hall/2", b"x") == 0
    with ForkedServer(tmp_path / "journal", DURABLE) as server, client(server, "ben") as ben:
        assert sorted(each.topic for each in ben.retained()) == ["hall/1", "hall/2"]


def test_what_could_not_be_replaced_is_cleared_all_the_same() -> None:
    network = Network(mqtt_retain="durable")
    ann, bob = (MqttPeer(network, host, host=host) for host in ("10.0.0.1", "10.0.0.2"))
    ann.publish("tv", b"on", 1, retain=True)
    network.bus.spool.fails = True  # type: ignore[attr-defined]
    refused = packets.Puback(7, ReasonCode.UNSPECIFIED_ERROR)
    assert [peer.publish("tv", b"off", 1, retain=True) for peer in (ann, bob)] == [[refused]] * 2
    assert retained(network) == b"on", "what the spool has"
    network.bus.spool.fails = False  # type: ignore[attr-defined]
    assert bob.publish("tv", b"", 1, retain=True) == [packets.Puback(7)]
    eve = MqttPeer(network.restarted(), "eve")
    assert [each for each in eve.subscribe("#") if isinstance(each, Publish)] == []


def test_what_is_retained_is_what_the_spool_took() -> None:
    network = Network(mqtt_retain="durable")
    ann, bob = MqttPeer(network), MqttPeer(network, "bob")
    ann.publish("tv", b"on", 1, retain=True)
    spool = network.bus.spool
    spool.delay = 1.0  # type: ignore[attr-defined]
    for fails, confirmed in (((False, True), b"off"), ((True, True), b"off"), ((True, False), b"dim")):
        for peer, payload, spool.fails in zip((ann, bob), (b"off", b"dim"), fails, strict=True):  # type: ignore[attr-defined]
            peer.send(Publish("tv", payload, 1, True, 7))
            assert retained(network) == payload
        network.reactor.pump([1, 0, 1, 0])
        assert retained(network) == confirmed


def retained(network: Network) -> bytes:
    found = network.bus.retained.get("tv")
    assert found is not None
    return found.payload
