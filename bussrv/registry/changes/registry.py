"""The registry: changes are checked, journaled, applied, answered, and told to the observers.

``state`` is what others see. Checks are made against :mod:`bussrv.registry.changes.planned`, which also knows the
changes that are on their way to the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from zope.interface import implementer

from bussrv import events as ev
from bussrv.errors import OverLimit, Refused
from bussrv.journal.interfaces import IJournal
from bussrv.registry.changes import rules
from bussrv.registry.changes.observers import Kinds, Observers
from bussrv.registry.changes.service_changes import ServiceChanges
from bussrv.registry.changes.write_ahead import Lifetimes, WriteAhead
from bussrv.registry.interfaces import IRegistry, IRegistryObserver
from bussrv.registry.journal_budget.deferred_openings import DeferredOpenings
from bussrv.registry.journal_budget.spending import Spending
from bussrv.registry.journal_budget.strangers import Strangers
from bussrv.registry.outcome import Change, OnDone, as_deferred
from bussrv.registry.state.session import SERVER_ROLE, Claims, Session
from bussrv.registry.state.state import RegistryState
from bussrv.service_patterns import is_pattern, is_shared
from bussrv.settings import Settings
from bussrv.turns.clock import Clock
from bussrv.values import Interest, Traffic, excerpt

MOST_TOGETHER = 200
"""The most services that are unregistered in one change: others wait while it is applied, and observers are told."""


@implementer(IRegistry)
class Registry:
    """Every session, service and subscription of one server.

    :param journal: where changes are written.
    :param clock: where times come from.
    :param new_id: makes an id that no other session of any server has.
    :param server_id: the routing id of this server, which no session may take.
    :param boot: the id of this boot; session ids begin with it.
    :param state: the registry that was recovered from the journal.
    :param settings: how many services and subscriptions a session may have.
    :ivar refusal_observers: each is called with every refusal, and how often it happened, also if it is not journaled.
    :ivar reserved: the names of services that only the server itself may provide.
    """

    def __init__(
        self,
        journal: IJournal,
        clock: Clock,
        new_id: Callable[[], str],
        *,
        server_id: str,
        boot: str,
        state: RegistryState | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.state = RegistryState() if state is None else state
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._server_id = server_id
        self._settings = Settings() if settings is None else settings
        self._boot = boot
        self._opened = 0
        self._observers = Observers(self._seconds)
        rate, total_rate = self._settings.stranger_rate, self._settings.stranger_total_rate
        self._strangers = Strangers(rate, total_rate, self._seconds)
        self.refusal_observers: list[Callable[[ev.Event, int], None]] = []
        self._deferred_openings = DeferredOpenings(self._seconds, rate, total_rate)
        self._held_ids = rules.HeldIds(self._settings, server_id, self._seconds)
        self._lifetimes = Lifetimes(clock)
        self.spending = Spending(self._settings, self._seconds)
        self._ahead = WriteAhead(
            self.state,
            journal,
            clock,
            deferred_openings=self._deferred_openings,
            lifetimes=self._lifetimes,
            observers=self._observers,
            spending=self.spending,
        )
        self._planned = self._ahead.planned
        self.reserved = rules.ReservedNames()
        self._service_changes = ServiceChanges(
            self.state,
            self._ahead,
            clock,
            spending=self.spending,
            settings=self._settings,
            reserved=self.reserved,
        )

    @property
    def changes(self) -> int:
        """How many changes observers were told of since the start."""
        return self._observers.changes

    def observe(self, observer: IRegistryObserver, kinds: Kinds | None = None) -> None:
        """Tell ``observer`` of every change from now on, or of those whose events are of these ``kinds``."""
        self._observers.add(observer, kinds)

    def note(self, event: ev.Event) -> None:
        """Journal an event. Only a successful authentication changes the registry."""
        self._ahead.journal_deferred_opening(event.session)
        stamped = self._ahead.stamp(event)
        if isinstance(event, ev.AuthSucceeded):
            self._ahead.apply_facts([stamped])
            self._observers.tell([stamped])
        else:
            self._journal.append_fact(stamped)

    def note_from_stranger(self, event: ev.Event, times: int = 1) -> None:
        """Journal a refusal, or a limit that a client reached, at a limited rate."""
        for each in self.refusal_observers:
            each(event, times)
        self.note_often(event, times)

    def note_often(self, event: ev.Event, times: int = 1) -> None:
        """Journal what others may cause often, at a limited rate."""
        if self._journal.unavailable is not None:
            self._strangers.leave_out(event, times)
        elif (suppressed := self._strangers.admit(event, times)) is not None:
            self.note(replace(event, suppressed=suppressed) if suppressed else event)

    # Facts: they hold at once, so nobody waits for them.

    def open_session(
        self,
        protocol: str,
        peer: str,
        persistent: bool = False,
        *,
        expiry: int | None = None,
        actor: str | None = None,
    ) -> Session:
        """Open a session for a client; see :class:`IRegistry`."""
        session_id, routing_id = self._next_session_id(), self._new_id()
        opened = ev.SessionOpened(
            protocol=protocol,
            session=session_id,
            routing_id=routing_id,
            actor=actor,
            peer=peer,
            persistent=persistent or expiry is not None,
            expiry=expiry,
        )
        written = self._deferred_openings.on_open(opened, self._journal.unavailable is None)
        stamped = self._ahead.stamp(written or opened)
        before = self._journal.bytes_accepted
        self._ahead.apply_facts([stamped], is_written=written is not None)
        self._lifetimes.begin(session_id, stamped.mono)
        session = self.state.sessions[session_id]
        self.spending.opened(session, self._journal.bytes_accepted - before)
        self._observers.tell([stamped])
        return session

    def open_remote(self, home: str, protocol: str, routing_id: str, peer: str) -> tuple[str, Deferred[None]]:
        """Open a session of the server ``home``, once that is durable.

        :param routing_id: its own; no other session has it, see :meth:`is_free`.
        :param peer: the address of the server that advertised it.
        :returns: its id on this server, which may be used at once, and a Deferred that fires when it is open.
        """
        session_id = self._next_session_id()
        opened = ev.SessionOpened(protocol=protocol, session=session_id, routing_id=routing_id, peer=peer, home=home)
        return session_id, as_deferred(partial(self._ahead.change, session_id, [opened]))

    def _next_session_id(self) -> str:
        self._opened += 1
        return f"{self._boot}.{self._opened}"

    def is_free(self, routing_id: str) -> bool:
        """Whether no session has that routing id of its own, sessions on their way to the disk included."""
        return routing_id != self._server_id and self._planned.owner(routing_id) is None

    def close_session(self, session_id: str, reason: str, traffic: Traffic) -> None:
        """End a session with its services and subscriptions. Does nothing if it is closed already."""
        session = self.state.sessions.get(session_id)
        if session is None:
            return
        about, expected = session.about(), self._planned.session(session_id) or session
        known, planned = (frozenset(each.provided_by(session_id)) for each in (self.state, self._planned))
        ended = {
            name: self._ahead.stamp(ev.ServiceUnregistered(service=name, reason=reason, **about))
            for name in sorted(known | planned)
        }
        link_down = [self._ahead.stamp(ev.LinkDown(reason=reason, **expected.about()))] if expected.is_link else []
        closed = self._ahead.stamp(
            ev.SessionClosed(
                reason=reason,
                duration=self._lifetimes.end(session),
                objects_in=traffic.objects_in,
                objects_out=traffic.objects_out,
                bytes_in=traffic.bytes_in,
                bytes_out=traffic.bytes_out,
                **about,
            )
        )
        # A service that is being unregistered has a record on its way. Observers were never told of a service that
        # is being registered, nor of a link that is coming up.
        facts = [*(ended[name] for name in ended if name in planned), *link_down, closed]
        self._ahead.apply_facts(facts, is_written=not self._deferred_openings.on_close(session_id))
        self.spending.closed(session_id)
        told_down = link_down if session.is_link else ()
        self._held_ids.ended(session)
        self._observers.tell([*(ended[name] for name in ended if name in known), *told_down, closed])

    def leave_session(self, session_id: str, reason: str, until: int) -> None:
        """A durable session has lost its connection; see :class:`IRegistry`."""
        session = self.state.sessions.get(session_id)
        if session is None:
            return
        for name in sorted(self._planned.provided_by(session_id) | self.state.provided_by(session_id)):
            self._ahead.lose(ev.ServiceUnregistered(service=name, reason=reason, **session.about()))
        self._state_fact(ev.SessionLeft(reason=reason, until=until, **session.about()))

    def resume_session(self, session_id: str, peer: str, expiry: int) -> None:
        """The client of a durable session is back; see :class:`IRegistry`."""
        session = self.state.sessions.get(session_id)
        if session is not None:
            self._state_fact(ev.SessionResumed(expiry=expiry, **{**session.about(), "peer": peer}), costs=True)

    def _state_fact(self, event: ev.SessionLeft | ev.SessionResumed, *, costs: bool = False) -> None:
        """:param costs: whether its session is charged for it, and in advance for its next one."""
        session_id = event.session or ""
        self._ahead.journal_deferred_opening(session_id)
        stamped, before = self._ahead.stamp(event), self._journal.bytes_accepted
        self._ahead.apply_facts([stamped])
        if costs:
            self.spending.charge(self.state.sessions[session_id], self._journal.bytes_accepted - before)
        self._observers.tell([stamped])

    def lose_service(self, session_id: str, service: str, reason: str) -> None:
        """End a service of a session at once."""
        session = self.state.sessions.get(session_id)
        if session is not None and session_id in self.state.services.get(service, ()):
            self._ahead.lose(ev.ServiceUnregistered(service=service, reason=reason, **session.about()))

    def lose_subscription(self, session_id: str, service: str, reason: str) -> None:
        """End a subscription at once."""
        session = self.state.sessions.get(session_id)
        if session is not None and self.state.subscription(session_id, service) is not None:
            self._ahead.lose(ev.SubscriptionRemoved(service=service, reason=reason, **session.about()))

    # Changes that clients ask for.

    def identify(
        self,
        claims: Claims,
        interest: Interest | None,
        may_share: Callable[[str], bool] = lambda _: True,
        services: Iterable[str] | None = None,
        check_service: Callable[[str], object] = lambda _: None,
    ) -> Deferred[Session]:
        """Replace the claims and the interest of a session; see :class:`IRegistry`."""
        change = partial(self._identify, claims, interest, may_share, services, check_service)
        changed = as_deferred(partial(self._begin, claims.session_id, change))
        return changed.addCallback(lambda _: rules.open_session(self.state, claims.session_id))

    def introduce(self, claims: Claims) -> Deferred[None]:
        """Replace the claims of a session that is no member; see :class:`IRegistry`."""
        return as_deferred(partial(self._begin, claims.session_id, partial(self._introduce, claims)))

    def _introduce(self, claims: Claims, on_done: OnDone) -> None:
        try:
            about = rules.open_session(self._planned, claims.session_id).about()
        except Refused as refusal:
            on_done(refusal)
            return
        about["claimed"] = claims.claimed
        self._ahead.change(claims.session_id, [ev.SessionIdentified(name=claims.name, **about)], on_done)

    def _identify(
        self,
        claims: Claims,
        interest: Interest | None,
        may_share: Callable[[str], bool],
        services: Iterable[str] | None,
        check_service: Callable[[str], object],
        on_done: OnDone,
    ) -> None:
        planned, is_kept = self._planned, self._held_ids.is_kept_from
        try:
            session = rules.open_session(planned, claims.session_id)
            wanted = None if services is None else self._wanted(session.id, services, check_service)
            routing_id = rules.grant_routing_id(planned, session, claims.routing_id, is_kept, claims.role)
            if claims.role == SERVER_ROLE and routing_id != claims.routing_id:
                raise Refused("duplicate-link", f"there is a server {claims.routing_id} already")
        except Refused as refusal:
            on_done(refusal)
            return
        self._held_ids.granted(session, claims.routing_id, routing_id)
        about = {**session.about(), "routing_id": routing_id, "claimed": claims.claimed}
        changes: list[ev.Event] = [
            ev.SessionIdentified(
                routing_ids=rules.grant_routing_ids(planned, session, claims.routing_ids, is_kept, may_share),
                name=claims.name,
                role=claims.role,
                vocabulary=claims.vocabulary,
                **about,
            )
        ]
        if planned.subscription(session.id, None) is not None:
            changes.append(ev.SubscriptionRemoved(reason="replaced", **about))
        changes.append(ev.SubscriptionAdded(interest=interest, **about))
        if wanted is not None:
            held = planned.subscribed_by(session.id)
            changes += [ev.SubscriptionRemoved(service=each, **about) for each in sorted(held.difference(wanted))]
            new = [each for each in wanted if each not in held]
            changes += [ev.SubscriptionAdded(service=each, pattern=is_pattern(each), **about) for each in new]
        if claims.role == SERVER_ROLE and session.home is None and not session.is_link:
            changes.append(ev.LinkUp(**about))
        self._ahead.change(session.id, changes, on_done)

    def _wanted(self, session_id: str, services: Iterable[str], check: Callable[[str], object]) -> list[str]:
        """The services that a session is to be subscribed to, each once.

        :raises Refused: it may not be subscribed to one of them.
        """
        wanted = list(dict.fromkeys(services))
        known = self.state.subscriptions.get(session_id, {}), self.state.services
        for count, service in enumerate(wanted):
            try:
                rules.may_be_named(service, *known, or_pattern=True)
                self._may_have_subscriptions(count)
            except Refused as refusal:
                self._note_refusal(ev.SubscriptionRefused, session_id, service, refusal.reason)
                raise
            check(service)
        return wanted

    def _may_have_subscriptions(self, count: int) -> None:
        """Check that a session that is subscribed to ``count`` services may be to one more."""
        most = self._settings.max_subscriptions
        rules.may_have_more(count, most, "too-many-subscriptions", "subscriptions", "max-subscriptions")

    def register_service(self, session_id: str, service: str, *, hosted: bool = False) -> Deferred[None]:
        """Register a service of a session; see :class:`IRegistry`."""
        return as_deferred(partial(self.ask_to_register, session_id, service, hosted=hosted))

    def ask_to_register(self, session_id: str, service: str, on_done: OnDone, *, hosted: bool = False) -> None:
        """Do the same, without a Deferred."""
        if not self._service_changes.register(session_id, service, on_done):
            self._begin(session_id, partial(self._register, session_id, service, hosted), on_done)

    def _register(self, session_id: str, service: Any, hosted: bool, on_done: OnDone) -> None:
        try:
            planned = self._planned
            session = rules.open_session(planned, session_id)
            is_new = not isinstance(service, str) or not planned.provides(session_id, service)
            if is_new:
                rules.may_register(service, () if hosted else self.reserved)
            if is_new and session.home is None:
                count, most = planned.service_count(session_id), self._settings.max_services
                rules.may_have_more(count, most, "too-many-services", "services", "max-services")
                if not hosted:
                    rules.may_be_more_services(planned.own_services, self._settings.max_services_total)
        except Refused as refusal:
            self._refuse(ev.ServiceRefused, session_id, service, refusal, on_done)
            return
        if is_new:
            self._ahead.change(session_id, [ev.ServiceRegistered(service=service, **session.about())], on_done)
        elif self.state.provides(session_id, service):
            on_done(None)
        else:
            # The registration is on its way: this one has no event, but is answered only when that one is durable.
            self._ahead.change(session_id, [], partial(self._done_if_provided, session_id, service, on_done))

    def _done_if_provided(self, session_id: str, service: str, on_done: OnDone, error: Exception | None) -> None:
        try:
            if error is None:
                rules.may_unregister(self.state, session_id, service)
        except Refused as refusal:
            error = refusal
        on_done(error)

    def unregister_service(self, session_id: str, service: str) -> Deferred[None]:
        """Unregister a service of a session."""
        return as_deferred(partial(self.ask_to_unregister, session_id, service))

    def ask_to_unregister(self, session_id: str, service: str, on_done: OnDone) -> None:
        """Do the same, without a Deferred."""
        if not self._service_changes.unregister(session_id, service, on_done):
            self._begin(session_id, partial(self._unregister, session_id, service), on_done, is_prepaid=True)

    def _unregister(self, session_id: str, service: Any, on_done: OnDone) -> None:
        try:
            planned = self._planned
            session = rules.open_session(planned, session_id)
            rules.may_be_named(service, self.state.services)
            rules.may_unregister(planned, session_id, service)
        except Refused as refusal:
            self._refuse(ev.ServiceRefused, session_id, service, refusal, on_done)
            return
        self._ahead.change(session_id, [ev.ServiceUnregistered(service=service, **session.about())], on_done)

    def change_remote_services(self, session_id: str, came: Iterable[str], gone: Iterable[str]) -> Deferred[None]:
        """Register and unregister services of a session of another server in one change: all, or none.

        :param came: names that a service may have.
        :param gone: services that the session provides, or will once pending changes are durable.
        :returns: fires when it is durable; fails with :class:`bussrv.errors.Refused` if one of them may not be changed.
        """
        return as_deferred(partial(self._change_remote_services, session_id, sorted(came), sorted(gone)))

    def _change_remote_services(self, session_id: str, came: list[str], gone: list[str], on_done: OnDone) -> None:
        name = ""
        try:
            about = rules.open_session(self._planned, session_id).about()
            for name in came:
                rules.may_register(name, self.reserved)
            for name in gone:
                rules.may_unregister(self._planned, session_id, name)
        except Refused as refusal:
            self._refuse(ev.ServiceRefused, session_id, name, refusal, on_done)
            return
        changes: list[ev.Event] = [ev.ServiceRegistered(service=name, **about) for name in came]
        changes += [ev.ServiceUnregistered(service=name, **about) for name in gone]
        self._ahead.change(session_id, changes, on_done)

    def ask_to_unregister_all(self, session_id: str, on_done: OnDone) -> None:
        """Unregister all services of a session.

        Many are unregistered in several changes, one after the other: one that the disk refuses ends that.
        """
        self._begin(session_id, partial(self._unregister_all, session_id), on_done, is_prepaid=True)

    def _unregister_all(self, session_id: str, on_done: OnDone) -> None:
        outcomes: list[Exception | None] = []

        def go_on(outcome: Exception | None) -> None:
            outcomes.append(outcome)
            # If the journal answers at once, this is called by the loop. Deeper and deeper calls would be too many.
            while len(outcomes) == 1:
                if outcomes[0] is None:
                    self._unregister_some(session_id, go_on, on_done)
                else:
                    on_done(outcomes[0])
                del outcomes[0]

        go_on(None)

    def _unregister_some(self, session_id: str, go_on: OnDone, on_done: OnDone) -> None:
        try:
            about = rules.open_session(self._planned, session_id).about()
            names = sorted(islice(self._planned.provided_by(session_id), MOST_TOGETHER))
            events = [ev.ServiceUnregistered(service=name, **about) for name in names]
            self._ahead.change(session_id, events, go_on if len(names) == MOST_TOGETHER else on_done)
        except Exception as error:
            on_done(error)

    def subscribe(
        self, session_id: str, service: str, options: dict[str, Any] | None = None, *, or_pattern: bool = False
    ) -> Deferred[None]:
        """Subscribe a session to a service, or renew its subscription; see :class:`IRegistry`."""
        change = partial(self._subscribe, session_id, service, options, or_pattern)
        is_prepaid = rules.renews_lease(self.state, session_id, service)
        return as_deferred(partial(self._begin, session_id, change, is_prepaid=is_prepaid))

    def _subscribe(
        self, session_id: str, service: Any, options: dict[str, Any] | None, or_pattern: bool, on_done: OnDone
    ) -> None:
        try:
            planned = self._planned
            session = rules.open_session(planned, session_id)
            known = self.state.subscriptions.get(session_id, {}), self.state.services
            rules.may_be_named(service, *known, or_pattern=or_pattern)
            is_new = planned.subscription(session_id, service) is None
            if is_new:
                self._may_have_subscriptions(planned.subscription_count(session_id))
        except Refused as refusal:
            self._refuse(ev.SubscriptionRefused, session_id, service, refusal, on_done)
            return
        event: ev.Event = ev.SubscriptionRenewed(service=service, options=options, **session.about())
        if is_new:
            is_wide = or_pattern and (is_pattern(service) or is_shared(service))
            event = ev.SubscriptionAdded(service=service, options=options, pattern=is_wide, **session.about())
        self._ahead.change(session_id, [event], on_done)

    def unsubscribe(self, session_id: str, service: str) -> Deferred[None]:
        """End the subscription of a session to a service."""
        change = partial(self._unsubscribe, session_id, service)
        return as_deferred(partial(self._begin, session_id, change, is_prepaid=True))

    def _unsubscribe(self, session_id: str, service: Any, on_done: OnDone) -> None:
        try:
            planned = self._planned
            session = rules.open_session(planned, session_id)
            rules.may_be_named(service, self.state.subscriptions.get(session_id, {}))
            rules.may_unsubscribe(planned, session_id, service)
        except Refused as refusal:
            self._refuse(ev.SubscriptionRefused, session_id, service, refusal, on_done)
            return
        self._ahead.change(session_id, [ev.SubscriptionRemoved(service=service, **session.about())], on_done)

    def _begin(self, session_id: str, change: Change, on_done: OnDone, *, is_prepaid: bool = False) -> None:
        self.spending.begin(self.state.sessions.get(session_id), change, on_done, is_prepaid=is_prepaid)

    def refuse_subscription(self, session_id: str, service: str, reason: str) -> None:
        """Record that a wire format refused a subscription."""
        self._note_refusal(ev.SubscriptionRefused, session_id, service, reason)

    # Refusals.

    def _refuse(
        self,
        kind: type[ev.ServiceRefused | ev.SubscriptionRefused],
        session_id: str,
        service: Any,
        refusal: Refused,
        on_done: OnDone,
    ) -> None:
        self._note_refusal(kind, session_id, service, refusal.reason)
        if isinstance(refusal, OverLimit):
            self.note_from_stranger(ev.limit_reached(refusal, **self.state.sessions[session_id].about()))
        on_done(refusal)

    def _note_refusal(
        self, kind: type[ev.ServiceRefused | ev.SubscriptionRefused], session_id: str, service: Any, reason: str
    ) -> None:
        session = self.state.sessions.get(session_id)
        if session is not None:
            self.note_from_stranger(kind(service=excerpt(service), reason=reason, **session.about()))

    def _seconds(self) -> float:
        return self._clock.mono() / 1_000_000
