"""A registry in full: every session, service and subscription, and the indexes over them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Protocol

from bussrv import events as ev
from bussrv.registry.state.event_fold import EventFold, is_own
from bussrv.registry.state.session import Session, Subscription
from bussrv.values import RESERVED_PREFIX, InEffect

_NONE: frozenset[str] = frozenset()


class Change(Protocol):
    """An event and when it happened, UTC microseconds: a :class:`bussrv.journal.record.Record`, for example."""

    @property
    def event(self) -> ev.Event:
        """The event."""

    @property
    def time(self) -> int:
        """The time."""


class RegistryState(EventFold):
    """Every session, service and subscription at one moment.

    No two sessions have the same routing id of their own, whatever the events say.

    :ivar sessions: by session id.
    :ivar own_services: how many services sessions of this server provide, once for each that provides it, without
        those of the server itself.
    :ivar service_changes: how often a session began or ceased to provide a service.
    :ivar services: by name, then by providing session, when it was registered (UTC microseconds); a name without
        providers has no entry.
    :ivar subscriptions: by session id, then by service name (``None`` for an interest in objects).
    :ivar in_effect: the policy and the limits; ``None``: they are not known.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.services: dict[str, dict[str, int]] = {}
        self.subscriptions: dict[str, dict[str | None, Subscription]] = {}
        self.own_services = self.service_changes = 0
        self.in_effect: InEffect | None = None
        self._provided: dict[str, set[str]] = {}
        self._by_routing_id: dict[str, str] = {}
        self._sharing: dict[str, set[str]] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RegistryState):
            return NotImplemented
        return (
            self.sessions == other.sessions
            and self.services == other.services
            and self.subscriptions == other.subscriptions
            and self.in_effect == other.in_effect
        )

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> RegistryState:
        """A state that changes independently of this one; the entries, being frozen, are shared."""
        twin = RegistryState()
        twin.sessions = dict(self.sessions)
        twin.services = {name: dict(providers) for name, providers in self.services.items()}
        twin.subscriptions = {session: dict(held) for session, held in self.subscriptions.items()}
        twin.own_services, twin.service_changes = self.own_services, self.service_changes
        twin.in_effect = self.in_effect
        twin._provided = {session: set(names) for session, names in self._provided.items()}
        twin._by_routing_id = dict(self._by_routing_id)
        twin._sharing = {routing_id: set(sessions) for routing_id, sessions in self._sharing.items()}
        return twin

    def session(self, session_id: str) -> Session | None:
        """See :class:`EventFold`."""
        return self.sessions.get(session_id)

    def provides(self, session_id: str, service: str) -> bool:
        """See :class:`EventFold`."""
        return service in self._provided.get(session_id, _NONE)

    def provided_by(self, session_id: str) -> Set[str]:
        """The names of the services that a session provides; do not keep the set: it may change."""
        return self._provided.get(session_id, _NONE)

    def owner(self, routing_id: str) -> str | None:
        """See :class:`EventFold`."""
        return self._by_routing_id.get(routing_id)

    def sharing(self, routing_id: str) -> Set[str]:
        """The ids of the sessions that have that as a further routing id; do not keep the set: it may change."""
        return self._sharing.get(routing_id, _NONE)

    def is_shared(self, routing_id: str, other_than: str | None = None) -> bool:
        """See :class:`EventFold`."""
        return any(each != other_than for each in self.sharing(routing_id))

    def sessions_at(self, routing_id: str) -> set[str]:
        """The ids of the sessions that objects sent to ``routing_id`` are for."""
        sessions = set(self.sharing(routing_id))
        owner = self._by_routing_id.get(routing_id)
        if owner is not None:
            sessions.add(owner)
        return sessions

    def subscription(self, session_id: str, service: str | None) -> Subscription | None:
        """See :class:`EventFold`."""
        return self.subscriptions.get(session_id, {}).get(service)

    def subscribed_by(self, session_id: str) -> set[str]:
        """The names of the services that a session is subscribed to."""
        return {service for service in self.subscriptions.get(session_id, ()) if service is not None}

    def all_subscriptions(self) -> Iterator[Subscription]:
        """Every subscription, grouped by session."""
        for held in self.subscriptions.values():
            yield from held.values()

    def restore(
        self, sessions: Iterable[Session], services: Mapping[str, Mapping[str, int]], wanted: Iterable[Subscription]
    ) -> None:
        """Take in what a snapshot holds; services and subscriptions of sessions that are not there are left out.

        :param services: by name and providing session, when each was registered.
        """
        for each in sessions:
            if each.id not in self.sessions and each.routing_id not in self._by_routing_id:
                self._put_session(each)
        for name, providers in services.items():
            for session_id, time in providers.items():
                session = self.sessions.get(session_id)
                if session is not None and not self.provides(session_id, name):
                    self._set_service(session, name, time)
        for subscription in wanted:
            if subscription.session in self.sessions:
                self._put_subscription(subscription)

    def _put_session(self, session: Session) -> None:
        before = self.sessions.get(session.id)
        if before is not None:
            self._forget_addresses(before)
        self.sessions[session.id] = session
        self._by_routing_id[session.routing_id] = session.id
        for routing_id in session.routing_ids:
            self._sharing.setdefault(routing_id, set()).add(session.id)

    def _forget_addresses(self, session: Session) -> None:
        self._by_routing_id.pop(session.routing_id, None)
        for routing_id in session.routing_ids:
            sharing = self._sharing.get(routing_id, set())
            sharing.discard(session.id)
            if not sharing:
                self._sharing.pop(routing_id, None)

    def _end_session(self, session: Session) -> None:
        del self.sessions[session.id]
        self._forget_addresses(session)
        self.subscriptions.pop(session.id, None)
        for name in self._provided.pop(session.id, ()):
            self.service_changes += 1
            self.own_services -= is_own(session, name)
            providers = self.services[name]
            del providers[session.id]
            if not providers:
                del self.services[name]

    def apply(self, event: ev.Event, time: int) -> None:
        """See :class:`EventFold`. Three parts of the server fold each change of a service, so these take few calls."""
        kind = type(event)
        if kind is not ev.ServiceRegistered and kind is not ev.ServiceUnregistered:
            if isinstance(event, (ev.ServerStarted, ev.ConfigReloaded)):
                self.in_effect = event.in_effect
            EventFold.apply(self, event, time)
            return
        session, service = self.sessions.get(event.session or ""), event.service
        if session is not None and service is not None:
            self._set_service(session, service, time if kind is ev.ServiceRegistered else None)

    def apply_all(self, changes: Iterable[Change]) -> None:
        """Apply events in a row."""
        apply = self.apply
        for each in changes:
            apply(each.event, each.time)

    def _set_service(self, session: Session, service: str, time: int | None) -> None:
        """See :class:`EventFold`. Nothing happens if the session provides the service already, or does not."""
        session_id = session.id
        names = self._provided.get(session_id)
        if time is None:
            if names is None or service not in names:
                return
            names.remove(service)
            if not names:
                del self._provided[session_id]
            providers = self.services[service]
            del providers[session_id]
            if not providers:
                del self.services[service]
        else:
            if names is None:
                self._provided[session_id] = {service}
            elif service in names:
                return
            else:
                names.add(service)
            if service in self.services:
                self.services[service][session_id] = time
            else:
                self.services[service] = {session_id: time}
        self.service_changes += 1
        if session.home is None and not service.startswith(RESERVED_PREFIX):
            self.own_services += 1 if time is not None else -1

    def _put_subscription(self, subscription: Subscription) -> None:
        self.subscriptions.setdefault(subscription.session, {})[subscription.service] = subscription

    def _remove_subscription(self, subscription: Subscription) -> None:
        held = self.subscriptions[subscription.session]
        del held[subscription.service]
        if not held:
            del self.subscriptions[subscription.session]
