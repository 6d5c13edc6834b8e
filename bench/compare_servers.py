"""The servers that are compared, each in a process of its own, on ports that the system chose."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import processes

from bussrv.testing.server import RunningServer
from bussrv.testing.uplink import RunningUplink
from bussrv.version import VERSION

BUSSRV, MOSQUITTO, REDIS, NATS = "bussrv", "mosquitto", "redis", "nats"
PEERS = (MOSQUITTO, REDIS, NATS)
TRIANGLE = "three linked"
"""Three bussrv servers, each linked to both others."""
UPLINKED = "two by NATS"
"""Two bussrv servers, joined by their uplinks and a NATS server. These five share all CPUs with the load generator."""
QUIET = "bussrv, quiet"
"""bussrv with ``--announce off``: like the peers, it does not tell clients of each other."""
WATCHED = "bussrv, watched"
"""bussrv with a dashboard open, and a scrape each second; see ``watcher.py``."""
UNWATCHED = "bussrv, no admin"
OURS = (BUSSRV, QUIET, TRIANGLE, UPLINKED, WATCHED, UNWATCHED)
DURABLE_REDIS = "redis, durable"
"""Redis with an append-only file that is synced before each answer."""
SELECT = "plain select"
"""The Inbus server of ``inbus_select.py``."""
PROGRAMS = {MOSQUITTO: "mosquitto", REDIS: "redis-server", NATS: "nats-server"}
FORMATS = {MOSQUITTO: "mqtt", REDIS: "redis", NATS: "nats"}

MQTT_PORT = ("--mqtt", "tcp:0:interface=127.0.0.1")
RAISED = ("--max-connects", "1000000", "--inbus-max-rate", "1000000")
"""Limits that only a bench reaches: all its clients have one address, and connect at the same time."""

LOG = "log"


@dataclass(frozen=True)
class Running:
    """A running server, or several that are linked.

    :ivar places: by a name that scenarios use: the format of the load generator and the port, as in ``objects:7890``.
    """

    pids: Sequence[int]
    places: Mapping[str, str] = field(default_factory=dict)

    def memory(self) -> int:
        """The resident bytes of all its processes now."""
        return sum(processes.memory(pid, "VmRSS") for pid in self.pids)

    def peak_memory(self) -> int:
        """The most resident bytes that it has had so far."""
        return sum(processes.memory(pid, "VmHWM") for pid in self.pids)

    def cpu(self) -> float:
        """The seconds of CPU that all its processes have used so far."""
        return sum(processes.cpu(pid) for pid in self.pids)


def start(name: str, directory: Path) -> AbstractContextManager[Running]:
    """Run one of the servers, with its files in ``directory``."""
    if name in PROGRAMS:
        return _peer(name, directory)
    ways = {
        BUSSRV: _bussrv,
        QUIET: _quiet,
        TRIANGLE: _triangle,
        UPLINKED: _uplinked,
        WATCHED: _watched,
        UNWATCHED: _unwatched,
        DURABLE_REDIS: _durable_redis,
        SELECT: _select,
    }
    return ways[name](directory)


@contextmanager
def _bussrv(directory: Path, options: Sequence[str] = ()) -> Iterator[Running]:
    with RunningServer(directory / "journal", [*RAISED, *MQTT_PORT, *options]) as server:
        port = server.port
        places = {name: f"{name}:{port(name)}" for name in ("objects", "business", "inbus", "spp", "mqtt")}
        places |= {"mqtt-confirmed": f"mqtt-confirmed:{port('mqtt')}"}
        places |= {"objects-service": f"objects-service:{port('objects')}", "inbus2": f"inbus2:{port('inbus')}"}
        places |= {"admin": str(port("admin"))} if "admin" in server.addresses else {}
        yield Running([server.process.pid], places)
        server.stop()


def _quiet(directory: Path) -> AbstractContextManager[Running]:
    return _bussrv(directory, ["--announce", "off"])


def _unwatched(directory: Path) -> AbstractContextManager[Running]:
    return _bussrv(directory, ["--admin", "off"])


@contextmanager
def _watched(directory: Path) -> Iterator[Running]:
    log = directory / LOG
    with _bussrv(directory) as server:
        command = [sys.executable, str(Path(__file__).with_name("watcher.py")), "127.0.0.1", server.places["admin"]]
        with _process(command, directory) as process:
            processes.wait_until(lambda: "watching" in log.read_text(), process, log)
            yield server
            assert process.poll() is None, log.read_text()


@contextmanager
def _triangle(directory: Path) -> Iterator[Running]:
    with ExitStack() as stack:
        servers: list[RunningServer] = []
        for number in range(3):
            links = [word for each in servers for word in ("--link", f"tcp:127.0.0.1:{each.port('objects')}")]
            journal = directory / f"journal-{number}"
            servers.append(stack.enter_context(RunningServer(journal, [*RAISED, "--link-allow", "127.0.0.1", *links])))
        places = {f"objects-{number}": f"objects:{each.port('objects')}" for number, each in enumerate(servers)}
        yield Running([each.process.pid for each in servers], places)


@contextmanager
def _uplinked(directory: Path) -> Iterator[Running]:
    with ExitStack() as stack:
        nats = stack.enter_context(_peer(NATS, directory))
        url = f"nats://127.0.0.1:{nats.places[FORMATS[NATS]].rpartition(':')[2]}"
        servers: list[RunningServer] = []
        uplinks: list[RunningUplink] = []
        for name in ("a", "b"):
            own = ["--server-id", name, "--servers", "0", "--link-allow", "127.0.0.1"]
            servers.append(stack.enter_context(RunningServer(directory / f"journal-{name}", [*RAISED, *own])))
            bus = f"bus://127.0.0.1:{servers[-1].port('servers')}"
            uplinks.append(stack.enter_context(RunningUplink(url, "--bus", bus)))
        for uplink, other in zip(uplinks, ("b", "a"), strict=True):
            uplink.wait_for(f"server {other} has joined")
        pids = [*nats.pids, *(each.process.pid for each in (*servers, *uplinks))]
        for pid in pids:
            os.sched_setaffinity(pid, range(os.cpu_count() or 1))
        places = {f"objects-{number}": f"objects:{each.port('objects')}" for number, each in enumerate(servers)}
        yield Running(pids, places)


def free_port() -> int:
    """A port at which no program listens right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _peer(name: str, directory: Path, options: Sequence[str] = ()) -> Iterator[Running]:
    """A broker with its own defaults, except that it keeps nothing on disk."""
    port = free_port()
    program = program_path(name)
    assert program is not None
    command = [program, *_arguments[name](directory, port), *options]
    with _process(command, directory) as process:
        processes.wait_for(("127.0.0.1", port), process, directory / LOG)
        formats = [FORMATS[name], *(["mqtt-confirmed"] if name == MOSQUITTO else [])]
        yield Running([process.pid], {each: f"{each}:{port}" for each in formats})


def _durable_redis(directory: Path) -> AbstractContextManager[Running]:
    return _peer(REDIS, directory, ["--appendonly", "yes", "--appendfsync", "always"])


@contextmanager
def _select(directory: Path) -> Iterator[Running]:
    log = directory / LOG
    with _process([sys.executable, str(Path(__file__).with_name("inbus_select.py"))], directory) as process:
        processes.wait_until(lambda: log.read_text().endswith("\n"), process, log)
        yield Running([process.pid], {"inbus": f"inbus:{int(log.read_text())}"})


@contextmanager
def _process(command: Sequence[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / LOG).open("wb") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _mosquitto(directory: Path, port: int) -> list[str]:
    settings = {
        "listener": f"{port} 127.0.0.1",
        "allow_anonymous": "true",
        "persistence": "false",
        "set_tcp_nodelay": "true",
        "log_dest": "stderr",
        "log_type": "error",
    }
    if os.geteuid() == 0:
        # It would become a user that may not read its configuration here.
        settings["user"] = "root"
    path = directory / "mosquitto.conf"
    path.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return ["-c", str(path)]


def _redis(directory: Path, port: int) -> list[str]:
    return ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(directory)]


def _nats(directory: Path, port: int) -> list[str]:
    return ["--addr", "127.0.0.1", "--port", str(port)]


_arguments: dict[str, Callable[[Path, int], list[str]]] = {MOSQUITTO: _mosquitto, REDIS: _redis, NATS: _nats}


def program_of(name: str) -> str:
    """The program behind a name of a server: the peer itself, bussrv or Redis."""
    return REDIS if name == DURABLE_REDIS else BUSSRV if name in (*OURS, SELECT) else name


def version(name: str) -> str | None:
    """The installed version of a server; ``None``: it is not installed."""
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
    """The path of a peer. Debian installs some peers in directories that the PATH of ordinary users does not have, and
    ``make bench`` installs some beside Python.
    """
    beside = str(Path(sys.executable).parent)
    places = [os.environ.get("PATH", os.defpath), beside, "/usr/local/sbin", "/usr/sbin", "/sbin"]
    return shutil.which(PROGRAMS[name], path=os.pathsep.join(places))
