"""Three linked servers, and clients of all wire formats."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bussrv.client import blocking
from bussrv.client.business import BusinessClient
from bussrv.client.inbus import InbusSubscriber
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.policy.logins.users import hash_secret
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from examples.demo.clients import MqttClient, free_ports
from examples.incident.cable import LOOPBACK, Cable

SERVERS = ("hall", "cellar", "attic")
SECRETS = {"ann": "correct-horse", "screen": "battery-staple"}
MOST_WAITING = 1_000_000
"""Bytes that may wait for a client of attic."""


class Office:
    """The servers ``hall``, ``cellar`` and ``attic`` in a line. Each has its journal in a directory of its name.

    :param directory: where all files are, also the profiles for ``bussrv``.
    :param start: starts a server, by its journal and options.
    :ivar cable: the link between ``cellar`` and ``attic``.
    """

    def __init__(
        self, directory: Path, stack: ExitStack, start: Callable[[Path, list[str]], RunningServer] = RunningServer
    ) -> None:
        self._admin = dict(zip(SERVERS, free_ports(len(SERVERS)), strict=True))
        self._write_files(directory)
        self._servers: dict[str, RunningServer] = {}

        def run(name: str, *options: str) -> None:
            rules = ("--auth", f"users:{directory / 'users'}", "--policy", str(directory / "policy.toml"))
            ports = ("--mqtt", "0", "--websocket", "0", "--admin", str(self._admin[name]))
            peers = [word for each in SERVERS if each != name for word in ("--admin-peer", self.dashboard(each))]
            all_options = ["--server-id", name, *ports, *peers, *rules, *options]
            self._servers[name] = stack.enter_context(start(directory / name, all_options))

        run("hall")
        run("cellar", *_dial(self.port("hall")))
        self.cable = Cable(self.port("cellar"))
        stack.callback(self.cable.cut)
        run("attic", "--max-outbound", str(MOST_WAITING), *_dial(self.cable.port))

    def _write_files(self, directory: Path) -> None:
        for name in ("policy.toml", "stricter.toml"):
            (directory / name).write_bytes((Path(__file__).parent / name).read_bytes())
        users = [f"{user}:{hash_secret(secret.encode())}\n" for user, secret in SECRETS.items()]
        (directory / "users").write_text("".join(users))
        profiles = [f'[{name}]\nserver = "{LOOPBACK}"\nadmin = "{self.dashboard(name)}"\n' for name in SERVERS]
        (directory / "bussrv").mkdir()
        (directory / "bussrv" / "profiles.toml").write_text("\n".join(profiles))
        for path in (directory / "users", *directory.glob("*.toml")):
            path.chmod(0o600)

    def port(self, server: str, name: str = "objects") -> int:
        """A port of a server."""
        return self._servers[server].port(name)

    def inbus(self, server: str) -> tuple[str, int]:
        """The address of a server for Inbus."""
        return self._servers[server].addresses["inbus"]

    def dashboard(self, server: str) -> str:
        """The URL of the dashboard of a server."""
        return f"http://{LOOPBACK}:{self._admin[server]}"


class Staff:
    """The clients of an ordinary day, of all wire formats.

    :ivar door: provides ``door`` at hall, has that routing id, too, and is of ann.
    :ivar visitor: a client at hall that proves nothing.
    :ivar camera: provides ``camera`` at attic. A screen there is subscribed to it.
    """

    def __init__(self, office: Office, stack: ExitStack) -> None:
        self.visitor = stack.enter_context(ObjectsClient(port=office.port("hall")))
        self.visitor.subscribe_for_requests(name="visitor")
        self.door = stack.enter_context(ObjectsClient(port=office.port("hall")))
        self.door.subscribe_for_requests(routing_id="door", name="door", user="ann", secret=SECRETS["ann"])
        self.door.register("door")
        desk = stack.enter_context(BusinessClient(port=office.port("cellar", "business")))
        desk.register(receive="no_echo", name="desk")
        phone = stack.enter_context(MqttClient(office.port("hall", "mqtt")))
        phone.subscribe("bell")
        stack.enter_context(InbusSubscriber("heating", office.inbus("cellar")))
        page = stack.enter_context(
            blocking.connect(f"ws://{LOOPBACK}:{office.port('attic', 'websocket')}", name="page")
        )
        stack.enter_context(page.subscribe("bell"))
        screen = stack.enter_context(SppClient(port=office.port("attic", "spp")))
        screen.authenticate("screen", SECRETS["screen"])
        self.camera = stack.enter_context(blocking.connect(f"bus://{LOOPBACK}:{office.port('attic')}", name="camera"))
        stack.enter_context(self.camera.serve("camera", lambda request: b"on")).registered()
        screen.wait_for(lambda event: event == spp.Offer("camera"))
        screen.subscribe("camera")


def _dial(port: int) -> tuple[str, ...]:
    return ("--link", f"tcp:{LOOPBACK}:{port}", "--max-link-delay", "1")
