"""Attacks on the admin interface: other clients of the bus never wait for it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from bussrv.testing.server import RunningServer
from tests.attacks.bystanders import Bystanders
from tests.attacks.watchers import figures

pytestmark = pytest.mark.processes

WORST = 0.1
"""Seconds that no bystander may wait."""

HEAD = b"GET /api/v1/%b HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect(server: RunningServer) -> socket.socket:
    return socket.create_connection(server.addresses["admin"], timeout=30)


def answer(client: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    found = b""
    with suppress(ConnectionResetError):
        while data := client.recv(1 << 16):
            found += data
    return found


def count(server: RunningServer, name: str) -> int:
    connection = HTTPConnection(*server.addresses["admin"], timeout=30)
    connection.request("GET", "/api/v1/counters")
    import json

    found = json.loads(connection.getresponse().read())["counters"].get(name, 0)
    connection.close()
    return int(found)
