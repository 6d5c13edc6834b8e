"""The page about Home Assistant: its server, its programs and its policy; and what is said of ``$bus/``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.policy.permissions.file import parse_policy
from bussrv.testing.server import RunningServer
from tests.docs.pages import blocks
from tests.forked import ForkedServer
from tests.services.discovery.test_running import SENSORS, Subscriber

pytestmark = pytest.mark.processes

PAGE = "docs/how-to/home-assistant.md"
FORMATS = ("objects", "spp", "inbus", "business", "mqtt")


def started(journal: Path) -> RunningServer:
    """The server of the page, on free ports."""
    ((command,),) = (block.splitlines() for block in blocks(PAGE, "console"))
    words = shlex.split(command.partition(" bussrv ")[2])
    return ForkedServer(journal, [each.replace(":1883", ":0") for each in words])


def run(server: RunningServer, program: str) -> None:
    objects = f'ObjectsClient("127.0.0.1", {server.port("objects")})'
    inbus = f', server=("127.0.0.1", {server.port("inbus")}))'
    program = program.replace("ObjectsClient()", objects).replace('b"21.5")', f'b"21.5"{inbus}')
    exec(program, {})


def test_its_programs_are_devices(tmp_path: Path) -> None:
    device, door = blocks(PAGE, "python")
    with started(tmp_path / "journal") as server:
        home = Subscriber(server, "homeassistant/#")
        run(server, device)
        config = json.loads(home.until(SENSORS.config_topic("hall/temperature")))
        assert (config["name"], config["device"]["name"]) == ("hall/temperature", "127.0.0.1")
        state = Subscriber(server, "hall/door")
        run(server, door)
        assert state.until("hall/door") == b"open"
        # It has gone again by now, and may have been too short for Home Assistant to hear more than that.
        assert home.until(SENSORS.availability_topic("hall/door")) == b""
        state.close()
        home.close()


def test_its_policy_lets_home_assistant_in() -> None:
    (text,) = blocks(PAGE, "toml")
    may = parse_policy(text, Path("policy.toml"), FORMATS).permissions("home-assistant", "10.0.0.1:1", "mqtt").may
    for wanted in ("homeassistant/+/+/config", "homeassistant/+/+/+/config", SENSORS.config_topic("x"), "hall/door"):
        assert may("watch", wanted)
    assert may("publish", "homeassistant/status")
    assert not may("watch", "cellar/door")


def test_who_and_what_is_there_is_said_as_on_its_page(tmp_path: Path) -> None:
    page = "docs/reference/services.md"
    (command,) = blocks(page, "sh")
    (shown,) = (block for block in blocks(page, "text") if block.startswith("$bus/"))
    with started(tmp_path / "journal") as server, ObjectsClient("127.0.0.1", server.port("objects")) as ann:
        ann.subscribe(types="none", routing_id="ann")
        ann.register("hall/tv")
        bus = Subscriber(server, shlex.split(command)[shlex.split(command).index("-t") + 1])
        for line in shown.splitlines():
            topic, _, payload = line.partition(" ")
            assert json.loads(bus.until(topic)).keys() == json.loads(payload).keys()
        bus.close()
