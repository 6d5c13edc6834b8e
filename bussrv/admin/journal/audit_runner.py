"""Audits of the journal that somebody asks for.

An audit is a process of its own with the least priority, so that it takes only what the server leaves. It runs
without Spark, and its results are beside the journal, named after it with ``.audit`` at the end. One runs at a time.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from twisted.internet.error import ProcessDone
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.journal.record import format_time
from bussrv.terminal import one_line

SUFFIX = ".audit"

MOST_SECONDS = 3_600.0
"""The longest time for an audit."""

MOST_SAID = 4_000
"""The most bytes of its errors that are kept."""

FOUND = 1
"""The exit status of an audit that found something."""

_RUN = (
    "import os, sys; os.setsid(); os.nice(19); from bussrv.cli.main import main; "
    "sys.stdout.reconfigure(encoding='utf-8'); sys.exit(main(sys.argv[1:]))"
)

State = Literal["none", "running", "done", "failed"]

log = Logger()


class AskedAudit(Struct, frozen=True):
    """The last audit that was asked for since the start of the server.

    :ivar state: ``none``: none was.
    :ivar message: why it failed.
    """

    state: State
    started: str | None = None
    ended: str | None = None
    message: str = ""


class AuditRunner:
    """Runs audits.

    :param utc: the time of day, UTC microseconds.
    :ivar last: the last one.
    :ivar out: its results; ``None``: there are none.
    """

    def __init__(self, reactor: Any, utc: Callable[[], int]) -> None:
        self.last = AskedAudit("none")
        self.out: Path | None = None
        self._reactor = reactor
        self._utc = utc
        self._process: _Process | None = None

    def start(self, directory: Path) -> None:
        """Begin to audit a journal, unless an audit runs."""
        if self._process is not None:
            return
        out = directory.with_name(directory.name + SUFFIX)
        self.last = AskedAudit("running", format_time(self._utc()))
        self._process = process = _Process(self, out, self._reactor)
        argv = [sys.executable, "-c", _RUN, "audit", str(directory), "--out", str(out), "--engine", "embedded"]
        try:
            self._reactor.spawnProcess(process, argv[0], argv, dict(os.environ))
        except OSError as error:
            self.ended(None, f"cannot be run: {error.strerror}")

    def ended(self, out: Path | None, message: str) -> None:
        """The audit has ended.

        :param out: its results; ``None``: it failed.
        """
        self._process = None
        self.out = out or self.out
        state: State = "failed" if out is None else "done"
        self.last = AskedAudit(state, self.last.started, format_time(self._utc()), message)

    def stop(self) -> None:
        """The server stops: so does the audit."""
        if self._process is not None:
            self._process.kill()


class _Process(ProcessProtocol):
    """The process of one audit."""

    def __init__(self, runner: AuditRunner, out: Path, reactor: Any) -> None:
        self._runner = runner
        self._out = out
        self._said = bytearray()
        self._late = reactor.callLater(MOST_SECONDS, self.kill)

    def connectionMade(self) -> None:
        """It has no input."""
        if self.transport is not None:
            self.transport.closeStdin()

    def errReceived(self, data: bytes) -> None:
        """Keep the end of its errors."""
        self._said = (self._said + data)[-MOST_SAID:]

    def kill(self) -> None:
        """End it, with the processes that it started."""
        pid = None if self.transport is None else self.transport.pid
        if pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def processEnded(self, reason: Failure) -> None:
        """It has ended."""
        if self._late.active():
            self._late.cancel()
        has_found = reason.check(ProcessDone) or getattr(reason.value, "exitCode", None) == FOUND
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        said = one_line(lines[-1]) if lines else "it was killed"
        self._runner.ended(self._out if has_found else None, "" if has_found else said)
        if not has_found:
            log.warn("the audit that was asked for failed: {said}", event="admin.audit-failed", said=said)
