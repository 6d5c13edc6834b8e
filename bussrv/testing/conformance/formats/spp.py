"""Service providing protocol, for the kit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from bussrv.testing.conformance.adapter import Adapter, Client, Confirmed, Login, Published, Refused, Said, events_of
from bussrv.wire import spp


class SppClient(Client):
    """A client that watches services."""

    def __init__(self, login: Login | None = None) -> None:
        super().__init__(login)
        self._reader = spp.SppReader("server")

    def join(self) -> bytes:
        """Say who one is."""
        return b"" if self.login is None else spp.authenticate(self.login.user, self.login.secret)

    def subscribe(self, service: str) -> bytes:
        """Subscribe to an offered service."""
        return spp.subscribe(service)

    def unsubscribe(self, service: str) -> bytes:
        """End that."""
        return spp.unsubscribe(service)

    def read(self, data: bytes) -> Iterator[Said]:
        """Read packets."""
        for found in events_of(self._reader, data):
            if isinstance(found, spp.Info):
                yield Published(found.service, found.message)
            elif isinstance(found, spp.Other) and found.msgtype == spp.AUTH_RESULT:
                accepted = found.data == spp.AUTH_ACCEPTED.to_bytes(4, "big")
                yield Confirmed("login") if accepted else Refused("login")


class SppAdapter(Adapter):
    """Service providing protocol."""

    name = "spp"
    client = SppClient
    absent: ClassVar[dict[str, str]] = {
        "confirm": "The protocol answers a subscription with the state of the service, and with nothing else.",
        "refuse": "The protocol has no errors.",
        "provide": "Clients of the protocol only watch.",
        "publish": "Clients of the protocol only watch.",
        "pattern": "A packet subscribes to one service.",
        "ask": "The protocol has no requests.",
        "answer": "The protocol has no requests.",
    }
