"""The servers that are compared, each with a process of its own on ports that the system chose."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bussrv.testing.server import RunningServer
from bussrv.version import VERSION

BUSSRV, MOSQUITTO, REDIS, NATS = "bussrv", "mosquitto", "redis", "nats"
PEERS = (MOSQUITTO, REDIS, NATS)
PROGRAMS = {MOSQUITTO: "mosquitto", REDIS: "redis-server", NATS: "nats-server"}
FORMATS = {MOSQUITTO: "mqtt", REDIS: "redis", NATS: "nats"}

RAISED = ("--max-connects", "1000000", "--inbus-max-rate", "1000000")
"""Limits that a bench runs into and real clients do not: everybody is at one address here, and connects at once."""

START_TIME = 10.0
"""Seconds within which a peer has to listen."""


@dataclass(frozen=True)
class Running:
    """A server that runs.

    :ivar ports: by the name that a format has to the load generator.
    """

    name: str
    pids: Sequence[int]
    ports: Mapping[str, int] = field(default_factory=dict)

    def memory(self) -> int:
        """Resident bytes of all its processes, now."""
        return sum(_status(pid, "VmRSS") for pid in self.pids)

    def peak_memory(self) -> int:
        """The most resident bytes it had so far."""
        return sum(_status(pid, "VmHWM") for pid in self.pids)


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name + ":"))


@contextmanager
def bussrv(directory: Path, options: Sequence[str] = ()) -> Iterator[Running]:
    """bussrv, with everything that is on unless it is told otherwise, and a durable journal in ``directory``."""
    with RunningServer(directory / "journal", [*RAISED, *options]) as server:
        port = server.port
        ports = {name: port(name) for name in ("objects", "business", "inbus", "spp")}
        ports |= {"objects-service": port("objects"), "inbus2": port("inbus")}
        yield Running(BUSSRV, [server.process.pid], ports)
        server.stop()


def free_port() -> int:
    """A port that nobody listens at right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def peer(name: str, directory: Path, options: Sequence[str] = ()) -> Iterator[Running]:
    """A broker as it comes, but that it keeps nothing on disk, and that QoS 0 of mosquitto does not drop messages."""
    port = free_port()
    program = program_path(name)
    assert program is not None
    command = [program, *_arguments[name](directory, port), *options]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for(port, process, directory / "log")
        yield Running(name, [process.pid], {FORMATS[name]: port})
    finally:
        process.terminate()
        process.wait()


def _mosquitto(directory: Path, port: int) -> list[str]:
    settings = {
        "listener": f"{port} 127.0.0.1",
        "allow_anonymous": "true",
        "persistence": "false",
        "set_tcp_nodelay": "true",
        "max_queued_messages": "0",
        "max_inflight_messages": "0",
        "log_dest": "stderr",
        "log_type": "error",
        "user": "root",
    }
    path = directory / "mosquitto.conf"
    path.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return ["-c", str(path)]


def _redis(directory: Path, port: int) -> list[str]:
    return ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(directory)]


def _nats(directory: Path, port: int) -> list[str]:
    return ["--addr", "127.0.0.1", "--port", str(port)]


_arguments: dict[str, Callable[[Path, int], list[str]]] = {MOSQUITTO: _mosquitto, REDIS: _redis, NATS: _nats}


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + START_TIME
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text()}")
        time.sleep(0.01)


def _listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def version(name: str) -> str | None:
    """Which version of a server is installed; ``None``: none."""
    if name == BUSSRV:
        return VERSION
    program = program_path(name)
    if program is None:
        return None
    # mosquitto has no option for that: its help begins with it, and ends with exit status 3.
    option = "-h" if name == MOSQUITTO else "--version"
    said = subprocess.run([program, option], capture_output=True, text=True).stdout
    found = re.search(r"\d+\.\d+\.\d+", said)
    return found[0] if found else "unknown"


def program_path(name: str) -> str | None:
    """Where a peer is installed; Debian has some where the PATH of ordinary users does not lead."""
    places = [os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"]
    return shutil.which(PROGRAMS[name], path=os.pathsep.join(places))
