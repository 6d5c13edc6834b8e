"""Signals that ended the server uncleanly and silently: SIGHUP and SIGUSR1."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bussrv import events as ev
from bussrv.client.objects import ObjectsClient
from bussrv.journal.reading import read_journal
from bussrv.journal.segment import list_segments
from bussrv.testing.server import FREE_PORTS, PATIENCE, TWISTD

IN_TERMINAL = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[2] == "nohup" else signal.SIG_DFL)
terminal = os.open(sys.argv[1], os.O_RDWR)
for each in range(3):
    os.dup2(terminal, each)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The leader of a new session that opens a terminal gets it as its controlling terminal."""


def until(check: Callable[[], bool]) -> None:
    """Look again and again, because nobody says when a file has changed."""
    limit = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < limit, "nothing came of it"
        time.sleep(0.01)


def read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


class Server:
    """A server that logs to a file, without a terminal."""

    def __init__(self, directory: Path, *, daemon: bool) -> None:
        self.log = directory / "server.log"
        self.journal = directory / "journal"
        pid_file = directory / "pid"
        manner = [f"--pidfile={pid_file}"] if daemon else ["-n", "--pidfile="]
        options = ["--journal", str(self.journal), *FREE_PORTS]
        command = [*TWISTD, *manner, f"--logfile={self.log}", "bussrv", *options]
        self.process = subprocess.Popen(command, cwd=directory, start_new_session=True, stdin=subprocess.DEVNULL)
        until(lambda: "journal in" in read(self.log))
        self.pid = int(pid_file.read_text()) if daemon else self.process.pid

    def is_stopped(self) -> bool:
        self.process.poll()
        # A busy disk may have no segment yet, or one that has not its name yet, or one without records.
        records = list(read_journal(self.journal)) if list_segments(self.journal) else []
        return bool(records) and isinstance(records[-1].event, ev.ServerStopped)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(*, daemon: bool = False) -> Server:
        started.append(Server(tmp_path, daemon=daemon))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()


@pytest.mark.parametrize(
    ("number", "daemon"),
    [(signal.SIGHUP, False), (signal.SIGUSR1, False), (signal.SIGHUP, True), (signal.SIGUSR1, True)],
)
def test_it_goes_on_in_the_log_file_that_is_at_the_path_now(
    servers: Callable[..., Server], tmp_path: Path, number: int, daemon: bool
) -> None:
    server = servers(daemon=daemon)
    for moved in ("server.log.old", "server.log.older"):
        server.log.rename(tmp_path / moved)
        os.kill(server.pid, number)
        until(lambda: "re-opened the log file" in read(server.log))
    assert "journal in" in read(tmp_path / "server.log.old")
    os.kill(server.pid, signal.SIGTERM)
    until(server.is_stopped)
    until(lambda: "bussrv stopped" in read(server.log))
    assert "Traceback" not in read(server.log)


def test_a_log_file_that_cannot_be_opened_leaves_the_old_one(servers: Callable[..., Server], tmp_path: Path) -> None:
    server = servers()
    old = tmp_path / "server.log.old"
    server.log.rename(old)
    server.log.mkdir()
    os.kill(server.pid, signal.SIGHUP)
    until(lambda: f"cannot re-open the log file {server.log}: Is a directory" in read(old))
    server.log.rmdir()
    os.kill(server.pid, signal.SIGHUP)
    until(lambda: "re-opened the log file" in read(server.log))
    server.process.terminate()
    assert server.process.wait(PATIENCE) == 0


class InTerminal:
    """A server in a terminal of its own."""

    def __init__(self, journal: Path, nohup: str = "") -> None:
        self._end, terminal = pty.openpty()
        server = [*TWISTD, "-n", "--pidfile=", "bussrv", *FREE_PORTS, "--journal", str(journal)]
        command = [sys.executable, "-c", IN_TERMINAL, os.ttyname(terminal), nohup, *server]
        self.process = subprocess.Popen(command, start_new_session=True)
        self.said = ""
        self.read_until("journal in")
        os.close(terminal)

    def read_until(self, text: str) -> None:
        while text not in self.said:
            self.said += os.read(self._end, 4096).decode()

    def close_window(self) -> None:
        os.close(self._end)


@pytest.mark.parametrize("gone", [False, True])
def test_in_a_terminal_a_hangup_stops_it_in_order(tmp_path: Path, gone: bool) -> None:
    server = InTerminal(tmp_path / "journal")
    if gone:
        server.close_window()
    else:
        server.process.send_signal(signal.SIGHUP)
        server.read_until("bussrv stopped")
    assert server.process.wait(PATIENCE) == 0
    if not gone:
        server.close_window()
    assert isinstance(list(read_journal(tmp_path / "journal"))[-1].event, ev.ServerStopped)


def test_nohup_keeps_it_running(tmp_path: Path) -> None:
    server = InTerminal(tmp_path / "journal", "nohup")
    (line,) = [line for line in server.said.splitlines() if "objects on tcp" in line]
    server.close_window()
    with ObjectsClient(port=int(line.rpartition(":")[2])) as client:
        client.subscribe()
        server.process.send_signal(signal.SIGHUP)
        client.register("tv")
    server.process.terminate()
    server.process.wait(PATIENCE)
    assert isinstance(list(read_journal(tmp_path / "journal"))[-1].event, ev.ServerStopped)
