"""The write-ahead rule: a change is journaled, durable, applied, told to the observers, and then to its client.

A change that a client asks for is *pending* from the moment it is given to the journal until it is settled. Facts, such
as the loss of a session, hold at once and are journaled without waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

from bussrv import events as ev
from bussrv.errors import JournalUnavailable, Refused
from bussrv.journal.interfaces import IJournal
from bussrv.journal.record import Stamped
from bussrv.registry.changes.lifetimes import Lifetimes
from bussrv.registry.changes.observers import Observers
from bussrv.registry.changes.pending import Pending, supersede_service, supersede_subscription
from bussrv.registry.changes.planned import PlannedState
from bussrv.registry.limits.deferred_openings import DeferredOpenings
from bussrv.registry.limits.spending import Spending
from bussrv.registry.outcome import OnDone
from bussrv.registry.state.session import Session
from bussrv.registry.state.state import RegistryState
from bussrv.turns.clock import Clock


class WriteAhead:
    """Writes changes of one registry, and settles them.

    :ivar planned: the registry as it will be when all pending changes are durable.
    """

    def __init__(
        self,
        state: RegistryState,
        journal: IJournal,
        clock: Clock,
        *,
        deferred_openings: DeferredOpenings,
        lifetimes: Lifetimes,
        observers: Observers,
        spending: Spending,
    ) -> None:
        self.planned = PlannedState(state)
        self._state = state
        self._journal = journal
        self._clock = clock
        self._deferred_openings = deferred_openings
        self._lifetimes = lifetimes
        self._observers = observers
        self._spending = spending
        self._pending: dict[Pending, None] = {}

    def stamp(self, event: ev.Event) -> Stamped:
        """An event that happens now."""
        return Stamped(self._clock.utc(), self._clock.mono(), event)

    def change(self, session_id: str, changes: Sequence[ev.Event], on_done: OnDone) -> None:
        """Make changes of a session, all or none, when they are durable.

        :param changes: none: only wait until earlier changes are durable.
        :raises ValueError, TypeError: if one of them cannot be journaled. Nothing is changed then, and nobody is told.
        """
        journal, openings = self._journal, self._deferred_openings
        unavailable = journal.unavailable
        if unavailable is not None and openings.is_waiting(session_id):
            # It is not even tried: the opening and the end of each such session would wait for the disk.
            journal.refuse()
            on_done(unavailable)
            return
        if changes:
            self.journal_deferred_opening(session_id)
        pending = Pending(self, session_id, [self.stamp(event) for event in changes], on_done)
        before = journal.bytes_accepted
        journal.append_change(pending.stamped, pending)
        self._spending.changed(self._state.sessions.get(session_id), changes, journal.bytes_accepted - before)
        self.planned.plan(session_id, pending.stamped)
        self._pending[pending] = None
        pending.begin()

    def is_simple(self, session_id: str) -> bool:
        """Whether nothing of a session is pending or deferred, and the disk works: see :meth:`change_service`."""
        is_pending = session_id in self.planned.pending or session_id in self._deferred_openings.waiting
        return not is_pending and self._journal.unavailable is None

    def change_service(
        self,
        session: Session,
        kind: type[ev.ServiceRegistered | ev.ServiceUnregistered],
        service: str,
        count: int,
        mono: int,
        on_done: OnDone,
    ) -> None:
        """Do as :meth:`change` does, if :meth:`is_simple` says so, and the event changes what the session provides.

        :param kind: of the event.
        :param count: how many services the session will provide.
        :param mono: when it happens, in monotonic microseconds.
        """
        # The fields are those of Session.about(): a dict for each change would be felt.
        event = kind(
            protocol=session.protocol,
            session=session.id,
            routing_id=session.routing_id,
            actor=session.actor,
            claimed=session.claimed,
            peer=session.peer,
            service=service,
        )
        journal, time = self._journal, self._clock.utc()
        stamped = [Stamped(time, mono, event)]
        pending = Pending(self, session.id, stamped, on_done)
        before = journal.bytes_accepted
        journal.append_change(stamped, pending)
        if kind is ev.ServiceRegistered:
            self._spending.charge(session, journal.bytes_accepted - before, mono / 1_000_000)
            self.planned.plan_service(session, service, count, time)
        else:
            self.planned.plan_service(session, service, count, None)
        self._pending[pending] = None
        if pending.told is None:
            pending.is_begun = True
        else:
            pending.begin()

    def written(self, pending: Pending) -> None:
        """Apply a change that is durable, unless something else happened meanwhile."""
        del self._pending[pending]
        session_id, stamped, refusal = pending.session_id, pending.stamped, pending.refusal
        if session_id not in self._state.sessions:
            if stamped and isinstance(stamped[0].event, ev.SessionOpened):
                self._lifetimes.begin(session_id, stamped[0].mono)
            else:
                refusal = Refused("session-closed", "the session closed while its change was being written")
        if refusal is None:
            self.planned.apply_durable(session_id, stamped)
            self._observers.tell(stamped)
        else:
            self.planned.discard(session_id)
        pending.on_done(refusal)

    def not_written(self, pending: Pending, error: JournalUnavailable) -> None:
        """Drop all pending changes: they were checked against this one, so they will not be written either."""
        if pending in self._pending:
            self._pending.clear()
            self.planned.discard_all()
        pending.on_done(error)

    def journal_deferred_opening(self, session_id: str | None) -> None:
        """Journal the deferred opening of a session, before anything else of the session."""
        opened = self._deferred_openings.on_first_event(session_id)
        if opened is not None:
            stamped = self.stamp(opened)
            before = self._journal.bytes_accepted
            self._journal.append_fact(stamped)
            self._spending.opened(self._state.sessions[session_id or ""], self._journal.bytes_accepted - before)
            self._lifetimes.begin(session_id or "", stamped.mono)
            self.planned.opened_at(session_id or "", stamped.time)

    def apply_facts(self, stamped: Sequence[Stamped], *, is_written: bool = True) -> None:
        """Apply facts, and journal them."""
        for each in stamped:
            if is_written:
                self._journal.append_fact(each)
            self.planned.apply_fact(each)

    def supersede_service(self, session_id: str, service: str) -> None:
        """Supersede the pending changes of a service that a session lost."""
        supersede_service(self._pending, session_id, service)

    def supersede_subscription(self, session_id: str, service: str) -> None:
        """Supersede the pending changes of a subscription that a session lost."""
        supersede_subscription(self._pending, session_id, service)
