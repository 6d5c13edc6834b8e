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
    """Tells the members of this server of each other and of the members of others, unless ``--announce`` forbids it.

    Linked servers are told by :mod:`bussrv.bus.links`.
    """

    def __init__(self, bus: IBus) -> None:
        self._bus = bus
        self._is_on = bus.settings.announce == "members"
        self._announced: dict[str, str] = {}

    def registry_changed(self, stamped: Stamped) -> None:
        """Announce a member that came or went; see :class:`IRegistryObserver`."""
        event = stamped.event
        if not self._is_on or event.session is None:
            return
        if isinstance(event, ev.SubscriptionAdded) and event.service is None:
            session = self._bus.registry.state.sessions.get(event.session)
            if session is not None:
                self._joined(session)
        elif isinstance(event, ev.SessionClosed):
            self._left(event.session)

    def _joined(self, session: ISession) -> None:
        if self._announced.get(session.id) not in (None, session.routing_id):
            self._left(session.id)
        self._announced[session.id] = session.routing_id
        about: dict[str, Any] = {"routing-id": session.routing_id, "routing-ids": list(session.routing_ids)}
        if session.role is not None:
            about["role"] = session.role
        for vocabulary, event_name in _JOINED.items():
            self._bus.announce({"event": event_name, **about}, vocabulary, session.id)

    def _left(self, session_id: str) -> None:
        routing_id = self._announced.pop(session_id, None)
        if routing_id is not None:
            for vocabulary in _JOINED:
                self._bus.announce({"event": "routing/disconnect", "routing-id": routing_id}, vocabulary, session_id)
