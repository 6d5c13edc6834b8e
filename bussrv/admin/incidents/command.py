"""Runs the command of ``--on-incident``, one at a time, and kills it if it takes too long.

No shell is involved: the words of the option are the arguments. What strangers wrote is in one variable of the
environment, as JSON of ASCII characters.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.admin.incidents.outbox import NotSent
from bussrv.terminal import one_line

VARIABLE = "BUSSRV_INCIDENT"
"""The variable with the incident. ``BUSSRV_INCIDENT_EVENT`` is ``began`` or ``over``."""

PATIENCE = 30.0
"""The longest time for a command, in seconds."""

MOST_OUTPUT = 2_000
"""The most bytes of its output that the log has."""

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables that a command gets of the environment of the server. Others may be secrets of the server."""

_LEADER = "import os,sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])"
"""Begins a group of processes, so that what the command starts is killed with it."""

log = Logger()


class Command:
    """The command of a server.

    :param words: the command and its arguments.
    """

    def __init__(self, words: Sequence[str], reactor: Any) -> None:
        self._words = tuple(words)
        self._reactor = reactor

    def __call__(self, text: bytes, event: str) -> Deferred[None]:
        """Run it for an incident. :returns: fires when it ended with 0; fails with :class:`NotSent`."""
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environment |= {VARIABLE: text.decode("ascii"), f"{VARIABLE}_EVENT": event}
        run = _Run(self._reactor)
        argv = [sys.executable, "-I", "-S", "-c", _LEADER, *self._words]
        try:
            self._reactor.spawnProcess(run, argv[0], argv, environment)
        except OSError as error:
            run.done.errback(NotSent(f"{self._words[0]} cannot be run: {error.strerror}"))
        return run.done


class _Run(ProcessProtocol):
    """One run.

    :ivar done: fires at its end. If it is cancelled, the processes are killed.
    """

    def __init__(self, reactor: Any) -> None:
        self._output = bytearray()
        self._is_late = False
        self._late = reactor.callLater(PATIENCE, self._took_too_long)
        self.done: Deferred[None] = Deferred(lambda _: self._kill())

    def connectionMade(self) -> None:
        """It has no input."""
        if self.transport is not None:
            self.transport.closeStdin()

    def outReceived(self, data: bytes) -> None:
        """Keep the beginning of its output."""
        self._output += data[: MOST_OUTPUT - len(self._output)]

    errReceived = outReceived

    def _took_too_long(self) -> None:
        self._is_late = True
        self._kill()

    def _kill(self) -> None:
        pid = None if self.transport is None else self.transport.pid
        if pid is None:
            return
        # Until it has begun a group of its own there is none of that number.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def processExited(self, reason: Failure) -> None:
        """The command has ended. Programs that it started must not hold its output open."""
        if self.transport is not None:
            self.transport.loseConnection()

    def processEnded(self, reason: Failure) -> None:
        """The command has ended, and so has its output."""
        if self._late.active():
            self._late.cancel()
        if self._output:
            said = one_line(self._output.decode("utf-8", "replace").strip())
            log.info("the command of --on-incident said: {said}", event="incidents.command", said=said)
        if self.done.called:
            return
        if self._is_late:
            self.done.errback(NotSent(f"it took more than {PATIENCE:g} s, and was killed"))
        elif reason.check(ProcessDone):
            self.done.callback(None)
        else:
            error = reason.value
            assert isinstance(error, ProcessTerminated)
            ended = f"signal {error.signal}" if error.signal else f"status {error.exitCode}"
            self.done.errback(NotSent(f"it ended with {ended}"))
