"""The snippets of the page on plain clients, as written but for port numbers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.client import inbus
from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.policy.logins.tokens import add_token
from bussrv.policy.logins.users import SecretHash
from bussrv.testing.server import RunningServer
from bussrv.wire import spp
from tests.docs.pages import blocks
from tests.forked import ForkedServer
from tests.net.tls.tls_clients import Place

pytestmark = pytest.mark.processes

SECURE, LOGIN, GREETING, SERVICE, QUESTION, BUSINESS, INBUS, WATCHER = blocks("docs/how-to/plain-clients.md", "python")
IMPORTS = "from bussrv.client.objects import BusError, ObjectsClient\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with ForkedServer(tmp_path / "journal") as running:
        yield running


def as_run_here(snippet: str, server: RunningServer) -> str:
    for client, name in (("ObjectsClient", "objects"), ("BusinessClient", "business"), ("SppClient", "spp")):
        snippet = snippet.replace(f"{client}()", f"{client}(port={server.port(name)})")
    here = f"server={server.addresses['inbus']}"
    return snippet.replace('("upnp")', f'("upnp", {here})').replace("app_type=17)", f"app_type=17, {here})")


def start(snippet: str, server: RunningServer) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-c", as_run_here(snippet, server)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(snippet: str, server: RunningServer) -> str:
    said, complaints = start(snippet, server).communicate(timeout=60)
    assert complaints == ""
    return said


def test_secure(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with ForkedServer("off", ["--objects", place.port]) as running:
        here = SECURE.replace('"hall.example", 7890', f'"localhost", {running.port("objects")}')
        assert output(here.replace("ca.pem", str(place.authority.file)), running) == "routing/subscribe/reply\n"


def test_login(tmp_path: Path) -> None:
    # A hash that is checked quickly.
    (tmp_path / "users").write_text(f"ann:{SecretHash(b'salt', bytes(32), 2, 8, 1).made_of(b'a secret of ann')}\n")
    token = add_token(tmp_path / "tokens", "camera", None)
    auth = [f"--auth={kind}:{tmp_path / kind}" for kind in ("users", "tokens")]
    with ForkedServer("off", auth) as running:
        assert output(f"token = {token!r}\n{LOGIN}", running) == ""


def test_greeting(server: RunningServer) -> None:
    routing_id, payload = output(GREETING, server).split()
    assert (len(routing_id), payload) == (24, "b'hello'")


def test_service_and_question(server: RunningServer) -> None:
    assert output(IMPORTS + QUESTION, server) == "no-such-service\n"
    with start(IMPORTS + SERVICE, server) as clock, SppClient(port=server.port("spp")) as watcher:
        watcher.wait_for(lambda event: event == spp.Offer("clock"))
        assert output(IMPORTS + QUESTION, server) == "b'12:00'\n"
        clock.kill()


def test_business(server: RunningServer) -> None:
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe()
        client.register("tv")
        assert output(BUSINESS, server) == "['bus/clock', 'bus/registry', 'bus/statistics', 'tv']\n"
        assert client.wait_for(lambda each: bool(each.payload)).payload == b"hello"


def test_inbus(server: RunningServer) -> None:
    assert output(INBUS, server) == "17 b'Omega - Gammapolis I. - 0:45'\n"


def test_watcher(server: RunningServer) -> None:
    with start(WATCHER, server) as watching:
        inbus.publish("clock", b"12:00", server=server.addresses["inbus"])
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("clock b'")
        watching.kill()
