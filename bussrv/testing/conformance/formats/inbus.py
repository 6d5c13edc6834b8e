"""Inbus, version 2, for the kit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from bussrv.testing.conformance.adapter import Adapter, Client, Published, Said
from bussrv.wire import inbus

VERSION = 2


class InbusClient(Client):
    """A device that subscribes its own address."""

    def subscribe(self, service: str) -> bytes:
        """Subscribe the address."""
        return inbus.subscribe(service, *self.address, VERSION)

    def unsubscribe(self, service: str) -> bytes:
        """End that."""
        return inbus.unsubscribe(service, *self.address, VERSION)

    def publish(self, service: str, payload: bytes) -> bytes:
        """Publish."""
        return inbus.publish(service, 1, payload, VERSION)

    def read(self, data: bytes) -> Iterator[Said]:
        """Read a datagram."""
        found = inbus.decode(data)
        yield Published(found.app_key, found.payload)


class InbusAdapter(Adapter):
    """Inbus."""

    name = "inbus"
    client = InbusClient
    max_payload = 40_000
    lapses_after = 120.0
    settings: ClassVar[dict[str, int]] = {"inbus_lease": 60}
    absent: ClassVar[dict[str, str]] = {
        "stream": "Inbus is spoken in datagrams, over UDP.",
        "pipelining": "Each datagram stands alone, and may overtake others.",
        "login": "A datagram has no place for a secret: users of Inbus are networks.",
        "confirm": "The server never answers a datagram.",
        "refuse": "The server never answers a datagram.",
        "provide": "Publishing on a service provides it, for as long as its lease lasts.",
        "pattern": "A datagram subscribes to one app-key.",
        "ask": "Inbus has no requests.",
        "answer": "Inbus has no requests.",
        "state": "A subscriber is given what is published after its subscription.",
    }
