"""The registry: checks what is asked for, writes it down, applies it, answers, and tells the observers.

Two states are kept. ``state`` is what others see: everything in it is durable. ``_planned`` also holds what is on its
way to the disk; checks are made against it, so that two pending changes can never contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv import events as ev
from bussrv.addresses import host_of
from bussrv.clock import Clock
from bussrv.errors import OverLimit, Refused
from bussrv.interfaces import IJournal, IRegistry, IRegistryObserver
from bussrv.journal.record import Record, Stamped
from bussrv.registry import rules
from bussrv.registry.newcomers import Newcomers
from bussrv.registry.observers import Observers
from bussrv.registry.state import SERVER_ROLE, RegistryState, Session
from bussrv.registry.throttle import STRANGER_BURST, STRANGER_RATE, Throttle
from bussrv.settings import Settings
from bussrv.values import Interest, Traffic, check_service_name, excerpt

SERVICE_CHANGES = (ev.ServiceRegistered, ev.ServiceUnregistered)
SUBSCRIPTION_CHANGES = (ev.SubscriptionAdded, ev.SubscriptionRenewed, ev.SubscriptionRemoved)


class Identity(Struct, frozen=True, kw_only=True):
    """Who a session says it is. ``routing_id`` is the one it asks for, ``routing_ids`` the further ones."""

    session_id: str
    routing_id: str | None = None
    routing_ids: tuple[str, ...] = ()
    actor: str | None = None
    name: str | None = None
    role: str | None = None
    vocabulary: str | None = None


class _Pending(Struct, eq=False):
    """A change on its way to the disk.

    :ivar overtaken: what happened meanwhile, so that the change does nothing any more when it gets there.
    """

    session_id: str
    stamped: list[Stamped]
    overtaken: Refused | None = None


@implementer(IRegistry)
class Registry:
    """Every session, service and subscription of one server.

    :param journal: where changes are written.
    :param clock: where times come from.
    :param new_id: makes an id that no other session, of whichever server, has.
    :param server_id: the routing id of this server, which no session may take.
    :param boot: the id of this run; session ids begin with it.
    :param state: what was replayed from the journal.
    :param settings: how many services and subscriptions a session may have.
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
        self._planned: RegistryState | None = None
        self._pending: list[_Pending] = []
        self._observers = Observers()
        self._throttle = Throttle(STRANGER_RATE, STRANGER_BURST, self._seconds)
        self._newcomers = Newcomers(self._seconds)

    def observe(self, observer: IRegistryObserver) -> None:
        """Tell ``observer`` of every change from now on."""
        self._observers.add(observer)

    def note(self, event: ev.Event) -> None:
        """Write down an event that changes nothing in the registry."""
        self._introduce(event.session)
        self._journal.note(self._stamp(event))

    def note_from_stranger(self, event: ev.Event) -> None:
        """Write down what a client caused by being refused or hitting a limit, at a limited rate per address."""
        suppressed = self._throttle.admit((event.peer and host_of(event.peer), type(event)))
        if suppressed is not None:
            self.note(replace(event, suppressed=suppressed) if suppressed else event)

    # Sessions come and go at once: nobody asked, so nobody waits.

    def open_session(self, protocol: str, peer: str, persistent: bool = False) -> Session:
        """A client is present from now on."""
        session_id, routing_id = self._next_session_id(), self._new_id()
        opened = ev.SessionOpened(
            protocol=protocol, session=session_id, routing_id=routing_id, peer=peer, persistent=persistent
        )
        written = self._newcomers.arrived(opened)
        stamped = self._stamp(written or opened)
        self._happened([stamped], is_written=written is not None)
        session = self.state.sessions[session_id]
        self._observers.tell([stamped])
        return session

    def open_far(self, home: str, protocol: str, routing_id: str, peer: str) -> tuple[str, Deferred[None]]:
        """The server ``home`` has a session that can be reached from here; it is present once that is durable.

        :param routing_id: its own, which no session may have: see :meth:`is_free`.
        :param peer: the address of the server that told of it.
        :returns: the id that the session has here, which may be used at once, and when it is present.
        """
        session_id = self._next_session_id()
        opened = ev.SessionOpened(protocol=protocol, session=session_id, routing_id=routing_id, peer=peer, home=home)
        return session_id, self._change(session_id, [opened])

    def _next_session_id(self) -> str:
        self._opened += 1
        return f"{self._boot}.{self._opened}"

    def is_free(self, routing_id: str) -> bool:
        """Whether no session has that routing id of its own, counting those that are on their way to the disk."""
        return routing_id != self._server_id and self._plan().owner(routing_id) is None

    def close_session(self, session_id: str, reason: str, traffic: Traffic) -> None:
        """A session ended, and with it its services and subscriptions. Does nothing when it is closed already."""
        session = self.state.sessions.get(session_id)
        if session is None:
            return
        about, expected = session.about(), self._plan().sessions[session_id]
        known, planned = (frozenset(each.provided_by(session_id)) for each in (self.state, self._plan()))
        ended = {
            name: self._stamp(ev.ServiceUnregistered(service=name, reason=reason, **about))
            for name in sorted(known | planned)
        }
        link_down = [self._stamp(ev.LinkDown(reason=reason, **expected.about()))] if expected.is_link else []
        closed = self._stamp(
            ev.SessionClosed(
                reason=reason,
                duration=max(0, self._clock.utc() - session.opened),
                objects_in=traffic.objects_in,
                objects_out=traffic.objects_out,
                bytes_in=traffic.bytes_in,
                bytes_out=traffic.bytes_out,
                **about,
            )
        )
        # A service that is just being unregistered has a record of its own on the way; of one that is just being
        # registered, or of a link that is just coming up, nobody was ever told.
        happened = [*(ended[name] for name in ended if name in planned), *link_down, closed]
        self._happened(happened, is_written=not self._newcomers.left(session_id))
        told_down = link_down if session.is_link else ()
        self._observers.tell([*(ended[name] for name in ended if name in known), *told_down, closed])

    def lose_service(self, session_id: str, service: str, reason: str) -> None:
        """A service that a session provided is over, without anybody asking."""
        session = self.state.sessions.get(session_id)
        if session is not None and session_id in self.state.services.get(service, ()):
            self._overtake(session_id, service, SERVICE_CHANGES, "not-registered")
            lost = self._stamp(ev.ServiceUnregistered(service=service, reason=reason, **session.about()))
            self._happened([lost])
            self._observers.tell([lost])

    def lose_subscription(self, session_id: str, service: str, reason: str) -> None:
        """A subscription is over, without anybody asking."""
        session = self.state.sessions.get(session_id)
        if session is not None and self.state.subscription(session_id, service) is not None:
            self._overtake(session_id, service, SUBSCRIPTION_CHANGES, "no-such-subscription")
            lost = self._stamp(ev.SubscriptionRemoved(service=service, reason=reason, **session.about()))
            self._happened([lost])
            self._observers.tell([lost])

    # Changes that clients ask for.

    def identify(self, identity: Identity, interest: Interest | None) -> Deferred[Session]:
        """A session says who it is and what it wants, instead of what it said before.

        :param interest: ``None`` for a far session: its own server looks at it.
        """
        try:
            plan = self._plan()
            session = rules.open_session(plan, identity.session_id)
        except Refused as refusal:
            return fail(refusal)
        routing_id = rules.grant_routing_id(plan, session, identity.routing_id, self._server_id, identity.role)
        if identity.role == SERVER_ROLE and routing_id != identity.routing_id:
            return fail(Refused("duplicate-link", f"there is a server {identity.routing_id} already"))
        about = {**session.about(), "routing_id": routing_id, "actor": identity.actor}
        changes: list[ev.Event] = [
            ev.SessionIdentified(
                routing_ids=rules.grant_routing_ids(plan, session, identity.routing_ids, self._server_id),
                name=identity.name,
                role=identity.role,
                vocabulary=identity.vocabulary,
                **about,
            )
        ]
        if plan.subscription(session.id, None) is not None:
            changes.append(ev.SubscriptionRemoved(reason="replaced", **about))
        changes.append(ev.SubscriptionAdded(interest=interest, **about))
        if identity.role == SERVER_ROLE and session.home is None and not session.is_link:
            changes.append(ev.LinkUp(**about))
        changed = self._change(session.id, changes)
        return changed.addCallback(lambda _: rules.open_session(self.state, identity.session_id))

    def register_service(self, session_id: str, service: str, *, hosted: bool = False) -> Deferred[None]:
        """A session wants to provide a service. Again: nothing changes.

        :param hosted: whether it is the server itself that provides it, for which names are reserved.
        """
        try:
            plan = self._plan()
            session = rules.open_session(plan, session_id)
            rules.may_register(service, hosted=hosted)
            held = plan.provided_by(session_id)
            if service not in held and session.home is None:
                most = self._settings.max_services
                rules.may_have_more(len(held), most, "too-many-services", "services", "max-services")
        except Refused as refusal:
            return self._refuse(ev.ServiceRefused, session_id, service, refusal)
        if session_id not in plan.services.get(service, ()):
            return self._change(session_id, [ev.ServiceRegistered(service=service, **session.about())])
        if session_id not in self.state.services.get(service, ()):
            # On its way: no event of its own, but it may not be answered before that one is durable.
            waited = self._change(session_id, [])
            return waited.addCallback(lambda _: rules.may_unregister(self.state, session_id, service))
        return succeed(None)

    def unregister_service(self, session_id: str, service: str) -> Deferred[None]:
        """A session wants to provide a service no longer."""
        try:
            plan = self._plan()
            session = rules.open_session(plan, session_id)
            check_service_name(service)
            rules.may_unregister(plan, session_id, service)
        except Refused as refusal:
            return self._refuse(ev.ServiceRefused, session_id, service, refusal)
        return self._change(session_id, [ev.ServiceUnregistered(service=service, **session.about())])

    def unregister_services(self, session_id: str) -> Deferred[None]:
        """A session wants to provide nothing any more."""
        try:
            plan = self._plan()
            about = rules.open_session(plan, session_id).about()
        except Refused as refusal:
            return fail(refusal)
        names = sorted(plan.provided_by(session_id))
        return self._change(session_id, [ev.ServiceUnregistered(service=name, **about) for name in names])

    def subscribe(self, session_id: str, service: str, options: dict[str, Any] | None = None) -> Deferred[None]:
        """A session wants a service; again: the subscription is renewed."""
        try:
            plan = self._plan()
            session = rules.open_session(plan, session_id)
            check_service_name(service)
            held = plan.subscriptions.get(session_id, {})
            if service not in held:
                most = self._settings.max_subscriptions
                rules.may_have_more(len(held), most, "too-many-subscriptions", "subscriptions", "max-subscriptions")
        except Refused as refusal:
            return self._refuse(ev.SubscriptionRefused, session_id, service, refusal)
        about = session.about()
        if plan.subscription(session_id, service) is not None:
            return self._change(session_id, [ev.SubscriptionRenewed(service=service, options=options, **about)])
        return self._change(session_id, [ev.SubscriptionAdded(service=service, options=options, **about)])

    def unsubscribe(self, session_id: str, service: str) -> Deferred[None]:
        """A session wants a service no longer."""
        try:
            plan = self._plan()
            session = rules.open_session(plan, session_id)
            check_service_name(service)
            rules.may_unsubscribe(plan, session_id, service)
        except Refused as refusal:
            return self._refuse(ev.SubscriptionRefused, session_id, service, refusal)
        return self._change(session_id, [ev.SubscriptionRemoved(service=service, **session.about())])

    def refuse_subscription(self, session_id: str, service: str, reason: str) -> None:
        """Note that a wire format refused a subscription."""
        self._note_refusal(ev.SubscriptionRefused, session_id, service, reason)

    # The write-ahead rule.

    def _plan(self) -> RegistryState:
        """The state with everything that is on its way to the disk; made anew only when nothing is."""
        if self._planned is None:
            self._planned = self.state.copy()
        return self._planned

    def _change(self, session_id: str, changes: Sequence[ev.Event]) -> Deferred[None]:
        if changes:
            self._introduce(session_id)
        pending = _Pending(session_id, [self._stamp(event) for event in changes])
        written = self._journal.append(pending.stamped)
        plan = self._plan()
        for each in pending.stamped:
            plan.apply(each.event, each.time)
        self._pending.append(pending)
        return written.addCallbacks(partial(self._written, pending), partial(self._not_written, pending))

    def _written(self, pending: _Pending, _: list[Record]) -> None:
        self._pending.remove(pending)
        opens = pending.stamped and isinstance(pending.stamped[0].event, ev.SessionOpened)
        if not opens and pending.session_id not in self.state.sessions:
            raise Refused("session-closed", "the session closed while its change was being written")
        if pending.overtaken is not None:
            raise pending.overtaken
        for each in pending.stamped:
            self.state.apply(each.event, each.time)
        self._observers.tell(pending.stamped)

    def _not_written(self, pending: _Pending, failure: Failure) -> Failure:
        """Whatever else is on its way will not be written either: it was checked against this change."""
        if pending in self._pending:
            self._pending.clear()
            self._planned = None
        return failure

    def _overtake(self, session_id: str, service: str, kinds: tuple[type[ev.Event], ...], reason: str) -> None:
        """A service or a subscription is over: changes of it that are on their way come too late."""
        for pending in self._pending:
            events = [each.event for each in pending.stamped]
            if pending.session_id == session_id and any(isinstance(e, kinds) and e.service == service for e in events):
                pending.overtaken = Refused(reason, f"{service!r} ended while a change of it was being written")

    def _introduce(self, session_id: str | None) -> None:
        """Write down that a session was opened, before anything else of it is, if that was not done yet."""
        opened = self._newcomers.acted(session_id)
        if opened is not None:
            stamped = self._stamp(opened)
            self._journal.note(stamped)
            for state in (self.state, self._plan()):
                state.opened_at(session_id or "", stamped.time)

    def _happened(self, stamped: Sequence[Stamped], *, is_written: bool = True) -> None:
        """Apply what has happened already, and write it down."""
        plan = self._plan()
        for each in stamped:
            if is_written:
                self._journal.note(each)
            plan.apply(each.event, each.time)
            self.state.apply(each.event, each.time)

    # Refusals.

    def _refuse(
        self, kind: type[ev.ServiceRefused | ev.SubscriptionRefused], session_id: str, service: Any, refusal: Refused
    ) -> Deferred[None]:
        self._note_refusal(kind, session_id, service, refusal.reason)
        if isinstance(refusal, OverLimit):
            self.note_from_stranger(ev.limit_reached(refusal, **self.state.sessions[session_id].about()))
        return fail(refusal)

    def _note_refusal(
        self, kind: type[ev.ServiceRefused | ev.SubscriptionRefused], session_id: str, service: Any, reason: str
    ) -> None:
        session = self.state.sessions.get(session_id)
        if session is not None:
            self.note_from_stranger(kind(service=excerpt(service), reason=reason, **session.about()))

    def _seconds(self) -> float:
        return self._clock.mono() / 1_000_000

    def _stamp(self, event: ev.Event) -> Stamped:
        return Stamped(self._clock.utc(), self._clock.mono(), event)
