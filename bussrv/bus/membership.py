"""Announcing members: who joined the object network, and who left it."""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from bussrv import events as ev
from bussrv.interfaces import IBus, IRegistryObserver, ISession
from bussrv.journal.record import Stamped

_JOINED = {"objects": "routing/subscribe/notify", "rules": "routing/subscribe/notification"}
"""What a member is told of others with, by its vocabulary; Business Object (seed 000) has no such event."""


@implementer(IRegistryObserver)
class MembershipAnnouncer:
    """Tells members of each other, as ``--announce`` says: ``members``, ``servers`` or ``off``."""

    def __init__(self, bus: IBus) -> None:
        self._bus = bus
        self._members: set[str] = set()
        self._audience: str = bus.settings.announce

    def registry_changed(self, stamped: Stamped) -> None:
        """Announce a member that came or went; see :class:`IRegistryObserver`."""
        event = stamped.event
        if isinstance(event, ev.SubscriptionAdded) and event.interest is not None and event.session is not None:
            session = self._bus.registry.state.sessions.get(event.session)
            if session is not None:
                self._members.add(session.id)
                self._announce_joined(session)
        elif isinstance(event, ev.SessionClosed) and event.session in self._members:
            self._members.remove(event.session)
            for vocabulary in _JOINED:
                self._announce(
                    {"event": "routing/disconnect", "routing-id": event.routing_id}, vocabulary, event.session
                )

    def _announce_joined(self, session: ISession) -> None:
        about: dict[str, Any] = {"routing-id": session.routing_id, "routing-ids": list(session.routing_ids)}
        if session.role is not None:
            about["role"] = session.role
        for vocabulary, event_name in _JOINED.items():
            self._announce({"event": event_name, **about}, vocabulary, session.id)

    def _announce(self, fields: dict[str, Any], vocabulary: str, about: str) -> None:
        if self._audience == "off":
            return
        servers_only = self._audience == "servers"

        def accepts(session: ISession) -> bool:
            return session.id != about and (not servers_only or session.role == "server")

        self._bus.announce(fields, vocabulary, accepts)
