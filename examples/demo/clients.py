"""What demonstrations have in common: a client of MQTT, free ports, and sentences about what clients saw."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from bussrv.client.objects import Object
from bussrv.client.spp import SppClient
from bussrv.wire import spp
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_5, Publish, WantedFilter
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.writer import encode

PATIENCE = 10.0


class MqttClient:
    """A client of MQTT 5.0, as small as it can be."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._reader = MqttReader("server", VERSION_5)
        self._ask(packets.Connect("phone"))

    def __enter__(self) -> MqttClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def subscribe(self, topic: str) -> None:
        """Subscribe to a filter."""
        self._ask(packets.Subscribe(1, (WantedFilter(topic, 1),)))

    def publish(self, topic: str, payload: bytes) -> None:
        """Publish a message of QoS 1. It has been given to everybody when this returns."""
        self._send(Publish(topic, payload, 1, id=1))
        while not isinstance(self._next(), packets.Puback):
            pass

    def wait_for(self, topic: str) -> bytes:
        """The next message on a topic."""
        while True:
            packet = self._next()
            if isinstance(packet, Publish) and packet.topic == topic:
                return packet.payload

    def _ask(self, packet: packets.Packet) -> None:
        self._send(packet)
        self._next()

    def _send(self, packet: packets.Packet) -> None:
        self._socket.sendall(encode(packet, VERSION_5))

    def _next(self) -> packets.Packet:
        while (packet := self._reader.next_event()) is None:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection of the MQTT client")
            self._reader.feed(data)
        return packet


def show_info(screen: SppClient, service: str) -> None:
    """Show the next message of a service to an SPP client."""
    info = screen.wait_for(lambda event: isinstance(event, spp.Info) and event.service == service)
    assert isinstance(info, spp.Info)
    tell("spp", f"received {info.message.decode()!r} from {service!r}")


def show_object(name: str, received: Object, who: str = "") -> None:
    """Show an object that somebody received."""
    fields = received.metadata
    what = fields.get("event") or f"{fields.get('type')} from {fields.get('sender')!r}"
    tell(name, f"{who + ' ' if who else ''}received {what}: {received.payload.decode()!r}")


def say(sentence: str) -> None:
    """Say what happens next."""
    print(f"\n{sentence}", flush=True)


def tell(name: str, sentence: str) -> None:
    """Say what one of the formats saw."""
    print(f"  {name:>10}  {sentence}", flush=True)


def free_ports(number: int) -> tuple[int, ...]:
    """Ports at which no program listens right now."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return tuple(probe.getsockname()[1] for probe in probes)
