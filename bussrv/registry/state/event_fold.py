"""The fold: what each event changes in a registry. No Twisted, no clock, no input or output.

Whether a change is *allowed* is asked of :mod:`bussrv.registry.changes.rules` before its event is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.registry.state.session import Away, Session, Subscription
from bussrv.values import RESERVED_PREFIX


class EventFold(ABC):
    """The fold: how each event changes a registry, in whatever form that is kept.

    :meth:`apply` is total: an event about a session that is not open changes nothing.
    """

    @abstractmethod
    def session(self, session_id: str) -> Session | None:
        """The open session with that id."""

    @abstractmethod
    def owner(self, routing_id: str) -> str | None:
        """The id of the session whose own routing id that is."""

    @abstractmethod
    def is_shared(self, routing_id: str, other_than: str | None = None) -> bool:
        """Whether a session, other than the one with the id ``other_than``, has that as a further routing id."""

    @abstractmethod
    def provides(self, session_id: str, service: str) -> bool:
        """Whether a session provides a service."""

    @abstractmethod
    def subscription(self, session_id: str, service: str | None) -> Subscription | None:
        """The subscription of a session to ``service``, or (``None``) its interest in objects."""

    @abstractmethod
    def _put_session(self, session: Session) -> None:
        """Add a session, or replace the one with its id."""

    @abstractmethod
    def _end_session(self, session: Session) -> None:
        """Remove a session with its services and subscriptions."""

    @abstractmethod
    def _set_service(self, session: Session, service: str, time: int | None) -> None:
        """A session that does not provide a service does since ``time``, or (``None``) one that does no longer."""

    @abstractmethod
    def _put_subscription(self, subscription: Subscription) -> None:
        """Add a subscription of an open session, or replace the one to the same service."""

    @abstractmethod
    def _remove_subscription(self, subscription: Subscription) -> None:
        """Remove a subscription."""

    def apply(self, event: ev.Event, time: int) -> None:
        """Change the registry as ``event`` says, which happened at ``time`` (UTC microseconds)."""
        change = _CHANGES.get(type(event))
        if change is not None:
            change(self, event, time)

    def opened_at(self, session_id: str, time: int) -> None:
        """An open session was opened at another ``time`` (UTC microseconds) than was said before."""
        session = self.session(session_id)
        if session is not None:
            self._put_session(replace(session, opened=time))

    def _session_opened(self, event: ev.SessionOpened, time: int) -> None:
        if event.session is None or event.routing_id is None:
            return
        if self.session(event.session) is not None or self.owner(event.routing_id) is not None:
            return
        self._put_session(
            Session(
                id=event.session,
                protocol=event.protocol or "",
                routing_id=event.routing_id,
                peer=event.peer or "",
                opened=time,
                persistent=event.persistent,
                home=event.home,
                actor=event.actor,
                expiry=UNSET if event.expiry is None else event.expiry,
            )
        )

    def _session_left(self, event: ev.SessionLeft, time: int) -> None:
        session = self.session(event.session or "")
        if session is not None and session.is_durable:
            self._put_session(replace(session, away=Away(time, event.until)))

    def _session_resumed(self, event: ev.SessionResumed, time: int) -> None:
        session = self.session(event.session or "")
        if session is not None and session.is_durable:
            self._put_session(replace(session, away=UNSET, expiry=event.expiry, peer=event.peer or ""))

    def _session_identified(self, event: ev.SessionIdentified, time: int) -> None:
        session = self.session(event.session or "")
        if session is None:
            return
        routing_id = event.routing_id or session.routing_id
        is_taken = self.owner(routing_id) not in (None, session.id)
        self._put_session(
            replace(
                session,
                routing_id=session.routing_id if is_taken else routing_id,
                routing_ids=event.routing_ids,
                actor=session.actor if event.actor is None else event.actor,
                claimed=event.claimed,
                name=event.name,
                role=event.role,
                vocabulary=event.vocabulary,
            )
        )

    def _auth_succeeded(self, event: ev.AuthSucceeded, time: int) -> None:
        session = self.session(event.session or "")
        if session is not None and event.actor is not None:
            self._put_session(replace(session, actor=event.actor))

    def _session_closed(self, event: ev.SessionClosed, time: int) -> None:
        session = self.session(event.session or "")
        if session is not None:
            self._end_session(session)

    def _service_registered(self, event: ev.ServiceRegistered, time: int) -> None:
        self._change_service(event.session or "", event.service, time)

    def _service_unregistered(self, event: ev.ServiceUnregistered, time: int) -> None:
        self._change_service(event.session or "", event.service, None)

    def _change_service(self, session_id: str, service: str | None, time: int | None) -> None:
        """Set what a session provides, unless that is so already; see :meth:`_set_service`."""
        session = self.session(session_id)
        if session is not None and service is not None and self.provides(session.id, service) is (time is None):
            self._set_service(session, service, time)

    def _subscription_added(self, event: ev.SubscriptionAdded, time: int) -> None:
        session = self.session(event.session or "")
        if session is None:
            return
        self._put_subscription(
            Subscription(
                session=session.id,
                service=event.service,
                interest=event.interest,
                added=time,
                renewed=time,
                options=event.options,
            )
        )

    def _subscription_removed(self, event: ev.SubscriptionRemoved, time: int) -> None:
        held = self.subscription(event.session or "", event.service)
        if held is not None:
            self._remove_subscription(held)

    def _subscription_renewed(self, event: ev.SubscriptionRenewed, time: int) -> None:
        held = self.subscription(event.session or "", event.service)
        if held is not None:
            options = held.options if event.options is None else event.options
            self._put_subscription(replace(held, renewed=time, options=options))


_CHANGES: dict[type[ev.Event], Callable[[EventFold, Any, int], None]] = {
    ev.SessionOpened: EventFold._session_opened,
    ev.SessionLeft: EventFold._session_left,
    ev.SessionResumed: EventFold._session_resumed,
    ev.SessionIdentified: EventFold._session_identified,
    ev.AuthSucceeded: EventFold._auth_succeeded,
    ev.SessionClosed: EventFold._session_closed,
    ev.ServiceRegistered: EventFold._service_registered,
    ev.ServiceUnregistered: EventFold._service_unregistered,
    ev.SubscriptionAdded: EventFold._subscription_added,
    ev.SubscriptionRemoved: EventFold._subscription_removed,
    ev.SubscriptionRenewed: EventFold._subscription_renewed,
}

CHANGING = frozenset(_CHANGES)
"""The events that change sessions, services or subscriptions."""


def is_own(session: Session, service: str) -> bool:
    """Whether ``service``, provided by ``session``, is a service of a client of this server."""
    return session.home is None and not service.startswith(RESERVED_PREFIX)
