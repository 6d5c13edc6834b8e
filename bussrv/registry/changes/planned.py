"""The planned state: the registry as it will be when every pending change is durable.

A change is *pending* while it is on its way to the disk. The *state*, a
:class:`bussrv.registry.state.state.RegistryState`, does not have it yet. A new change is checked against the planned
state, so no two pending changes contradict each other.

The planned state is not a copy of the registry. It holds only the entries that pending changes are about, and reads
everything else from the state. So the cost of a change, or of a failing disk, does not depend on the size of the
registry.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Generic, TypeVar

from msgspec import Struct

from bussrv.journal.record import Stamped
from bussrv.registry.state.event_fold import EventFold, is_own
from bussrv.registry.state.session import Session, Subscription
from bussrv.registry.state.state import RegistryState

Entry = TypeVar("Entry")


class _Entries(Struct, Generic[Entry], eq=False, gc=False):
    """The services, or the subscriptions, of one session with pending changes.

    :ivar count: how many the session will have in all.
    :ivar changed: the entries that pending changes are about, by service (``None`` for the interest in objects). The
        value is ``None`` if the entry will be gone. Of a service it is the time of registering, UTC microseconds.
    """

    count: int
    changed: dict[str | None, Entry | None]


class PlannedState(EventFold):
    """The state after all pending changes.

    :meth:`plan` begins a pending change. :meth:`apply_durable` or :meth:`discard` ends it; changes end in the order in
    which they began. A *fact*, such as the end of a session, is applied at once: see :meth:`apply_fact`.

    :ivar state: the registry without pending changes. Only this class changes it.
    :ivar pending: how many pending changes each session has that has any.
    """

    def __init__(self, state: RegistryState) -> None:
        self.state = state
        # The next three have entries for the sessions in `pending` only.
        self.pending: dict[str, int] = {}
        self._sessions: dict[str, Session | None] = {}
        self._services: dict[str, _Entries[int]] = {}
        self._subscriptions: dict[str, _Entries[Subscription]] = {}
        # The sessions in `_sessions`, by their own routing id and by further ones.
        self._owners: dict[str, str] = {}
        self._sharing: dict[str, set[str]] = {}
        # By how much `own_services` will be larger than that of the state.
        self._more_own_services = 0

    def plan(self, session_id: str, stamped: Sequence[Stamped]) -> None:
        """A change of a session is on its way to the disk.

        :param stamped: its events, each with its time.
        """
        self.pending[session_id] = self.pending.get(session_id, 0) + 1
        for each in stamped:
            self.apply(each.event, each.time)

    def plan_service(self, session: Session, service: str, count: int, time: int | None) -> None:
        """A change of a session is on its way, and no other one of it: of one service that it provides, or does not.

        :param count: how many services it will provide.
        :param time: since when it will provide the service; ``None``: it will not provide it any more.
        """
        session_id, change = session.id, -1 if time is None else 1
        self.pending[session_id] = 1
        self._services[session_id] = _Entries(count, {service: time})
        self._more_own_services += change * is_own(session, service)

    def apply_durable(self, session_id: str, stamped: Sequence[Stamped]) -> None:
        """A pending change is durable: apply it to the state."""
        state = self.state
        before = state.own_services
        for each in stamped:
            state.apply(each.event, each.time)
        self._more_own_services -= state.own_services - before
        self.discard(session_id)

    def discard(self, session_id: str) -> None:
        """End a pending change without applying it, because a fact superseded it while it was written."""
        pending = self.pending.pop(session_id)
        if pending > 1:
            self.pending[session_id] = pending - 1
            return
        self._services.pop(session_id, None)
        self._subscriptions.pop(session_id, None)
        if session_id in self._sessions:
            self._forget_addresses(self._sessions.pop(session_id))

    def discard_all(self) -> None:
        """End all pending changes without applying them: none of them will be written."""
        for sessions in (self.pending, self._sessions, self._owners, self._sharing):
            sessions.clear()
        self._services.clear()
        self._subscriptions.clear()
        self._more_own_services = 0

    def apply_fact(self, stamped: Stamped) -> None:
        """Apply a fact to the state at once, before it is durable."""
        if stamped.event.session not in self.pending:
            self.state.apply(stamped.event, stamped.time)
            return
        before = self.state.own_services
        self.apply(stamped.event, stamped.time)
        self.state.apply(stamped.event, stamped.time)
        self._more_own_services -= self.state.own_services - before

    def opened_at(self, session_id: str, time: int) -> None:
        """See :class:`EventFold`."""
        if session_id in self.pending:
            super().opened_at(session_id, time)
        self.state.opened_at(session_id, time)

    # The planned state, read.

    def session(self, session_id: str) -> Session | None:
        """See :class:`EventFold`."""
        if session_id in self._sessions:
            return self._sessions[session_id]
        return self.state.sessions.get(session_id)

    def owner(self, routing_id: str) -> str | None:
        """See :class:`EventFold`."""
        owner = self._owners.get(routing_id)
        if owner is None:
            owner = self.state.owner(routing_id)
            if owner in self._sessions:
                return None
        return owner

    def is_shared(self, routing_id: str, other_than: str | None = None) -> bool:
        """See :class:`EventFold`."""
        if any(each != other_than for each in self._sharing.get(routing_id, ())):
            return True
        return any(each != other_than and each not in self._sessions for each in self.state.sharing(routing_id))

    def provides(self, session_id: str, service: str) -> bool:
        """See :class:`EventFold`."""
        services = self._services.get(session_id)
        if services is not None and service in services.changed:
            return services.changed[service] is not None
        return self.state.provides(session_id, service)

    def provided_by(self, session_id: str) -> Set[str]:
        """The names of the services that a session will provide. Do not keep the set: it may change."""
        services = self._services.get(session_id)
        if services is None:
            return self.state.provided_by(session_id)
        changed = services.changed
        names = {name for name in self.state.provided_by(session_id) if name not in changed}
        return names | {name for name, time in changed.items() if name is not None and time is not None}

    def service_count(self, session_id: str) -> int:
        """How many services a session will provide."""
        services = self._services.get(session_id)
        return len(self.state.provided_by(session_id)) if services is None else services.count

    @property
    def own_services(self) -> int:
        """How many services all sessions of this server will provide, as :class:`RegistryState` counts them."""
        return self.state.own_services + self._more_own_services

    def subscription(self, session_id: str, service: str | None) -> Subscription | None:
        """See :class:`EventFold`."""
        subscriptions = self._subscriptions.get(session_id)
        if subscriptions is not None and service in subscriptions.changed:
            return subscriptions.changed[service]
        return self.state.subscription(session_id, service)

    def subscribed_by(self, session_id: str) -> set[str]:
        """The names of the services that a session will be subscribed to."""
        subscriptions = self._subscriptions.get(session_id)
        if subscriptions is None:
            return self.state.subscribed_by(session_id)
        changed = subscriptions.changed
        names = {name for name in self.state.subscribed_by(session_id) if name not in changed}
        return names | {name for name, entry in changed.items() if name is not None and entry is not None}

    def subscription_count(self, session_id: str) -> int:
        """How many subscriptions a session will have, its interest in objects included."""
        subscriptions = self._subscriptions.get(session_id)
        return len(self.state.subscriptions.get(session_id, ())) if subscriptions is None else subscriptions.count

    # How events change it.

    def _put_session(self, session: Session) -> None:
        self._forget_addresses(self._sessions.get(session.id))
        self._sessions[session.id] = session
        self._owners[session.routing_id] = session.id
        for routing_id in session.routing_ids:
            self._sharing.setdefault(routing_id, set()).add(session.id)

    def _forget_addresses(self, session: Session | None) -> None:
        if session is None:
            return
        del self._owners[session.routing_id]
        for routing_id in {*session.routing_ids}:
            self._sharing[routing_id].remove(session.id)
            if not self._sharing[routing_id]:
                del self._sharing[routing_id]

    def _end_session(self, session: Session) -> None:
        self._forget_addresses(self._sessions.get(session.id))
        self._more_own_services -= sum(is_own(session, name) for name in self.provided_by(session.id))
        self._sessions[session.id] = None
        self._services[session.id], self._subscriptions[session.id] = _Entries(0, {}), _Entries(0, {})

    def _set_service(self, session: Session, service: str, time: int | None) -> None:
        services = self._services.get(session.id)
        if services is None:
            services = self._services[session.id] = _Entries(len(self.state.provided_by(session.id)), {})
        change = -1 if time is None else 1
        services.changed[service] = time
        services.count += change
        if is_own(session, service):
            self._more_own_services += change

    def _planned_subscriptions(self, session_id: str) -> _Entries[Subscription]:
        subscriptions = self._subscriptions.get(session_id)
        if subscriptions is None:
            count = len(self.state.subscriptions.get(session_id, ()))
            subscriptions = self._subscriptions[session_id] = _Entries(count, {})
        return subscriptions

    def _put_subscription(self, subscription: Subscription) -> None:
        held = self._planned_subscriptions(subscription.session)
        held.count += self.subscription(subscription.session, subscription.service) is None
        held.changed[subscription.service] = subscription

    def _remove_subscription(self, subscription: Subscription) -> None:
        held = self._planned_subscriptions(subscription.session)
        held.count -= 1
        held.changed[subscription.service] = None
