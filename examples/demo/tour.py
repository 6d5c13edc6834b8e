"""The tour, ``make demo``: a server on free ports, a client of every wire format, and the audit of what happened.

Everything is real: ``twistd`` in a process of its own, sockets, the journal on disk, the audit.
"""

from __future__ import annotations

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
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.events import event_name
from bussrv.journal.reading import read_journal
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from examples.demo.clients import MqttClient, say, show_info, show_object, tell

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
