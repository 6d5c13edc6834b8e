"""The registry as a pure fold: a state, and what each event does to it. No Twisted, no clock, no input or output.

:meth:`RegistryState.apply` is total: an event that makes no sense here (it names a session that is not open) changes
nothing. Whether a change is *allowed* is asked of :mod:`bussrv.registry.rules` before the event is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from zope.interface import implementer

from bussrv import events as ev
from bussrv.interfaces import ISession
from bussrv.values import Interest

SERVER_ROLE = "server"
"""The role of a linked server."""


@implementer(ISession)
class Session(Struct, frozen=True, kw_only=True):
    """One client's presence. Times are UTC microseconds.

    :ivar home: the server it belongs to, when that is another one.
    """

    id: str
    protocol: str
    routing_id: str
    peer: str
    opened: int
    persistent: bool = False
    home: str | None = None
    routing_ids: tuple[str, ...] = ()
    actor: str | None = None
    name: str | None = None
    role: str | None = None
    vocabulary: str | None = None

    @property
    def is_link(self) -> bool:
        """Whether it is another server that this one is linked with."""
        return self.role == SERVER_ROLE and self.home is None

    def about(self) -> dict[str, Any]:
        """What every registry event about it says."""
        return {
            "protocol": self.protocol,
            "session": self.id,
            "routing_id": self.routing_id,
            "actor": self.actor,
            "peer": self.peer,
        }


_NONE: frozenset[str] = frozenset()


class Subscription(Struct, frozen=True, kw_only=True):
    """What a session wants: a ``service``, or what its ``interest`` lets pass. Times are UTC microseconds."""

    session: str
    service: str | None
    interest: Interest | None
    added: int
    renewed: int
    options: dict[str, Any] | None = None


class RegistryState:
    """Every session, service and subscription at one moment.

    No two sessions have the same routing id of their own, whatever the events say.

    :ivar sessions: by session id.
    :ivar services: by name, then by providing session, when it was registered (UTC microseconds); a name without
        providers has no entry.
    :ivar subscriptions: by session id, then by service name (``None`` for an interest in objects).
    """

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.services: dict[str, dict[str, int]] = {}
        self.subscriptions: dict[str, dict[str | None, Subscription]] = {}
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
        )

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> RegistryState:
        """A state that changes independently of this one; the entries, being frozen, are shared."""
        twin = RegistryState()
        twin.sessions = dict(self.sessions)
        twin.services = {name: dict(providers) for name, providers in self.services.items()}
        twin.subscriptions = {session: dict(held) for session, held in self.subscriptions.items()}
        twin._provided = {session: set(names) for session, names in self._provided.items()}
        twin._by_routing_id = dict(self._by_routing_id)
        twin._sharing = {routing_id: set(sessions) for routing_id, sessions in self._sharing.items()}
        return twin

    def provided_by(self, session_id: str) -> Set[str]:
        """The names of the services that a session provides; a view, not to be kept."""
        return self._provided.get(session_id, _NONE)

    def owner(self, routing_id: str) -> str | None:
        """The id of the session whose own routing id that is."""
        return self._by_routing_id.get(routing_id)

    def is_shared(self, routing_id: str, beside: str | None = None) -> bool:
        """Whether some session, beside the one of that id, has that as a further routing id."""
        return bool(self._sharing.get(routing_id, set()) - {beside})

    def sessions_at(self, routing_id: str) -> set[str]:
        """The ids of the sessions that objects sent to ``routing_id`` are for."""
        sessions = set(self._sharing.get(routing_id, ()))
        owner = self._by_routing_id.get(routing_id)
        if owner is not None:
            sessions.add(owner)
        return sessions

    def subscription(self, session_id: str, service: str | None) -> Subscription | None:
        """The subscription of a session to ``service``, or (``None``) its interest in objects."""
        return self.subscriptions.get(session_id, {}).get(service)

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
        for session in sessions:
            if session.id not in self.sessions and session.routing_id not in self._by_routing_id:
                self.sessions[session.id] = session
                self._take_addresses(session)
        for name, providers in services.items():
            for session_id, time in providers.items():
                self._provide(session_id, name, time)
        for subscription in wanted:
            if subscription.session in self.sessions:
                self.subscriptions.setdefault(subscription.session, {})[subscription.service] = subscription

    def opened_at(self, session_id: str, time: int) -> None:
        """A session that is there was opened at another ``time`` (UTC microseconds) than was said before."""
        self.sessions[session_id] = replace(self.sessions[session_id], opened=time)

    def apply(self, event: ev.Event, time: int) -> None:
        """Change this state as ``event``, which happened at ``time`` (UTC microseconds), says."""
        change = _CHANGES.get(type(event))
        if change is not None:
            change(self, event, time)

    def _session_opened(self, event: ev.SessionOpened, time: int) -> None:
        if event.session is None or event.routing_id is None:
            return
        if event.session in self.sessions or event.routing_id in self._by_routing_id:
            return
        self.sessions[event.session] = Session(
            id=event.session,
            protocol=event.protocol or "",
            routing_id=event.routing_id,
            peer=event.peer or "",
            opened=time,
            persistent=event.persistent,
            home=event.home,
        )
        self._by_routing_id[event.routing_id] = event.session

    def _session_identified(self, event: ev.SessionIdentified, time: int) -> None:
        session = self.sessions.get(event.session or "")
        if session is None:
            return
        routing_id = event.routing_id or session.routing_id
        is_taken = self._by_routing_id.get(routing_id, session.id) != session.id
        self._forget_addresses(session)
        self.sessions[session.id] = session = replace(
            session,
            routing_id=session.routing_id if is_taken else routing_id,
            routing_ids=event.routing_ids,
            actor=event.actor,
            name=event.name,
            role=event.role,
            vocabulary=event.vocabulary,
        )
        self._take_addresses(session)

    def _take_addresses(self, session: Session) -> None:
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

    def _session_closed(self, event: ev.SessionClosed, time: int) -> None:
        session = self.sessions.pop(event.session or "", None)
        if session is None:
            return
        self._forget_addresses(session)
        self.subscriptions.pop(session.id, None)
        for name in self._provided.pop(session.id, ()):
            self._drop_provider(name, session.id)

    def _service_registered(self, event: ev.ServiceRegistered, time: int) -> None:
        if event.service is not None:
            self._provide(event.session, event.service, time)

    def _provide(self, session_id: str | None, name: str, time: int) -> None:
        if session_id in self.sessions:
            self.services.setdefault(name, {}).setdefault(session_id, time)
            self._provided.setdefault(session_id, set()).add(name)

    def _service_unregistered(self, event: ev.ServiceUnregistered, time: int) -> None:
        names = self._provided.get(event.session or "")
        if names is not None and event.service in names:
            names.remove(event.service)
            if not names:
                del self._provided[event.session or ""]
            self._drop_provider(event.service, event.session or "")

    def _drop_provider(self, name: str, session_id: str) -> None:
        providers = self.services[name]
        del providers[session_id]
        if not providers:
            del self.services[name]

    def _subscription_added(self, event: ev.SubscriptionAdded, time: int) -> None:
        if event.session in self.sessions:
            self.subscriptions.setdefault(event.session, {})[event.service] = Subscription(
                session=event.session,
                service=event.service,
                interest=event.interest,
                added=time,
                renewed=time,
                options=event.options,
            )

    def _subscription_removed(self, event: ev.SubscriptionRemoved, time: int) -> None:
        held = self.subscriptions.get(event.session or "", {})
        if held.pop(event.service, None) is not None and not held:
            del self.subscriptions[event.session or ""]

    def _subscription_renewed(self, event: ev.SubscriptionRenewed, time: int) -> None:
        held = self.subscriptions.get(event.session or "", {})
        subscription = held.get(event.service)
        if subscription is not None:
            options = subscription.options if event.options is None else event.options
            held[event.service] = replace(subscription, renewed=time, options=options)


_CHANGES: dict[type[ev.Event], Callable[[RegistryState, Any, int], None]] = {
    ev.SessionOpened: RegistryState._session_opened,
    ev.SessionIdentified: RegistryState._session_identified,
    ev.SessionClosed: RegistryState._session_closed,
    ev.ServiceRegistered: RegistryState._service_registered,
    ev.ServiceUnregistered: RegistryState._service_unregistered,
    ev.SubscriptionAdded: RegistryState._subscription_added,
    ev.SubscriptionRemoved: RegistryState._subscription_removed,
    ev.SubscriptionRenewed: RegistryState._subscription_renewed,
}
