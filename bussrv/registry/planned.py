"""The planned registry: the state with every change that is on its way to the disk.

A new change is checked against it, so no two pending changes contradict each other. It is not a copy of the registry:
it holds only the entries that pending changes are about, and reads everything else from the state. So neither a change
nor a failing disk costs more in a larger registry.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Generic, TypeVar

from msgspec import Struct

from bussrv.journal.record import Stamped
from bussrv.registry.event_fold import EventFold, is_own
from bussrv.registry.session import Session, Subscription
from bussrv.registry.state import RegistryState

Entry = TypeVar("Entry")


class _Entries(Struct, Generic[Entry], eq=False, gc=False):
    """Services or subscriptions of a session that has pending changes.

    :ivar count: how many it will have in all.
    :ivar changed: those that the changes are about, by service; ``None``: there will be none.
    """

    count: int
    changed: dict[str | None, Entry | None]


class Planned(EventFold):
    """The state after all pending changes.

    :meth:`plan` begins a pending change; :meth:`settle` or :meth:`discard` ends it, in the same order. A session
    without pending changes will be as it is in the state.

    :ivar state: changed by this class only.
    """

    def __init__(self, state: RegistryState) -> None:
        self.state = state
        self._pending: dict[str, int] = {}
        self._sessions: dict[str, Session | None] = {}
        self._services: dict[str, _Entries[int]] = {}
        self._subscriptions: dict[str, _Entries[Subscription]] = {}
        self._owners: dict[str, str] = {}
        self._sharing: dict[str, set[str]] = {}
        self._more_own_services = 0

    def plan(self, session_id: str, stamped: Sequence[Stamped]) -> None:
        """Add a change of a session that is on its way to the disk."""
        self._pending[session_id] = self._pending.get(session_id, 0) + 1
        for each in stamped:
            self.apply(each.event, each.time)

    def settle(self, session_id: str, stamped: Sequence[Stamped]) -> None:
        """Apply a planned change to the state: it is durable."""
        before = self.state.own_services
        for each in stamped:
            self.state.apply(each.event, each.time)
        self._more_own_services -= self.state.own_services - before
        self.discard(session_id)

    def discard(self, session_id: str) -> None:
        """Drop a planned change: it is durable, but a loss came first."""
        pending = self._pending[session_id]
        if pending > 1:
            self._pending[session_id] = pending - 1
            return
        del self._pending[session_id]
        self._services.pop(session_id, None)
        self._subscriptions.pop(session_id, None)
        if session_id in self._sessions:
            self._forget_addresses(self._sessions.pop(session_id))

    def discard_all(self) -> None:
        """Drop all planned changes: none of them will be written."""
        for entries in vars(self).values():
            if isinstance(entries, dict):
                entries.clear()
        self._more_own_services = 0

    def happened(self, stamped: Stamped) -> None:
        """Apply a fact, such as the end of a session, to the state at once."""
        if stamped.event.session not in self._pending:
            self.state.apply(stamped.event, stamped.time)
            return
        before = self.state.own_services
        self.apply(stamped.event, stamped.time)
        self.state.apply(stamped.event, stamped.time)
        self._more_own_services -= self.state.own_services - before

    def opened_at(self, session_id: str, time: int) -> None:
        """See :class:`EventFold`."""
        if session_id in self._pending:
            super().opened_at(session_id, time)
        self.state.opened_at(session_id, time)

    # The planned entries.

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

    def is_shared(self, routing_id: str, beside: str | None = None) -> bool:
        """See :class:`EventFold`."""
        if any(each != beside for each in self._sharing.get(routing_id, ())):
            return True
        return any(each != beside and each not in self._sessions for each in self.state.sharing(routing_id))

    def provides(self, session_id: str, service: str) -> bool:
        """See :class:`EventFold`."""
        services = self._services.get(session_id)
        if services is not None and service in services.changed:
            return services.changed[service] is not None
        return self.state.provides(session_id, service)

    def provided_by(self, session_id: str) -> Set[str]:
        """The names of the services that a session will provide; a view, not to be kept."""
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
        """The same of all sessions together, as :class:`RegistryState` counts them."""
        return self.state.own_services + self._more_own_services

    def subscription(self, session_id: str, service: str | None) -> Subscription | None:
        """See :class:`EventFold`."""
        subscriptions = self._subscriptions.get(session_id)
        if subscriptions is not None and service in subscriptions.changed:
            return subscriptions.changed[service]
        return self.state.subscription(session_id, service)

    def subscription_count(self, session_id: str) -> int:
        """How many subscriptions a session will have, its interest in objects included."""
        subscriptions = self._subscriptions.get(session_id)
        return len(self.state.subscriptions.get(session_id, ())) if subscriptions is None else subscriptions.count

    # The changes of events.

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

    def _held(self, session_id: str) -> _Entries[Subscription]:
        subscriptions = self._subscriptions.get(session_id)
        if subscriptions is None:
            count = len(self.state.subscriptions.get(session_id, ()))
            subscriptions = self._subscriptions[session_id] = _Entries(count, {})
        return subscriptions

    def _put_subscription(self, subscription: Subscription) -> None:
        held = self._held(subscription.session)
        held.count += self.subscription(subscription.session, subscription.service) is None
        held.changed[subscription.service] = subscription

    def _remove_subscription(self, subscription: Subscription) -> None:
        held = self._held(subscription.session)
        held.count -= 1
        held.changed[subscription.service] = None
