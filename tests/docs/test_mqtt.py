"""The commands of the page about MQTT, run as they are written."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bussrv.testing.server import RunningServer
from tests.docs.pages import blocks
from tests.end_to_end.paho import Paho

pytestmark = pytest.mark.processes

MISSING = shutil.which("mosquitto_sub") is None
START, TALK, OVER_WEBSOCKET = blocks("docs/reference/protocols/mqtt.md", "sh")


@pytest.mark.skipif(MISSING, reason="mosquitto_sub is not installed (Debian: apt install mosquitto-clients)")
def test_a_message_of_mosquitto_comes_to_mosquitto(tmp_path: Path) -> None:
    option, endpoint = START.split()[-2:]
    listening, publishing = TALK.splitlines()
    options = [option, endpoint.replace(":1883", ":0")]
    with RunningServer(tmp_path / "journal", options=options) as server:
        port = str(server.port("mqtt"))
        words = [*listening.replace("1883", port).replace("'", "").split(), "-C", "1", "-d"]
        with subprocess.Popen(["stdbuf", "-oL", *words], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            while "received SUBACK" not in process.stdout.readline():
                pass
            subprocess.run(publishing.replace("1883", port).split(), check=True, timeout=30)
            assert "hall/tv on\n" in process.stdout.readlines()
        assert process.returncode == 0


def test_clients_over_websocket_are_served_as_the_page_says(tmp_path: Path) -> None:
    options = OVER_WEBSOCKET.replace(":1883", ":0").replace("7892", "0").split()[3:]
    with RunningServer(tmp_path / "journal", options=options) as server, Paho(server, "websocket", "page") as page:
        assert page.code == 0
