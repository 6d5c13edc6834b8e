"""A real server in a process of its own, started through ``twistd`` as a user would."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bussrv.addresses import parse_address

TWISTD = (sys.executable, "-c", "from twisted.scripts.twistd import run; run()")
FREE_PORTS = ("--objects", "0", "--business", "0", "--inbus", "0", "--spp", "0", "--admin", "0")
PATIENCE = 30.0

# A line of either form of the log.
_LISTENING = re.compile(
    r'(?:^\S+ \[bussrv\.server[\w.]*#info\] +|"event":"server\.listening",.*"message":")(\w+) on \w+ ([^\s"]+)'
)
_LAST_OF_BANNER = "bussrv is ready"


class RunningServer:
    """``twistd -n bussrv`` on free ports, as a context manager that stops it.

    :param journal: the journal directory, or ``off``.
    :param options: further options; they come last, so they override the free ports.
    :param environment: variables to add to those of this process.
    :ivar addresses: host and port of each wire format and of ``admin``, by name, except those on UNIX sockets.
    :ivar lines: the lines that it has logged so far.
    """

    def __init__(
        self, journal: Path | str, options: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        command = [*TWISTD, "-n", "--pidfile=", "bussrv", *FREE_PORTS, "--journal", str(journal), *options]
        self.addresses: dict[str, tuple[str, int]] = {}
        self.lines: list[str] = []
        self._logged: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.process = self._spawn(command, {**os.environ, **(environment or {})})
        self._reading = threading.Thread(target=self._read, name="server-log", daemon=True)
        self._reading.start()
        try:
            self._await_banner()
        except RuntimeError:
            self.process.kill()
            raise

    def _spawn(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._logged.put(line.rstrip("\n"))
        self._logged.put(None)

    def _await_banner(self) -> None:
        while True:
            line = self.next_line()
            listening = _LISTENING.search(line)
            if listening is not None and not listening[2].startswith("/"):
                self.addresses[listening[1]] = parse_address(listening[2])
            if _LAST_OF_BANNER in line:
                return

    def next_line(self) -> str:
        """The next line of the log.

        :raises RuntimeError: if the server ended or says nothing more in time.
        """
        try:
            line = self._logged.get(timeout=PATIENCE)
        except queue.Empty:
            line = None
        if line is None:
            raise RuntimeError("the server ended or fell silent:\n" + "\n".join(self.lines))
        self.lines.append(line)
        return line

    def port(self, name: str) -> int:
        """The port of a wire format."""
        return self.addresses[name][1]

    def stop(self, number: int = signal.SIGINT) -> int:
        """Send a signal, as Ctrl-C does, and wait. :returns: the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of the process. :returns: its exit status."""
        status = self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        while (line := self._logged.get()) is not None:
            self.lines.append(line)
        self._logged.put(None)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
