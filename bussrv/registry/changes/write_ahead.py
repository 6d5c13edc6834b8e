"""The write-ahead rule: a change is journaled, durable, applied, told to the observers, and then to its client.

A change that a client asks for is *pending* from the moment it is given to the journal until it is settled. Facts, such
as the loss of a session, hold at once and are journaled without waiting.

What is durable is decided in the journal: :mod:`bussrv.journal.writer` hands the records to a thread, in which
:mod:`bussrv.journal.batch` writes and syncs them. Then :meth:`WriteAhead.written` is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from bussrv import events as ev
from bussrv.errors import JournalUnavailable, Refused
from bussrv.journal.interfaces import IJournal
from bussrv.journal.record import Stamped
from bussrv.registry.changes.observers import Observers
from bussrv.registry.changes.planned import PlannedState
from bussrv.registry.journal_budget.deferred_openings import DeferredOpenings
from bussrv.registry.journal_budget.spending import Spending
from bussrv.registry.outcome import OnDone
from bussrv.registry.state.session import Session
from bussrv.registry.state.state import RegistryState
from bussrv.turns.clock import Clock

_SUPERSEDED: dict[type[ev.Event], tuple[tuple[type[ev.Event], ...], str]] = {
    ev.ServiceUnregistered: ((ev.ServiceRegistered, ev.ServiceUnregistered), "not-registered"),
    ev.SubscriptionRemoved: (
        (ev.SubscriptionAdded, ev.SubscriptionRenewed, ev.SubscriptionRemoved),
        "no-such-subscription",
    ),
}
"""The events that the loss of a service or a subscription supersedes, and the reason that their clients are told."""


class Lifetimes:
    """How long sessions have been open, by the monotonic clock, so that setting the wall clock does not change it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opened: dict[str, int] = {}

    def begin(self, session_id: str, mono: int) -> None:
        """Note, or correct, that a session was opened at ``mono``."""
        self._opened[session_id] = mono

    def end(self, session: Session) -> int:
        """Forget a session that is closed now.

        :returns: how long it was open. For a session of an earlier boot the wall clock decides; 0 if that went back
            beyond the opening.
        """
        opened = self._opened.pop(session.id, None)
        if opened is None:
            return max(0, self._clock.utc() - session.opened)
        return self._clock.mono() - opened


class Pending(Struct, eq=False):
    """A change on its way to the disk: the journal's :class:`bussrv.journal.interfaces.Waiter`.

    :ivar ahead: settles it.
    :ivar stamped: its events, each with its time, without those that a loss superseded.
    :ivar refusal: the refusal that its client gets if that were all of them; otherwise ``None``.
    :ivar is_begun: whether it is planned, so that it is settled as soon as the journal tells.
    :ivar told: what the journal told before: ``None`` in it if it is durable, otherwise why it is not.
    """

    ahead: WriteAhead
    session_id: str
    stamped: list[Stamped]
    on_done: OnDone
    refusal: Refused | None = None
    is_begun: bool = False
    told: tuple[JournalUnavailable | None] | None = None

    def callback(self, result: Any, /) -> None:
        """It is durable."""
        if self.is_begun:
            self.ahead.written(self)
        else:
            self.told = (None,)

    def errback(self, fail: JournalUnavailable, /) -> None:
        """It was not written."""
        if self.is_begun:
            self.ahead.not_written(self, fail)
        else:
            self.told = (fail,)

    def begin(self) -> None:
        """It is planned: settle it when the journal tells. That may be now: a journal in memory is fast."""
        self.is_begun = True
        if self.told is None:
            return
        (error,) = self.told
        if error is None:
            self.ahead.written(self)
        else:
            self.ahead.not_written(self, error)


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
        if unavailable is not None and session_id in openings.waiting:
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

    def lose(self, lost: ev.ServiceUnregistered | ev.SubscriptionRemoved) -> None:
        """A session has lost a service or a subscription. Pending events of the same one are superseded."""
        kinds, reason = _SUPERSEDED[type(lost)]
        for each in self._pending:
            if each.session_id != lost.session or not each.stamped:
                continue
            each.stamped = [
                s for s in each.stamped if not (isinstance(s.event, kinds) and s.event.service == lost.service)
            ]
            if not each.stamped:
                each.refusal = Refused(reason, f"{lost.service!r} ended while a change of it was being written")
        stamped = [self.stamp(lost)]
        self.apply_facts(stamped)
        self._observers.tell(stamped)
