"""The server, as the admin interface needs it. All methods belong to the reactor's thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from bussrv.bus.interfaces import IBus
from bussrv.journal.interfaces import IJournal


class AdministeredServer(Protocol):
    """A running server.

    :ivar boot: the id of this boot.
    :ivar started: when it began, UTC microseconds.
    """

    bus: IBus
    journal: IJournal
    reactor: Any
    boot: str
    started: int

    def formats(self) -> Mapping[str, str]:
        """The address of each wire format that is on, by its name."""

    def is_draining(self) -> bool:
        """Whether the server is about to stop, and takes no further clients."""

    def log_level(self) -> str:
        """The levels that are logged, such as ``info,journal=debug``."""
