"""The wall clock is set while a server runs: by time servers, by an administrator, or because a machine was resumed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.client import inbus
from bussrv.client.inbus import InbusSubscriber
from bussrv.client.objects import ObjectsClient
from bussrv.journal.reading import read_journal
from bussrv.testing.server import RunningServer

HOUR = 3600


class WallClock:
    """The wall clock of a process under libfaketime. Its monotonic clock is left alone."""

    def __init__(self, directory: Path) -> None:
        command = shutil.which("faketime")
        if command is None:
            pytest.skip("libfaketime is not installed; on Debian it is the package faketime")
        ran = subprocess.run([command, "-m", "-f", "+0", "env"], capture_output=True, text=True, check=True)
        (preload,) = (line for line in ran.stdout.splitlines() if line.startswith("LD_PRELOAD="))
        self._file = directory / "faketime"
        self.set(0)
        self.environment = {
            "LD_PRELOAD": preload.partition("=")[2],
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            # Times of files are left alone: to look at the clock for each takes most of the time of a start.
            "NO_FAKE_STAT": "1",
        }

    def set(self, seconds: float) -> None:
        """Be that far from the right time."""
        written = self._file.with_suffix(".new")
        written.write_text(f"{seconds:+f}\n")
        written.rename(self._file)


@pytest.fixture
def wall_clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path)


def test_nobody_is_refused_forgotten_or_timed_out(tmp_path: Path, wall_clock: WallClock) -> None:
    # 25 new sessions a second: the bucket of the address is nearly empty when the clock is set.
    with RunningServer(tmp_path / "journal", ("--max-connects", "25"), wall_clock.environment) as server:
        udp = server.addresses["inbus"]
        with InbusSubscriber("tv", udp) as device, ObjectsClient(port=server.port("objects")) as member:
            member.subscribe()
            inbus.publish("tv", b"before", server=udp)
            assert device.receive(10).payload == b"before"
            early = [ObjectsClient(port=server.port("objects")) for _ in range(15)]
            for seconds in (-10, 1.5 * HOUR, -30 * HOUR):
                wall_clock.set(seconds)
                for number in range(2):
                    with ObjectsClient(port=server.port("objects")) as late:
                        late.subscribe()
                    payload = f"{seconds} {number}".encode()
                    inbus.publish("tv", payload, server=udp)
                    assert device.receive(10).payload == payload
            for client in early:
                client.subscribe()
                client.close()
        assert server.stop() == 0
        assert not any("Traceback" in line for line in server.lines)
    records = list(read_journal(tmp_path / "journal"))
    times = [record.time for record in records]
    assert max(times) - min(times) > 31 * HOUR * 1_000_000, "the clock was not set"
    happened = [record.event for record in records]
    assert not any(isinstance(event, ev.LimitReached) for event in happened)
    closed = [event for event in happened if isinstance(event, ev.SessionClosed)]
    assert all(0 <= event.duration < 60_000_000 for event in closed)
    assert {event.reason for event in closed} <= {"client-closed", "unsubscribed", "server-stopped"}


def test_a_lease_begun_in_the_future_is_whole_at_the_next_start(tmp_path: Path, wall_clock: WallClock) -> None:
    wall_clock.set(2 * HOUR)
    with RunningServer(tmp_path / "journal", (), wall_clock.environment) as server:
        address = server.addresses["inbus"]
        with InbusSubscriber("tv", address) as device, ObjectsClient(port=server.port("objects")) as member:
            member.subscribe()
            inbus.publish("tv", b"before", server=address)
            assert device.receive(10).payload == b"before"
            server.stop()
            wall_clock.set(0)
            again = ("--inbus", str(address[1]))
            with RunningServer(tmp_path / "journal", again, wall_clock.environment):
                inbus.publish("tv", b"after", server=address)
                assert device.receive(10).payload == b"after"
