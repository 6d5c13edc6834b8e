"""What ``bussrv top`` shows: on a terminal of any size, and as lines."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bussrv.cli.commands.operate.top import screen
from bussrv.cli.show.figures import amount, duration, look
from bussrv.cli.show.screen import Screen, curve
from bussrv.testing.server import PATIENCE
from tests.forked import ForkedServer

HOSTILE = "\x1b]0;x\x07[red]\u202e\nnext"


def figures(second: int, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "time": f"2026-11-21T14:02:{second:02}.500000Z",
        "sessions": {"objects": 300, "spp": 150, HOSTILE: 1},
        "services": 62,
        "subscriptions": 405,
        "links": 2,
        "waiting_bytes": 1_500_000,
        "degraded": [],
        **dict.fromkeys(("objects_in", "objects_out", "bytes_in", "bytes_out"), 1000 * second),
        "delivery_seconds": {"p50": 0.00021, "p99": 0.0043},
        "journal_sync_seconds": {"p50": None, "p99": None},
    }
    return {**found, **changes}


def picture(width: int, height: int, **changes: Any) -> list[str]:
    screen = Screen({"version": "1.0", "server": HOSTILE, "started": "2026-11-21T10:00:00.000000Z"})
    last = None
    for second in range(3):
        last = look(figures(second, **changes), last)
        screen.show(last)
    row = {"session": HOSTILE, "protocol": "spp", "peer": "127.0.0.1:40000", "time": "2026-11-21T14:02:01.000000Z"}
    screen.lists = {name: [row | {"reason": HOSTILE, "claimed": "ann"}] * 50 for name in ("slow", "closed", "denied")}
    console = Console(file=io.StringIO(), width=width, height=height, markup=False, emoji=False, highlight=False)
    lines = console.render_lines(screen, console.options.update(height=height))
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (40, 10)])
def test_it_fits_the_terminal_and_cannot_be_steered(width: int, height: int) -> None:
    lines = picture(width, height)
    assert max(map(len, lines)) <= width
    assert all(line.isprintable() for line in lines)
    if width >= 80:
        said = "\n".join(lines)
        assert "451  (" in said
        assert "1 k objects/s" in said
        assert "delivery p50 210 µs, p99 4.3 ms" in said
        assert len(lines) <= height
        assert [each for each in ("Most bytes waiting", "Lately closed", "Lately denied") if each not in said] == []


def test_many_formats_do_not_shorten_the_titles() -> None:
    sessions = dict.fromkeys(("bus", "business", "inbus", "objects", "spp", "websocket"), 1000)
    lines = picture(80, 24, sessions=sessions)
    assert [line.split()[0] for line in lines[1:7]] == ["sessions", "registry", "in", "out", "time", "waiting"]


def test_sessions_that_are_away_are_told_apart() -> None:
    assert "451, 3 away  (" in "\n".join(picture(80, 24, away={"mqtt": 2, "other": 1}))
    assert " sessions=451 away=2 services=62 " in str(look(figures(0, away={"mqtt": 2}), None))


def test_what_is_degraded_is_in_the_first_line() -> None:
    assert "DEGRADED: disk, certificates" in picture(200, 50, degraded=["disk", "certificates"], server="hall")[0]


def test_rates_are_those_of_the_time_between_two_looks() -> None:
    first = look(figures(0), None)
    assert first.rates is None
    second = look(figures(2), first)
    assert second.rates == dict.fromkeys(("objects_in", "objects_out", "bytes_in", "bytes_out"), 1000.0)
    again = look(figures(3, objects_in=5), second)
    assert again.rates is not None
    assert again.rates["objects_in"] == 0
    assert str(second).startswith(
        "2026-11-21T14:02:02Z sessions=451 services=62 subscriptions=405 links=2 objects_in/s=1000"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.0, "0 µs"), (0.00021, "210 µs"), (0.0043, "4.3 ms"), (12.5, "12.5 s")]
)
def test_times(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_amounts_and_curves() -> None:
    assert [amount(each, "B") for each in (0, 999, 1500, 2.5e6, 3e9)] == ["0 B", "999 B", "1.5 kB", "2.5 MB", "3 GB"]
    assert curve([0, 1, 2, 4, 8], 4) == "▁▂▄█"
    assert curve([], 10) == curve([0.0], 10) == ""


def test_the_slow_sessions_are_sorted_by_keys() -> None:
    screen = Screen({})
    screen.show(look(figures(0), None))
    screen.lists = {
        "slow": [
            {"called": "b", "session": "b", "protocol": "spp", "peer": "10.0.0.1:1", "waiting_bytes": 5},
            {"called": "a", "session": "a", "protocol": "objects", "peer": "10.0.0.2:1", "waiting_bytes": 9},
            {"called": "c", "session": "c", "protocol": "objects", "peer": None, "waiting_bytes": 7},
        ]
    }

    def shown() -> str:
        console = Console(file=io.StringIO(), width=80, height=40)
        lines = console.render_lines(screen, console.options.update(height=40))
        text = ["".join(each.text for each in line).strip() for line in lines]
        return "".join(line[0] for line in [each for each in text if each][-3:])

    orders = {"-waiting_bytes": shown()}
    for key in ("r", "s", "r", "s", "s", "s"):
        screen.press(key)
        orders[screen.sort] = shown()
    assert orders == {
        "-waiting_bytes": "acb",
        "waiting_bytes": "bca",
        "called": "abc",
        "-called": "cba",
        "session": "abc",
        "protocol": "acb",
        "peer": "cba",
    }


def test_the_first_list_is_chosen_by_a_key() -> None:
    """Each is sorted as it was at first, by the number that matters."""
    screen = Screen({}, "sessions", "name")
    screen.show(look(figures(0), None))
    traffic = dict.fromkeys(("objects_in", "objects_out", "bytes_in", "bytes_out"), 1)
    screen.lists = {
        "busiest/sessions": [{"session": "s.1", "name": "tv", "objects": 5, "bytes": 9, **traffic}],
        "busiest/services": [{"service": "hall/a", "objects": 5, "bytes": 9}, {"service": "hall/b", "bytes": 99}],
        "slow": [{"session": "s.2", "waiting_bytes": 5}],
    }

    def shown() -> list[str]:
        console = Console(file=io.StringIO(), width=100, height=40)
        lines = console.render_lines(screen, console.options.update(height=40))
        text = ["".join(each.text for each in line).strip() for line in lines]
        return [line for line in text if line][7:]

    assert shown()[0] == "Busiest sessions of the last minute  by CLIENT"
    assert shown()[2].split() == ["tv", "s.1", "-", "5", "9", "1", "1", "1", "1"]
    screen.press("l")
    assert [line.split()[0] for line in shown()] == ["Busiest", "SERVICE", "hall/b", "hall/a"]
    screen.press("l")
    assert shown()[0] == "Most bytes waiting  by BYTES"


@pytest.mark.processes
def test_keys_at_a_terminal() -> None:
    """A real terminal: q ends it with status 0, and the terminal is as it was before."""
    with ForkedServer("off") as server:
        ours, theirs = pty.openpty()
        before = termios.tcgetattr(theirs)
        command = [Path(sys.executable).with_name("bussrv"), "top", "--server", f"127.0.0.1:{server.port('admin')}"]
        environment = {**os.environ, "TERM": "xterm"}
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        said = b""
        while b"objects/s" not in said:
            said += os.read(ours, 1 << 16)
        os.write(ours, b"lsrxq")
        threading.Thread(target=_drain, args=(ours,), daemon=True).start()
        assert process.wait(PATIENCE) == 0
        assert termios.tcgetattr(theirs) == before


def _drain(terminal: int) -> None:
    with suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


def test_all_servers_are_a_screen() -> None:
    """A line for all, a row for each, and the links that are down."""
    here = {"server": "hall", "status": "degraded", "degraded": ["links"], "sessions": 6, "objects_in": 1500.0}
    gone = {"server": None, "url": "http://attic:7280", "status": "unreachable", "problem": "Connection refused"}
    late = {"server": "barn", "status": "ready", "sessions": 9, "clock_ahead": -2.5, "round_trip": 0.0123}
    link = {"one": "barn", "other": "hall", "state": "down", "reason": "idle-timeout"}
    net = {"servers": [here, gone, late], "links": [link, {**link, "state": "up"}], "sessions": 15}
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(screen(net))
    first, _, _, *rows = [line.rstrip() for line in console.export_text().splitlines()]
    assert first == "servers=3 ready=1 sessions=15 objects_in/s=1500 objects_out/s=0 links=2 down=1"
    assert rows[0].split()[:5] == ["hall", "degraded:", "links", "-", "-"]
    assert rows[1].startswith("http://attic:7280  unreachable: Connection refused")
    assert "-2.500 s" in rows[2]
    assert "12.3 ms" in rows[2]
    assert rows[-1] == "DOWN  barn - hall: idle-timeout"
