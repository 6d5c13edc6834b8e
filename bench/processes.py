"""Figures of a process from ``/proc``, and waits for a process that is to listen."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

START_TIME = 10.0
"""The longest time in seconds until a server listens."""

_TICKS = os.sysconf("SC_CLK_TCK")


def memory(pid: int, name: str) -> int:
    """Bytes of memory: ``VmRSS`` those that are resident now, ``VmHWM`` the most so far; 0 if the process has ended.

    :raises OSError: if the process has ended, and its parent has waited for it.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:")), 0)


def parent(pid: int) -> int:
    """The id of the parent process.

    :raises OSError: if it is gone.
    """
    return int(_stat(pid)[1])


def cpu(pid: int, *, with_children: bool = False) -> float:
    """The seconds of CPU that a process has used so far.

    :param with_children: whether to add those of children that have ended.
    :raises OSError: if it is gone.
    """
    return sum(map(int, _stat(pid)[11 : 15 if with_children else 13])) / _TICKS


def _stat(pid: int) -> list[str]:
    # The second field is the name of the program in parentheses, and may hold anything.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def wait_for(address: tuple[str, int] | str, process: subprocess.Popen[bytes], said: str | Path) -> None:
    """Wait until a server listens.

    :param address: host and port, or the path of a Unix socket.
    :param said: the log of the server for the error: a file, or a text that says where to look.
    :raises RuntimeError: if it ends, or does not listen in time.
    """
    wait_until(lambda: _listens(address), process, said)


def wait_until(is_ready: Callable[[], bool], process: subprocess.Popen[bytes], said: str | Path) -> None:
    """Wait until a server is ready.

    :param said: the log of the server for the error: a file, or a text that says where to look.
    :raises RuntimeError: if it ends, or is not ready in time.
    """
    give_up = time.monotonic() + START_TIME
    while not is_ready():
        if process.poll() is not None or time.monotonic() > give_up:
            why = said.read_text() if isinstance(said, Path) else said
            raise RuntimeError(f"{process.args!r} did not start (exit status {process.returncode}): {why}")
        time.sleep(0.01)


def _listens(address: tuple[str, int] | str) -> bool:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as connection:
        return connection.connect_ex(address) == 0
