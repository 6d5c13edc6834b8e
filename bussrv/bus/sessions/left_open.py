"""The sessions that the last boot left open: what becomes of each when the server starts."""

from __future__ import annotations

from collections.abc import Container

from msgspec import UNSET

from bussrv.bus.interfaces import IBus
from bussrv.values import Traffic


def settle_left_open(bus: IBus, formats: Container[str]) -> None:
    """End the sessions whose clients cannot come back to them, and leave the durable ones.

    :param formats: the wire formats that are on. They have resumed their persistent sessions.
    """
    for session in tuple(bus.registry.state.sessions.values()):
        if not session.persistent:
            bus.close(session.id, "server-crashed", Traffic())
        elif session.protocol not in formats:
            bus.close(session.id, "format-off", Traffic())
        elif session.expiry is not UNSET and not session.is_away:
            bus.leave(session.id, "server-crashed", bus.utc() + session.expiry)
