"""``bussrv sub`` at a real server: what it prints, and when it ends."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from tests.cli.conftest import Place, run
from tests.cli.talking import HOSTILE, PATIENCE

pytestmark = pytest.mark.processes


def test_what_is_printed_cannot_steer_a_terminal(place: Place) -> None:
    assert run("pub", "steering", HOSTILE, "--format", "inbus") == (0, "", "")
    with SppClient(port=place.server.port("spp")) as watcher:
        watcher.wait_for(lambda event: event.service == "steering")
    status, said, _ = run("sub", "steering", "--format", "spp", "--count", "1")
    assert (status, said) == (0, "steering  5\\x1b]0;gone\\x07\\u202e\\r\\n\\x9b31m\n")
    status, said, _ = run("sub", "steering", "--format", "spp", "--count", "1", "--json")
    assert (status, json.loads(said)["payload"]) == (0, HOSTILE)
    assert said.rstrip("\n").isprintable()
    status, said, _ = run("sub", "steering", "--format", "spp", "--count", "1", "--raw")
    assert (status, said) == (0, HOSTILE)


def test_sub_ends_after_its_time(place: Place) -> None:
    assert run("sub", "silent", "--for", "0.1") == (0, "", "")
    assert run("sub", "bus/*", "--format", "spp", "--for", "0.1")[0] == 0
    assert run("sub", "silent", "--for", "0.1", "--count", "1") == (5, "", "")


@pytest.mark.parametrize("wire_format", ["objects", "business"])
def test_sub_does_not_wait_for_updates_that_never_come(place: Place, wire_format: str) -> None:
    status, said, complained = run("sub", "tv", "bus/clock", "--format", wire_format)
    assert (status, said, complained.count("\n")) == (2, "", 1)
    assert "use --format spp, or ask for its present state: bussrv request bus/clock" in complained
    assert run("sub", "BUS/*", "--format", wire_format)[2].endswith("use --format spp (see bussrv sub --help)\n")
    assert run("sub", "bus/clock", "--format", "spp", "--count", "1")[0] == 0
    assert run("request", "bus/clock")[0] == 0


@pytest.mark.parametrize("wanted", ["other", "flood"])
def test_sub_ends_after_its_time_also_while_objects_come(place: Place, wanted: str) -> None:
    begun, ended = threading.Event(), threading.Event()

    def flood() -> None:
        with ObjectsClient(port=place.server.port("objects")) as client:
            client.subscribe(subscriptions=["!*"])
            client.register("flood")
            while not ended.is_set():
                client.send({"type": "text/plain", "sender": "flood"}, b"x")
                begun.set()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        assert begun.wait(PATIENCE)
        # On a busy machine, none of them may come so soon.
        for seconds in (0.3, 2, 20) if wanted == "flood" else (0.3,):
            status, said, _ = run("sub", wanted, "--for", seconds)
            if said:
                break
    finally:
        ended.set()
        thread.join(10)
    assert (status, "flood" in said) == (0, wanted == "flood")


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    status, said, complained = run("sub", "tv", "--server", "127.0.0.1:1")
    assert (status, said) == (3, "")
    assert complained == "bussrv sub: cannot connect to 127.0.0.1 port 1: Connection refused\n"
