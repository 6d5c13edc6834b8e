"""What a wire format raises, which may be a plugin: counted and logged, and the end of one session at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bussrv.addresses import peer_text
from bussrv.bus.interfaces import IBus
from bussrv.errors import OverLimit, Refused
from bussrv.net.transport.complaints import Complaints


class FailingPort(Protocol):
    """The port of a connection, as far as its failures need it."""

    bus: IBus
    complaints: Complaints


class FailingConnection(Protocol):
    """A connection, as far as its failures need it. ``session_id`` is not there before the session is open."""

    transport: Any

    @property
    def factory(self) -> FailingPort:
        """Its port."""

    def not_admitted(self, refusal: OverLimit) -> None:
        """The client is over a limit."""


def note(connection: FailingConnection, failure: Failure) -> None:
    """Count and log a failure."""
    port = connection.factory
    port.bus.counters["internal-error"] += 1
    session_id = getattr(connection, "session_id", "that was to open")
    port.complaints.broken(session_id, peer_text(connection.transport.getPeer()), failure)


def ask(connection: FailingConnection, hook: Callable[[str], Any], reason: str) -> Any:
    """The result of a hook at the end of a session; ``None`` if it fails: the end takes its course."""
    try:
        return hook(reason)
    except Exception:
        note(connection, Failure())
        return None


def not_opened(connection: FailingConnection, error: Exception) -> None:
    """End a connection that has no session: the client is over a limit, or the wire format failed."""
    try:
        if not isinstance(error, OverLimit):
            raise error
        connection.not_admitted(error)
        connection.transport.loseConnection()
    except Exception:
        note(connection, Failure())
        connection.transport.abortConnection()


async def counted(bus: IBus, change: Deferred[None]) -> None:
    """A change of the registry that a client asks for. A refusal is counted.

    :raises Refused: the change is refused.
    """
    try:
        await change
    except Refused as refusal:
        bus.counters[refusal.reason] += 1
        raise
