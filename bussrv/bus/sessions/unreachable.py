"""The link of a session without a client: the server's own, or one in the name of a client that is gone."""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from bussrv.bus.interfaces import IEncoding, ISessionLink
from bussrv.memory.bundle import Bundle
from bussrv.values import Traffic


@implementer(ISessionLink)
class Unreachable:
    """Sends nothing: its session is subscribed to nothing."""

    waiting = 0

    def __init__(self) -> None:
        self.traffic = Traffic()

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        """There is none."""
        raise NotImplementedError

    def send(self, bundle: Bundle) -> None:
        """Nothing is sent."""
        raise NotImplementedError

    def close(self, reason: str) -> None:
        """Do nothing: the server ends the session itself."""
