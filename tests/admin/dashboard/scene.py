"""A building: a server with clients of every format, linked servers, a reader that stalls, denials and odd ends.

What is there is made up; how it comes to be is not: clients connect, publish, stall and leave.
"""

from __future__ import annotations

import json
import math
import selectors
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

from bussrv.client.inbus import InbusSubscriber, publish
from bussrv.client.spp import SppClient
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from tests.forked import ForkedServer

POLICY = """
[[rule]]
users = ["anonymous"]
watch = ["!alarm", "*", "bus/statistics", "bus/registry"]
provide = ["!alarm", "*"]
publish = ["*"]
request = ["*"]
send = ["*", "@*"]
observe = ["*"]
address = ["*"]
link = ["*"]
tell = ["*"]
admin = "write"
"""

PROVIDERS = {
    "hall-door": ["doorbell", "lock/hall"],
    "cellar-pump": ["pump/cellar", "temperature/cellar"],
    "kitchen-panel": ["light/kitchen"],
    "boiler": ["temperature/boiler", "pressure/boiler"],
    "weather-mast": ["weather/wind", "weather/rain"],
    "north-camera": ["camera/north"],
    "south-camera": ["camera/south"],
    "meter-7": ["meter/main"],
}
LISTENERS = [
    "kitchen-screen",
    "hall-screen",
    "logger",
    "recorder",
    "phone-ann",
    "phone-ben",
    "garden-gate",
    "office-screen",
]
WATCHED = ["doorbell", "temperature/boiler", "weather/wind", "meter/main"]
LOUD = 400
"""Objects a second that are published, at the most."""


class Scene:
    """The building, as a context manager; it lives in threads of its own.

    :ivar server: the one to look at.
    """

    def __init__(self, directory: Path) -> None:
        self._stack = ExitStack()
        self._stopped = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._members: dict[str, socket.socket] = {}
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._read, self._publish, self._visit)
        ]
        policy = directory / "policy.toml"
        policy.write_text(POLICY)
        policy.chmod(0o600)
        attic = self._linked(directory, "attic")
        barn = self._linked(directory, "barn", attic)
        cellar = self._linked(directory, "cellar", barn)
        # Nobody listens there: a link that is not up.
        dialed = ["--link", f"tcp:127.0.0.1:{closed_port()}"]
        self.server = self._linked(directory, "hall", cellar, barn, options=["--policy", str(policy), *dialed])
        self._fill()

    def _linked(
        self, directory: Path, name: str, *others: RunningServer, options: list[str] | None = None
    ) -> RunningServer:
        links = [part for each in others for part in ("--link", f"tcp:127.0.0.1:{each.port('objects')}")]
        limits = ["--admin-max-rate", "1000", "--max-link-delay", "60"]
        common = ["--server-id", name, "--link-allow", "127.0.0.1", *limits, *links, *(options or [])]
        return self._stack.enter_context(ForkedServer(directory / name, common))

    def _fill(self) -> None:
        port = self.server.port("objects")
        for name, services in PROVIDERS.items():
            self._member(port, name, services)
        for index, name in enumerate(LISTENERS):
            self._member(port, name, user=("ann", "ben")[index % 2])
        stalled = self._member(port, "hall-tablet", is_read=False)
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for index in range(6):
            watcher = self._stack.enter_context(SppClient(port=self.server.port("spp")))
            # Nobody can subscribe to a service before it is offered.
            watched = WATCHED[index % len(WATCHED)]
            while watcher.next_event(10) != spp.Offer(watched):
                pass
            watcher.subscribe(watched)
            self._stack.enter_context(InbusSubscriber(WATCHED[index % 2], ("127.0.0.1", self.server.port("inbus"))))

    def _member(
        self, port: int, name: str, services: list[str] | None = None, *, is_read: bool = True, **fields: str
    ) -> socket.socket:
        connection = self._stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        subscribe = {"event": "routing/subscribe", "routing-id": name, "receive_mode": "no_echo", **fields}
        for each in (subscribe, *({"event": "services/register", "name": service} for service in services or ())):
            connection.sendall(json.dumps(each).encode() + b"\0")
        if is_read:
            self._selector.register(connection, selectors.EVENT_READ)
        self._members[name] = connection
        return connection

    def _read(self) -> None:
        while not self._stopped.is_set():
            for key, _ in self._selector.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                if not key.fileobj.recv(1 << 16):
                    self._selector.unregister(key.fileobj)

    def _publish(self) -> None:
        """More and less, as the day goes."""
        turn = 0
        while not self._stopped.wait(0.05):
            turn += 1
            busy = 0.55 + 0.3 * math.sin(turn / 90) + 0.15 * math.sin(turn / 17)
            for index in range(int(busy * LOUD * 0.05)):
                name, services = list(PROVIDERS.items())[(turn + index) % len(PROVIDERS)]
                payload = b"%d" % turn * (1 + index % 7)
                fields = {"sender": services[index % len(services)], "type": "text/plain", "size": len(payload)}
                self._members[name].sendall(json.dumps(fields).encode() + b"\0" + payload)

    def _visit(self) -> None:
        """Guests come and go; some of them badly."""
        visits = 0
        while not self._stopped.wait(1.3):
            visits += 1
            with socket.create_connection(("127.0.0.1", self.server.port("objects"))) as guest:
                subscribe = {"event": "routing/subscribe", "routing-id": f"guest-{visits}", "receive_mode": "none"}
                alarm = {"event": "services/register", "name": "alarm", "id": "1"}
                guest.sendall(json.dumps({**subscribe, "user": "carl"}).encode() + b"\0")
                guest.sendall(json.dumps(alarm).encode() + b"\0" if visits % 2 else b"")
                guest.sendall(b"{oh\0" if visits % 3 == 0 else b"")
                self._stopped.wait(0.4)
            publish("meter/garden", b"%d" % visits, server=("127.0.0.1", self.server.port("inbus")))

    def __enter__(self) -> Scene:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join(10)
        self._stack.close()


def closed_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
