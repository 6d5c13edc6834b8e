"""The tour, ``make demo``: a server on free ports, a client of every wire format, and the audit of what happened.

Everything is real: ``twistd`` in a process of its own, sockets, the journal on disk, the audit.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from bussrv.cli.main import main as bussrv_command
from bussrv.client import blocking, inbus
from bussrv.client.business import BusinessClient
from bussrv.client.events import Message
from bussrv.client.inbus import InbusSubscriber
from bussrv.client.objects import Object, ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.events import event_name
from bussrv.journal.reading import read_journal
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_5, Publish, WantedFilter
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.writer import encode

TV = "tv"
THERMOMETER = "thermometer"
LAMP = "lamp"
PATIENCE = 10.0
OPTIONS = ("--mqtt", "tcp:0:interface=127.0.0.1", "--websocket", "tcp:0:interface=127.0.0.1")
REPORT = "report.html"


def main() -> int:
    """Give the tour. :returns: the exit status of the audit: 0 when it is clean."""
    directory = Path(tempfile.mkdtemp(prefix="bussrv-demo-"))
    journal = directory / "journal"
    with RunningServer(journal, OPTIONS) as server:
        say("A server is running:")
        for name, (host, port) in sorted(server.addresses.items()):
            tell(name, f"listens on {host}:{port}")
        with ExitStack() as clients:
            tour(server, clients)
        status = server.stop()
    say(f"Ctrl-C: the server closed its journal and stopped with exit status {status}. The journal holds:")
    for name, count in sorted(Counter(event_name(record.event) for record in read_journal(journal)).items()):
        tell(str(count), name)
    say("The audit of the journal:")
    verdict = bussrv_command(["audit", str(journal), "--out", str(directory / "audit")])
    report = directory / "audit" / REPORT
    if report.is_file():
        say(f"Open the report of the audit in a browser: {report}")
    return verdict


def tour(server: RunningServer, clients: ExitStack) -> None:
    """Drive all formats, and show what arrives where."""
    service = clients.enter_context(ObjectsClient(port=server.port("objects")))
    service.subscribe(receive_mode="no_echo")
    service.register(TV)
    say(f"A service of the Object System registered as {TV!r}. It is on the disk, so the others are told:")
    screen = clients.enter_context(SppClient(port=server.port("spp")))
    screen.wait_for(lambda event: event == spp.Offer(TV))
    tell("spp", f"is offered {TV!r}")
    office = clients.enter_context(BusinessClient(port=server.port("business")))
    office.register(receive="no_echo", name="office", user="ann")
    tell("business", f"lists the services {office.services()}")

    screen.subscribe(TV)
    show_info(screen, TV)
    device = clients.enter_context(InbusSubscriber(TV, server.addresses["inbus"]))
    gauge = clients.enter_context(InbusSubscriber(THERMOMETER, server.addresses["inbus"]))
    # Datagrams are not answered; but the server took these two long before what the next client asks for is answered.
    ask_service(server, service, clients)

    say(f"The service publishes its new state on {TV!r}, once; everybody sees it:")
    service.send({"type": "text/plain", "sender": TV}, b"channel 5")
    show_info(screen, TV)
    show_object("business", office.wait_for(lambda each: each.metadata.get("sender") == TV))
    tell("inbus", f"received {device.receive(PATIENCE).payload.decode()!r} on {TV!r}")
    say(f"An Inbus device publishes on {THERMOMETER!r}, which becomes a service by that:")
    inbus.publish(THERMOMETER, b"21.5 C", app_type=7, server=server.addresses["inbus"])
    screen.wait_for(lambda event: event == spp.Offer(THERMOMETER))
    tell("spp", f"is offered {THERMOMETER!r}")
    tell("inbus", f"received {gauge.receive(PATIENCE).payload.decode()!r} on {THERMOMETER!r}")
    show_object("objects", service.wait_for(lambda each: each.metadata.get("sender") == THERMOMETER))
    show_object("business", office.wait_for(lambda each: each.metadata.get("sender") == THERMOMETER))
    show_mqtt(server, screen, clients)


def show_mqtt(server: RunningServer, screen: SppClient, clients: ExitStack) -> None:
    """A client of MQTT, an SPP screen, an Inbus device and a web page see each other."""
    port = server.port("mqtt")
    phone = clients.enter_context(MqttClient(port))
    phone.subscribe("#")
    page = clients.enter_context(blocking.connect(f"ws://127.0.0.1:{server.port('websocket')}"))
    seen = clients.enter_context(page.subscribe(LAMP))
    lamp = clients.enter_context(InbusSubscriber(LAMP, server.addresses["inbus"]))
    say(f"A phone publishes on {LAMP!r} over MQTT, as mosquitto_pub -p {port} -t {LAMP} -m on does:")
    phone.publish(LAMP, b"on")
    screen.wait_for(lambda event: event == spp.Offer(LAMP))
    tell("spp", f"is offered {LAMP!r}")
    tell("inbus", f"received {lamp.receive(PATIENCE).payload.decode()!r} on {LAMP!r}")
    (message,) = seen.take(1, PATIENCE)
    assert isinstance(message, Message)
    tell("websocket", f"the web page received {message.payload.decode()!r} on {LAMP!r}")
    say(f"The Inbus device publishes on {THERMOMETER!r} again, and the phone sees it:")
    inbus.publish(THERMOMETER, b"22.0 C", app_type=7, server=server.addresses["inbus"])
    tell("mqtt", f"received {phone.wait_for(THERMOMETER).decode()!r} on {THERMOMETER!r}")


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


def ask_service(server: RunningServer, service: ObjectsClient, clients: ExitStack) -> None:
    """A client asks the service, which answers in a thread of its own."""

    def answer() -> None:
        request = service.wait_for(lambda each: each.metadata.get("event") == "services/request")
        show_object("objects", request, "the service")
        service.reply(request, b"channel 4", type="text/plain")

    say(f"A client asks {TV!r} which channel is on:")
    client = clients.enter_context(ObjectsClient(port=server.port("objects")))
    client.subscribe_for_requests()
    answering = threading.Thread(target=answer)
    answering.start()
    reply = client.request(TV, b"which channel?", type="text/plain")
    answering.join()
    show_object("objects", reply, "the client")


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


if __name__ == "__main__":
    raise SystemExit(main())
