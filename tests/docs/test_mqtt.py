"""The commands of the page about MQTT, run as they are written."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bussrv.client.spp import SppClient
from bussrv.testing.server import RunningServer
from bussrv.wire.spp import Offer
from tests.docs.pages import blocks
from tests.end_to_end.paho import Paho
from tests.forked import ForkedServer

pytestmark = pytest.mark.processes

PATIENCE = 50.0
MISSING = shutil.which("mosquitto_sub") is None
REASON = "mosquitto_sub is not installed (Debian: apt install mosquitto-clients)"
START, TALK, OVER_WEBSOCKET, ASK = blocks("docs/reference/protocols/mqtt.md", "sh")
(ANSWER,) = blocks("docs/reference/protocols/mqtt.md", "python")
TOOL = (sys.executable, "-c", "from bussrv.cli.main import main; raise SystemExit(main())")
SERVICE = "price"


def options() -> list[str]:
    """Those of the page, with a free port."""
    option, endpoint = START.split()[-2:]
    return [option, endpoint.replace(":1883", ":0")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with ForkedServer(tmp_path / "journal", options=options()) as running:
        yield running


@contextmanager
def providing(server: RunningServer, command: list[str]) -> Iterator[None]:
    """A program that provides the service until the end of the block."""
    with SppClient(port=server.port("spp"), timeout=PATIENCE) as watcher, subprocess.Popen(command) as process:
        try:
            watcher.wait_for(lambda event: isinstance(event, Offer) and event.service == SERVICE)
            yield
        finally:
            process.kill()


@pytest.mark.skipif(MISSING, reason=REASON)
def test_a_message_of_mosquitto_comes_to_mosquitto(tmp_path: Path) -> None:
    listening, publishing = TALK.splitlines()
    with ForkedServer(tmp_path / "journal", options=options()) as server:
        port = str(server.port("mqtt"))
        words = [*listening.replace("1883", port).replace("'", "").split(), "-C", "1", "-d"]
        with subprocess.Popen(["stdbuf", "-oL", *words], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            while "received SUBACK" not in process.stdout.readline():
                pass
            subprocess.run(publishing.replace("1883", port).split(), check=True, timeout=30)
            assert "hall/tv on\n" in process.stdout.readlines()
        assert process.returncode == 0


@pytest.mark.skipif(MISSING, reason=REASON)
def test_mosquitto_asks_a_member_and_is_answered(server: RunningServer) -> None:
    replying, asking = ASK.splitlines()
    bussrv, reply, *rest = replying.split()
    assert (bussrv, rest[0]) == ("bussrv", SERVICE)
    ask = [*asking.replace("1883", str(server.port("mqtt"))).split(), "-W", "30"]
    with providing(server, [*TOOL, reply, "--server", f"127.0.0.1:{server.port('objects')}", *rest]):
        assert subprocess.run(ask, capture_output=True, text=True, timeout=PATIENCE).stdout == "APPLE\n"


@pytest.mark.skipif(MISSING, reason=REASON)
def test_mosquitto_is_answered_by_a_subscriber(server: RunningServer) -> None:
    """That does it by itself, as with any broker."""
    port = str(server.port("mqtt"))
    listen = ["mosquitto_sub", "-V", "5", "-p", port, "-t", SERVICE, "-C", "1", "-d", "-F", "%R %D"]
    ask = ["mosquitto_rr", "-p", port, "-t", SERVICE, "-e", "answers", "-m", "x", "-W", "30", "-F", "%D %p"]
    with subprocess.Popen(["stdbuf", "-oL", *listen], stdout=subprocess.PIPE, text=True) as responder:
        assert responder.stdout is not None
        while "received SUBACK" not in responder.stdout.readline():
            pass
        about = ["-D", "publish", "correlation-data"]
        with subprocess.Popen([*ask, *about, "q7"], stdout=subprocess.PIPE, text=True) as asker:
            lines = (line.split() for line in responder.stdout)
            topic, data = next(words for words in lines if words[:1] == ["answers"])
            answer = ["mosquitto_pub", "-V", "5", "-p", port, "-t", topic, "-m", "red", *about, data]
            subprocess.run(answer, check=True, timeout=30)
            assert asker.communicate(timeout=30)[0] == "q7 red\n"


def test_a_program_answers_requests_over_mqtt(server: RunningServer) -> None:
    program = ANSWER.replace("1883", str(server.port("mqtt")))
    with providing(server, [sys.executable, "-c", program]):
        asker = [*TOOL, "request", "--server", f"127.0.0.1:{server.port('objects')}", SERVICE, "apple"]
        assert subprocess.run(asker, capture_output=True, text=True, timeout=PATIENCE).stdout.strip() == "APPLE"


def test_clients_over_websocket_are_served_as_the_page_says(tmp_path: Path) -> None:
    options = OVER_WEBSOCKET.replace(":1883", ":0").replace("7892", "0").split()[3:]
    with ForkedServer(tmp_path / "journal", options=options) as server, Paho(server, "websocket", "page") as page:
        assert page.code == 0
