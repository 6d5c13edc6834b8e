"""Whoever talks to the server tries to forge its log, and to play with the terminal of those who read it."""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import FREE_PORTS, PATIENCE, TWISTD
from bussrv.wire import spp

FORGED = "2026-11-21T14:02:03+0000 [bussrv.server.running.service#info] bussrv stopped"
EVIL = f"\x1b[2J\r\n{FORGED}\u202e\u2028\x9b"
TIMES = 300
"""How often each of them is sent; the log has room for a few of each."""


class Server:
    """A server with a log in a file or on its standard output, read as bytes."""

    def __init__(self, directory: Path, to_file: bool) -> None:
        self.log = directory / "server.log"
        where = [f"--logfile={self.log}"] if to_file else []
        command = [*TWISTD, "-n", "--pidfile=", *where, "bussrv", *FREE_PORTS]
        options = ["--link-allow", "127.0.0.0/8", "--journal", str(directory / "journal")]
        with (directory / "elsewhere.log" if to_file else self.log).open("wb") as output:
            self.process = subprocess.Popen([*command, *options], stdout=output, stderr=output)
        self._await("bussrv is ready")

    def text(self) -> str:
        return self.log.read_bytes().decode() if self.log.exists() else ""

    def _await(self, text: str) -> None:
        limit = time.monotonic() + PATIENCE
        while text not in self.text():
            assert time.monotonic() < limit, self.text()
            assert self.process.poll() is None, self.text()
            time.sleep(0.02)

    def port(self, name: str) -> int:
        (line,) = (line for line in self.text().splitlines() if f" {name} on " in line)
        return int(line.rpartition(":")[2])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


@pytest.fixture(params=[False, True], ids=["standard output", "log file"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path, request.param)
    yield server
    server.stop()


def connect(server: Server, name: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port(name)), timeout=PATIENCE)


def until_closed(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def over_spp(server: Server) -> None:
    """A service with such a name, then a packet that makes no sense."""
    with connect(server, "spp") as watcher:
        name = EVIL.encode()
        watcher.sendall(struct.pack(">III", 1, 4 + len(name), len(name)) + name)
        watcher.sendall(spp.authenticate(EVIL, EVIL))
        watcher.sendall(struct.pack(">III", 1, 4 + len(name), 9999) + name)
        until_closed(watcher)


def over_objects(server: Server, vocabulary: str) -> None:
    with connect(server, vocabulary) as client:
        for event in ("routing/subscribe", "client/register"):
            fields = {"event": event, "id": EVIL, "user": EVIL, "name": EVIL, "routing-id": EVIL}
            client.sendall(json.dumps(fields).encode() + b"\0")
        fields = {"event": "services/register", "name": EVIL, "types": EVIL}
        client.sendall(json.dumps(fields, ensure_ascii=False).encode() + b"\0")
        client.sendall(f'{{"event":"{EVIL}","size":"{EVIL}"}}'.encode() + b"\0")
        client.shutdown(socket.SHUT_WR)
        until_closed(client)


def over_a_link(server: Server, routing_id: str) -> None:
    with connect(server, "objects") as other:
        hello = {"event": "routing/subscribe", "role": "server", "routing-id": routing_id, "subscriptions": ["*"]}
        other.sendall(json.dumps(hello).encode() + b"\0")
        error = {"event": "error", "message": EVIL, "route": ["attic"]}
        other.sendall((json.dumps(error).encode() + b"\0") * TIMES)
        other.sendall(json.dumps({"event": "x", "route": [EVIL] * 3}).encode() + b"\0")
        other.shutdown(socket.SHUT_WR)
        until_closed(other)


def over_inbus(server: Server) -> None:
    datagrams = [EVIL.encode()]
    for opcode in (1, 2, 3, 77):
        head = {"version": 1, "opcode": opcode, "application": [EVIL, 1], "payload": EVIL}
        datagrams += [json.dumps({**head, "address": [host, 7]}).encode() for host in (EVIL, "127.0.0.1")]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        for datagram in datagrams * TIMES:
            device.sendto(datagram, ("127.0.0.1", server.port("inbus")))


def test_nobody_forges_a_line_of_the_log_nor_fills_it(server: Server) -> None:
    over_spp(server)
    over_objects(server, "objects")
    over_objects(server, "business")
    over_a_link(server, EVIL)
    over_a_link(server, "attic")
    over_inbus(server)
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe()
    server.stop()
    text = server.text()
    lines = text.split("\n")
    assert not any(line.startswith(FORGED) for line in lines)
    unfit = {each for each in text.replace("\n", "") if unicodedata.category(each) in {"Cc", "Zl", "Zp", "Cf"}}
    assert unfit == set()
    assert all(line.startswith("2") for line in lines if line)
    said = [line for line in lines if re.search(r"link to attic at \S+, session \S+: it says: ", line)]
    assert 1 <= len(said) <= 10
    assert "\\x1b[2J\\r\\n2026-11-21T14:02:03" in said[0]
    assert "\\u202e\\u2028\\x9b" in said[0]
    assert len(lines) < 150
