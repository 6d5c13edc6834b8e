"""Announcements of members that join or leave the object network."""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.interfaces import IBus
from bussrv.journal.record import Stamped
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.registry.session import ISession

_JOINED = {"objects": "routing/subscribe/notify", "rules": "routing/subscribe/notification"}
"""The event that announces a member, by the vocabulary of the one who is told. Business Object (seed 000) has none."""


@implementer(IRegistryObserver)
class MembershipAnnouncer:
    """Announces members of this server and of others to the members of this server, unless ``--announce`` forbids it.

    Linked servers get advertisements from :mod:`bussrv.bus.links`.
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
