"""Announcements of members that join or leave the object network."""

from __future__ import annotations

from typing import Any, ClassVar

from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.interfaces import IBus
from bussrv.journal.record import Stamped
from bussrv.policy.permissions.permissions import Permissions
from bussrv.registry.changes.observers import Kinds
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.registry.state.session import ISession

_JOINED = {"objects": "routing/subscribe/notify", "rules": "routing/subscribe/notification"}
"""The event that announces a member, by the vocabulary of the one who is told. Business Object (seed 000) has none."""


@implementer(IRegistryObserver)
class MembershipAnnouncer:
    """Announces members of this server and of others to the members of this server, unless ``--announce`` forbids it.

    A member is told only of sessions, and of further routing ids, that it may know of.

    Linked servers get advertisements from :mod:`bussrv.bus.links.links`.
    """

    KINDS: ClassVar[Kinds] = frozenset({ev.SubscriptionAdded, ev.SessionClosed})

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

        def shown(permissions: Permissions) -> dict[str, Any] | None:
            if not permissions.sees_session(session.routing_id):
                return None
            further = [each for each in session.routing_ids if permissions.sees_session(each)]
            role = {} if session.role is None else {"role": session.role}
            return {"routing-id": session.routing_id, "routing-ids": further, **role}

        for vocabulary, event in _JOINED.items():
            self._bus.announce(event, shown, vocabulary, session.id)

    def _left(self, session_id: str) -> None:
        routing_id = self._announced.pop(session_id, None)
        if routing_id is not None:

            def shown(permissions: Permissions) -> dict[str, Any] | None:
                return {"routing-id": routing_id} if permissions.sees_session(routing_id) else None

            for vocabulary in _JOINED:
                self._bus.announce("routing/disconnect", shown, vocabulary, session_id)
