"""Runs of the command of a service. The input is a file; size of the output and time are limited."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

MOST_OF_A_VARIABLE = 4096
"""The most bytes of a value in the environment."""


@dataclass(frozen=True)
class Limits:
    """The command of a service, and its limits.

    :ivar words: the program and its arguments.
    :ivar concurrency: the most runs at the same time.
    :ivar waiting: the most requests that wait for a run to end.
    :ivar seconds: the time limit of a run.
    :ivar most: the most bytes of output of a run.
    """

    words: list[str]
    concurrency: int
    waiting: int
    seconds: float
    most: int


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    :ivar reason: a stable code if there is no reply: ``command-failed``, ``command-timeout``, ``reply-too-large``.
    :ivar message: a sentence about the reason.
    :ivar seconds: the length of the run.
    """

    output: bytes
    reason: str | None
    message: str
    seconds: float


class Runner:
    """Runs commands, each in a process group of its own."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False

    def run(self, payload: bytes, variables: Mapping[str, str]) -> Outcome:
        """Run the command once, and wait for its end."""
        begun = time.monotonic()
        try:
            output, reason, message = self._run(payload, variables)
        except OSError as error:
            output, reason, message = b"", "command-failed", f"the command cannot be started: {error.strerror}"
        return Outcome(output, reason, message, time.monotonic() - begun)

    def _run(self, payload: bytes, variables: Mapping[str, str]) -> tuple[bytes, str | None, str]:
        # The input is a file: a pipe could fill while the command waits for a reader of its output.
        with tempfile.TemporaryFile() as stdin:
            stdin.write(payload)
            stdin.seek(0)
            process = self._start(stdin.fileno(), variables)
        is_late = threading.Event()
        timer = threading.Timer(self._limits.seconds, _end, (process, is_late))
        timer.start()
        try:
            assert process.stdout is not None
            with process.stdout as stream:
                output = stream.read(self._limits.most + 1)
            if len(output) > self._limits.most:
                _kill(process)
            status = process.wait()
        finally:
            timer.cancel()
            with self._lock:
                self._running.discard(process)
        return _judge(output, self._limits, status, is_late=is_late.is_set())

    def _start(self, stdin: int, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_closed:
                raise OSError(0, "this service is ending")
            process = subprocess.Popen(
                self._limits.words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                env={**os.environ, **{name: value for name, value in variables.items() if _is_fit(value)}},
                start_new_session=True,
            )
            self._running.add(process)
            return process

    def close(self) -> None:
        """Kill all runs, and start no more."""
        with self._lock:
            self._is_closed = True
            running = list(self._running)
        for process in running:
            _kill(process)


def _judge(output: bytes, limits: Limits, status: int, *, is_late: bool) -> tuple[bytes, str | None, str]:
    if len(output) > limits.most:
        return b"", "reply-too-large", f"the command wrote more than {limits.most} bytes"
    if is_late:
        return b"", "command-timeout", f"the command took longer than {limits.seconds:g} s"
    if status < 0:
        return b"", "command-failed", f"the command was ended by signal {-status}"
    if status:
        return b"", "command-failed", f"the command ended with exit status {status}"
    return output, None, ""


def _is_fit(value: str) -> bool:
    return value.isprintable() and len(value.encode()) <= MOST_OF_A_VARIABLE


def _end(process: subprocess.Popen[bytes], is_late: threading.Event) -> None:
    is_late.set()
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command, and the processes that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
