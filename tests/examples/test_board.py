"""The example of a program with a bus inside: its parts on a clock, and the whole in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import paho.mqtt.publish
import pytest
from twisted.internet.defer import Deferred

from bussrv.client.errors import BusError
from bussrv.testing.memory import MemoryServer, make_service
from bussrv.testing.reactor import MemoryReactor
from bussrv.wire import inbus
from examples.board import board
from examples.board.board import Board, Program

ROOT = Path(__file__).parents[2]


def test_the_board_has_the_last_reading_of_each_sensor() -> None:
    with MemoryServer() as server:
        made = Board()
        server.result(Deferred.fromCoroutine(made.join(server.client().client)))
        sensor, other, asker = server.mqtt(), server.client("inbus"), server.client()
        with pytest.raises(BusError, match="no-readings"):
            asker.request("board/warmest")
        sensor.publish("readings/hall", b"19.5")
        other.publish("readings/attic", b"23")
        sensor.publish("readings/hall", b"20.5")
        sensor.publish("readings/cellar", b"cold")
        assert made.readings == {"hall": 20.5, "attic": 23.0}
        assert asker.request("board/warmest").payload == b"attic"


def test_the_page_shows_them_and_the_program_ends_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "make_service", make_service)
    reactor = MemoryReactor()
    program = Program({"inbus": "udp:7222:interface=127.0.0.1"}, "tcp:8080", reactor)
    program.startService()
    reactor.advance()
    reading = inbus.publish("readings/<hall>", 1, b"19.5", 2)
    reactor.ports["UDP", 7222].protocol.datagramReceived(reading, ("127.0.0.1", 4711))
    reactor.advance()
    browser = reactor.connect(8080)
    browser.send(b"GET / HTTP/1.1\r\nHost: board\r\n\r\n")
    reactor.advance()
    assert b"<tr><td>&lt;hall&gt;<td>19.5" in browser.take()
    browser.close()
    stopped = program.stopService()
    reactor.advance(1)
    assert stopped.called
    assert (reactor.ports, reactor.getDelayedCalls()) == ({}, [])


@pytest.mark.processes
def test_twistd_runs_it(tmp_path: Path) -> None:
    names = {"MQTT": "tcp", "WEB": "tcp", "INBUS": "udp"}
    environment = {f"BOARD_{name}": f"{kind}:0:interface=127.0.0.1" for name, kind in names.items()}
    twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-ny", "examples/board/board.tac"]
    with subprocess.Popen(
        [*twistd, f"--pidfile={tmp_path}/pid"],
        cwd=ROOT,
        env={**os.environ, **environment, "BOARD_JOURNAL": str(tmp_path / "journal"), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        ports: dict[str, int] = {}
        for line in process.stdout:
            if found := re.search(r"(mqtt) on tcp 127\.0\.0\.1:(\d+)|(Site) starting on (\d+)", line):
                ports[found[1] or found[3]] = int(found[2] or found[4])
            if "bussrv is ready" in line:
                break
        paho.mqtt.publish.single("readings/hall", "19.5", qos=1, hostname="127.0.0.1", port=ports["mqtt"])
        with urlopen(f"http://127.0.0.1:{ports['Site']}/") as page:
            assert "<td>hall<td>19.5" in page.read().decode()
        process.terminate()
        rest = process.stdout.read()
    # twistd ends with the signal.
    assert process.returncode == -signal.SIGTERM, rest
    assert "bussrv stopped" in rest
    assert (tmp_path / "journal").is_dir()
