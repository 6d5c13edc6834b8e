"""A service that runs a command for each request, several at a time, and sends its output as the reply.

The input of the command is a file; size of the output and time are limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bussrv.client.aio import Bus, Handler
    from bussrv.client.events import Request, State

MOST_OF_A_VARIABLE = 4096
"""The most bytes of a value in the environment."""


@dataclass(frozen=True)
class CommandLimits:
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
class CommandOutcome:
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

    def __init__(self, limits: CommandLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False

    def run(self, payload: bytes, variables: Mapping[str, str]) -> CommandOutcome:
        """Run the command once, and wait for its end."""
        begun = time.monotonic()
        try:
            output, reason, message = self._run(payload, variables)
        except OSError as error:
            output, reason, message = b"", "command-failed", f"the command cannot be started: {error.strerror}"
        return CommandOutcome(output, reason, message, time.monotonic() - begun)

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


def _judge(output: bytes, limits: CommandLimits, status: int, *, is_late: bool) -> tuple[bytes, str | None, str]:
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


@dataclass(frozen=True)
class Answered:
    """A request that was answered.

    :ivar sender: the routing id of the client that asked.
    :ivar request: the size of the request's payload in bytes.
    """

    sender: str
    request: int
    outcome: CommandOutcome

    def as_json(self) -> dict[str, Any]:
        """The object of JSON for programs."""
        shown = {"from": self.sender, "bytes": self.request, "reply_bytes": len(self.outcome.output)}
        return {**shown, "seconds": round(self.outcome.seconds, 6), "reason": self.outcome.reason}

    def __str__(self) -> str:
        end = f"{len(self.outcome.output)} bytes" if self.outcome.reason is None else self.outcome.reason
        return f"{self.sender}  {self.request} bytes -> {end}  {self.outcome.seconds:.3f} s"


class AnsweringService:
    """Answers requests. Leaving its context ends the commands.

    :param content_type: the content type of replies; ``None``: text if a reply is UTF-8, else bytes.
    :param report: is called for each request that was answered.
    :ivar happened: the requests that were answered, and the states of the connection.
    """

    def __init__(
        self, name: str, limits: CommandLimits, content_type: str | None, report: Callable[[Answered], None]
    ) -> None:
        self.happened: asyncio.Queue[Answered | State] = asyncio.Queue()
        self._name, self._limits = name, limits
        self._content_type, self._report = content_type, report
        self._runner = Runner(limits)
        self._pool = ThreadPoolExecutor(limits.concurrency, "command")
        self._open = 0

    def __enter__(self) -> AnsweringService:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()
        self._pool.shutdown(cancel_futures=True)

    async def serve(self, bus: Bus, count: int | None = None) -> None:
        """Answer requests.

        :param bus: the client, not entered yet.
        :param count: return after so many answers; ``None``: never.
        :raises Lost: the connection ended, and the client connects no more.
        """
        try:
            # One more than may run or wait: that one is told so.
            most = self._limits.concurrency + self._limits.waiting + 1
            async with bus, bus.serve(self._name, self._handler(count), concurrency=most):
                await self._watch(count)
        finally:
            self._runner.close()

    async def _watch(self, count: int | None) -> None:
        from bussrv.cli.traffic.joining import ConnectionNotes
        from bussrv.client.errors import Lost
        from bussrv.client.events import Down

        notes, answered = ConnectionNotes(), 0
        while count is None or answered < count:
            happened = await self.happened.get()
            if isinstance(happened, Answered):
                answered += 1
                self._report(happened)
            elif isinstance(happened, Down) and happened.retry_in is None:
                raise Lost(happened.reason, happened.message, maybe_done=True)
            else:
                notes.note(happened)

    def _handler(self, count: int | None) -> Handler:
        from bussrv.cli.traffic.payloads import type_of
        from bussrv.client.errors import ServiceError

        taken = 0

        async def handle(request: Request) -> tuple[bytes, str]:
            nonlocal taken
            if taken == count:
                raise ServiceError("no-such-service", f"{self._name} ends")
            taken += 1
            outcome = await self._outcome(request)
            self.happened.put_nowait(Answered(request.asker or "", len(request.payload), outcome))
            if outcome.reason is not None:
                raise ServiceError(outcome.reason, outcome.message)
            return outcome.output, self._content_type or type_of(outcome.output)

        return handle

    async def _outcome(self, request: Request) -> CommandOutcome:
        self._open += 1
        try:
            if self._open > self._limits.concurrency + self._limits.waiting:
                return CommandOutcome(b"", "too-busy", "too many requests wait for this service", 0.0)
            identifier = request.metadata.get("id")
            about = {"SERVICE": self._name, "FROM": request.asker, "TYPE": request.type, "ID": identifier}
            variables = {f"REQUEST_{name}": value for name, value in about.items() if isinstance(value, str)}
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, self._runner.run, request.payload, variables)
        finally:
            self._open -= 1
