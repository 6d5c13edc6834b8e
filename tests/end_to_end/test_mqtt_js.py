"""MQTT over WebSocket with MQTT.js in a real Chromium: in both versions, and a will when the page is closed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import RunningServer
from tests.browser import fresh_page, served, watch
from tests.forked import ForkedServer

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = [pytest.mark.processes, pytest.mark.long]

PACKAGE = "mqtt@5.16.0"
DIGEST = "c7d13d6dedf4c15063fb61d645c82d07d2a24f79b15736f313e96e116177950f"

_PAGE = "<!doctype html><title>MQTT.js</title><link rel=icon href='data:,'><script src=mqtt.min.js></script>"

_CONNECT = """async ([url, options]) => {
  window.messages = [];
  window.client = mqtt.connect(url, { reconnectPeriod: 0, ...options });
  await new Promise((connected, failed) => client.on("connect", connected).on("close", failed));
  client.on("message", (topic, payload) => messages.push([topic, payload.length, payload.toString().slice(0, 9)]));
  await client.subscribeAsync("hall/#", { qos: 2 });
  return client.connected;
}"""
_PUBLISH = "async (qos) => await client.publishAsync(`hall/${qos}`, 'x'.repeat(100_000), { qos }) && null"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a page with MQTT.js. Nothing of its package is run outside of the browser."""
    directory = tmp_path_factory.mktemp("npm")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed; it gets MQTT.js")
    packed = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=directory, capture_output=True, text=True)
    if packed.returncode:
        pytest.skip(f"npm does not get {PACKAGE}: {packed.stderr.strip()}")
    (archive,) = directory.glob("*.tgz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == DIGEST
    (directory / "index.html").write_text(_PAGE)
    with tarfile.open(archive) as package, (directory / "mqtt.min.js").open("wb") as file:
        script = package.extractfile("package/dist/mqtt.min.js")
        assert script is not None
        shutil.copyfileobj(script, file)
    with served(directory) as port:
        yield port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with ForkedServer(tmp_path / "journal", ["--mqtt", "0", "--websocket", "0"]) as running:
        yield running


@pytest.mark.parametrize("version", [4, 5])
def test_mqtt_js_speaks_in_a_browser(server: RunningServer, pages: int, profile: BrowserContext, version: int) -> None:
    with ObjectsClient(port=server.port("objects")) as member:
        member.subscribe()
        with fresh_page(profile) as page:
            faults = watch(page)
            page.goto(f"http://127.0.0.1:{pages}/")
            will = {"topic": "state", "payload": "gone", "qos": 1, "retain": False}
            options = {"protocolVersion": version, "clientId": "page", "will": will}
            assert page.evaluate(_CONNECT, [f"ws://127.0.0.1:{server.port('websocket')}/mqtt", options])
            for qos in range(3):
                page.evaluate(_PUBLISH, qos)
            page.wait_for_function("messages.length === 3")
            assert page.evaluate("messages") == [[f"hall/{qos}", 100_000, "x" * 9] for qos in range(3)]
            for qos in range(3):
                got = member.wait_for(lambda each: len(each.payload) == 100_000)
                assert got.metadata["sender"] == f"hall/{qos}"
            member.register("hall/bell")
            member.send({"type": "text/plain", "sender": "hall/bell"}, b"rings")
            page.wait_for_function("messages.length === 4")
            assert page.evaluate("messages[3]") == ["hall/bell", 5, "rings"]
        assert member.wait_for(lambda each: each.metadata.get("sender") == "state").payload == b"gone"
    assert faults == []
