"""Servers that start in a tenth of the time: processes of their own, forked from one that has imported everything.

Nearly all that a server costs is its imports. Tests that need several processes, and not the first second of one, use
:class:`ForkedServer`. Signals, kills, sockets, files and exit statuses are those of any process. A test of the start
itself, or of what a process needs, uses :class:`bussrv.testing.server.RunningServer`.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

from bussrv.testing.server import FREE_PORTS, PATIENCE, TWISTD, RunningServer

_MOST = 1 << 20
"""Bytes of a request: the environment is the largest part of it."""

_NUMBER = struct.Struct("=i")
"""A process id, or an exit status."""


class Nursery:
    """The process that has imported everything; it ends with this one."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                cwd=Path(__file__).parents[1],
            )

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        log: int,
        errors: int,
        module: str = "",
    ) -> ForkedProcess:
        """``twistd`` with these arguments, in a directory.

        :param log: a file descriptor for its standard output.
        :param errors: another one for its standard error.
        :param module: what is run instead of ``twistd``, as by ``python -m``.
        """
        ours, theirs = socket.socketpair()
        request = {
            "arguments": arguments,
            "environment": dict(environment),
            "directory": str(directory),
            "module": module,
        }
        # Until a process answers, the next request waits: none is read together with another one.
        with self._lock, theirs:
            said = json.dumps(request).encode() + b"\n"
            socket.send_fds(self._channel, [said], [theirs.fileno(), log, errors])
            theirs.close()
            return ForkedProcess(ours)


_one_at_a_time = threading.Lock()


def nursery() -> Nursery:
    """The one of this process."""
    with _one_at_a_time:
        return _nursery()


@cache
def _nursery() -> Nursery:
    return Nursery()


class ForkedProcess:
    """As much of ``subprocess.Popen`` as tests use.

    :param status: says the process id, and later how the process ended.
    """

    stdout: TextIO
    stderr: TextIO

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self.returncode: int | None = None
        self.pid = self._next_number()

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            # Not select(): with a thousand connections of a test, the number of this one is too large for it.
            ready = select.poll()
            ready.register(self._status, select.POLLIN)
            if not ready.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(["twistd"], timeout or 0)
            self.returncode = self._next_number()
            self._status.close()
        return self.returncode

    def _next_number(self) -> int:
        (number,) = _NUMBER.unpack(self._status.recv(_NUMBER.size, socket.MSG_WAITALL))
        return int(number)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # It may have ended, and its status is on its way.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedServer(RunningServer):
    """A server that is not started as a user would, but is one from then on."""

    def _spawn(self, command: list[str], environment: Mapping[str, str]) -> ForkedProcess:  # type: ignore[override]
        return forked(command[len(TWISTD) :], environment)


def forked_module(name: str, *arguments: str) -> ForkedProcess:
    """``python -m`` with the name of a module and arguments. Its standard error is that of this process."""
    return forked(arguments, os.environ, name, 2)


def forked(
    arguments: Sequence[str], environment: Mapping[str, str], module: str = "", errors: int | None = None
) -> ForkedProcess:
    """A process of the nursery in this directory.

    :param module: what is run instead of ``twistd``, as by ``python -m``.
    :param errors: a descriptor for standard error; by default it goes where standard output does.
    """
    readable, writable = os.pipe()
    try:
        said = writable if errors is None else errors
        process = nursery().start(arguments, environment, Path.cwd(), writable, said, module)
    finally:
        os.close(writable)
    process.stdout = os.fdopen(readable, encoding="utf-8")
    return process


def refused_start(directory: Path, *options: str) -> str:
    """The one line that a server says on standard error that does not start."""
    said = refused(directory, *options)
    assert said.count("\n") == 1, said
    return said


def refused(directory: Path, *options: str) -> str:
    """All lines that it says there."""
    arguments = ["-n", "--pidfile=", "bussrv", *FREE_PORTS, *options]
    with TemporaryFile("w+") as log, TemporaryFile("w+") as errors:
        process = nursery().start(arguments, os.environ, directory, log.fileno(), errors.fileno())
        try:
            assert process.wait(PATIENCE) == 1
        finally:
            process.kill()
        errors.seek(0)
        said = errors.read()
        log.seek(0)
        assert "Traceback" not in log.read()
    assert said.startswith("bussrv: ")
    return said


# The process that has imported everything.

_IMPORTED = (
    *("twisted.scripts.twistd", "twisted.scripts._twistd_unix", "twisted.internet.epollreactor", "twisted.plugins"),
    *("twisted.internet.endpoints", "bussrv.server.running.twistd"),
    *(
        f"bussrv.formats.{name}"
        for name in ("objects.object_system", "objects.business", "inbus.server", "spp.protocol")
    ),
    *(f"bussrv.services.{name}" for name in ("registry", "statistics", "clock")),
)


def _request(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """What is to be started, and the descriptors for its status, log and errors; ``None`` after the last one."""
    data, passed = b"", []
    while not data.endswith(b"\n"):
        received, descriptors, _, _ = socket.recv_fds(channel, _MOST, 3)
        if not received:
            return None
        data += received
        passed += descriptors
    return json.loads(data), passed


def _is_server(status: int, *passed: int) -> bool:
    """Fork twice: the process in between waits for the server, and says how it ended.

    :returns: whether this is the server.
    """
    if os.fork():
        for each in (status, *passed):
            os.close(each)
        return False
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    server = os.fork()
    if server == 0:
        return True
    for each in passed:
        os.close(each)
    os.write(status, _NUMBER.pack(server))
    _, ended = os.waitpid(server, 0)
    with suppress(BrokenPipeError):
        os.write(status, _NUMBER.pack(os.waitstatus_to_exitcode(ended)))
    os._exit(0)


def _become(request: dict[str, Any], log: int, errors: int) -> None:
    """What differs between this process and one that was started for the request."""
    os.dup2(log, 1)
    os.dup2(errors, 2)
    os.closerange(3, 1024)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main(channel: socket.socket) -> None:
    for name in _IMPORTED:
        import_module(name)
    # Each server asks for all plugins.
    deque(sys.modules["twisted.plugin"].getPlugins(sys.modules["twisted.application.service"].IServiceMaker), 0)
    # And looks for garbage among all that is imported.
    gc.collect()
    gc.freeze()
    assert "twisted.internet.reactor" not in sys.modules, "servers would share what it waits with"
    # Ctrl-C is for the tests, and who waited for a server is not waited for.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while (asked := _request(channel)) is not None:
        request, (status, log, errors) = asked
        if request["module"]:
            import_module(request["module"])
        if _is_server(status, log, errors):
            _become(request, log, errors)
            if request["module"]:
                # It is imported, too, so that the next one need not be.
                warnings.simplefilter("ignore", RuntimeWarning)
                runpy.run_module(request["module"], run_name="__main__")
            else:
                sys.modules["twisted.scripts.twistd"].run()
            return


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
