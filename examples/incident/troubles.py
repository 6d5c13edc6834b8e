"""What goes wrong in the office. Nothing here is a fault of the servers."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from datetime import datetime, timezone
from typing import Any

from bussrv.client import blocking
from examples.incident.cable import LOOPBACK
from examples.incident.office import MOST_WAITING, Office, Staff

STRANGER = "127.0.0.66"
GUESSES = 12
PICTURE = bytes(100_000)
_RESET = struct.pack("ii", 1, 0)


class Boiler:
    """Provides ``heating`` at hall, as few bytes do."""

    def __init__(self, office: Office) -> None:
        self._socket = socket.create_connection((LOOPBACK, office.port("hall")), 10)
        _tell(self._socket, event="routing/subscribe", name="boiler", receive="none")
        _tell(self._socket, event="services/register", name="heating")

    def __enter__(self) -> Boiler:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def lose_power(self) -> None:
        """End without a word: the connection is reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._socket.close()


def guess(office: Office) -> None:
    """A stranger guesses at the secret of ann."""
    with contextlib.ExitStack() as stack:
        tries = []
        for number in range(GUESSES):
            where = (LOOPBACK, office.port("hall"))
            each = stack.enter_context(socket.create_connection(where, 60, source_address=(STRANGER, 0)))
            _tell(each, event="routing/subscribe", user="ann", secret=f"horse-{number}")
            tries.append(each)
        for each in tries:
            assert b"bad-credentials" in each.recv(1 << 16)


def stall(staff: Staff) -> None:
    """The screen reads nothing any more, while the camera sends picture after picture."""
    for _ in range(20 * MOST_WAITING // len(PICTURE)):
        staff.camera.publish("camera", PICTURE, type="image/png", confirm=True)


def steal(staff: Staff) -> None:
    """The door restarts. Meanwhile a visitor takes its routing id, and provides its service."""
    staff.door.close()
    granted = staff.visitor.subscribe_for_requests(routing_id="door", name="visitor")
    assert granted["routing-id"] == "door"
    staff.visitor.register("door")


def ring(office: Office) -> str:
    """Somebody rings the bell at hall. :returns: when."""
    with blocking.connect(f"bus://{LOOPBACK}:{office.port('hall')}", name="bell") as bell:
        bell.publish("bell", b"ding", type="text/plain", confirm=True)
        return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


def _tell(client: socket.socket, **fields: Any) -> None:
    client.sendall(json.dumps(fields).encode() + b"\0")
