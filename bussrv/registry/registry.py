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
from bussrv.clock import Clock
from bussrv.errors import Refused
from bussrv.interfaces import IJournal, IRegistry, IRegistryObserver
from bussrv.journal.record import Record, Stamped
from bussrv.registry import rules
from bussrv.registry.state import RegistryState, Session
from bussrv.registry.throttle import Throttle
from bussrv.values import Interest, Traffic, check_service_name

STRANGER_RATE = 10.0
"""How many records a second one address may cause by being refused, once its burst is used up."""

STRANGER_BURST = 50


class Identity(Struct, frozen=True, kw_only=True):
    """Who a session says it is. ``routing_id`` is the one it asks for, ``routing_ids`` the further ones."""

    session_id: str
    routing_id: str | None = None
    routing_ids: tuple[str, ...] = ()
    actor: str | None = None
    name: str | None = None
    role: str | None = None
    vocabulary: str | None = None


@implementer(IRegistry)
class Registry:
    """Every session, service and subscription of one server.

    :param journal: where changes are written.
    :param clock: where times come from.
    :param new_id: makes an id that no other session, of whichever server, has.
    :param server_id: the routing id of this server, which no session may take.
    :param boot: the id of this run; session ids begin with it.
    :param state: what was replayed from the journal.
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
    ) -> None:
        self.state = RegistryState() if state is None else state
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._server_id = server_id
        self._boot = boot
        self._opened = 0
        self._planned: RegistryState | None = None
        self._pending: list[list[Stamped]] = []
        self._observers: list[IRegistryObserver] = []
        self._throttle = Throttle(STRANGER_RATE, STRANGER_BURST, lambda: clock.mono() / 1_000_000)

    def observe(self, observer: IRegistryObserver) -> None:
        """Tell ``observer`` of every change from now on."""
        self._observers.append(observer)

    def note(self, event: ev.Event) -> None:
        """Write down an event that changes nothing in the registry."""
        self._journal.note(self._stamp(event))

    def note_from_stranger(self, event: ev.Event) -> None:
        """Write down what a client caused by being refused or hitting a limit, at a limited rate per address."""
        host = (event.peer or "").rpartition(":")[0] or event.peer
        suppressed = self._throttle.admit((host, type(event)))
        if suppressed is not None:
            self.note(replace(event, suppressed=suppressed) if suppressed else event)

    # Sessions come and go at once: nobody asked, so nobody waits.

    def open_session(self, protocol: str, peer: str, persistent: bool = False) -> Session:
        """A client is present from now on."""
        self._opened += 1
        session_id = f"{self._boot}.{self._opened}"
        self._happened(
            ev.SessionOpened(
                protocol=protocol,
                session=session_id,
                routing_id=self._new_id(),
                peer=peer,
                persistent=persistent,
            )
        )
        return self.state.sessions[session_id]

    def close_session(self, session_id: str, reason: str, traffic: Traffic) -> None:
        """A session ended, and with it its services and subscriptions. Does nothing when it is closed already."""
        session = self.state.sessions.get(session_id)
        if session is None:
            return
        about = _about(session)
        for name in sorted(self._plan().provided_by(session_id)):
            self._happened(ev.ServiceUnregistered(service=name, reason=reason, **about))
        self._happened(
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

    def lose_service(self, session_id: str, service: str, reason: str) -> None:
        """A service that a session provided is over, without anybody asking."""
        session = self.state.sessions.get(session_id)
        if session is not None and session_id in self.state.services.get(service, ()):
            self._happened(ev.ServiceUnregistered(service=service, reason=reason, **_about(session)))

    def lose_subscription(self, session_id: str, service: str, reason: str) -> None:
        """A subscription is over, without anybody asking."""
        session = self.state.sessions.get(session_id)
        if session is not None and self.state.subscription(session_id, service) is not None:
            self._happened(ev.SubscriptionRemoved(service=service, reason=reason, **_about(session)))

    # Changes that clients ask for.

    def identify(self, identity: Identity, interest: Interest) -> Deferred[Session]:
        """A session says who it is and what it wants, instead of what it said before."""
        try:
            plan = self._plan()
            session = rules.open_session(plan, identity.session_id)
        except Refused as refusal:
            return fail(refusal)
        routing_id = rules.grant_routing_id(plan, session, identity.routing_id, self._server_id)
        about = {**_about(session), "routing_id": routing_id, "actor": identity.actor}
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
        changed = self._change(changes)
        return changed.addCallback(lambda _: self.state.sessions[identity.session_id])

    def register_service(self, session_id: str, service: str) -> Deferred[None]:
        """A session wants to provide a service. Again: nothing changes."""
        try:
            plan = self._plan()
            session = rules.open_session(plan, session_id)
            rules.may_register(service)
        except Refused as refusal:
            return self._refuse(ev.ServiceRefused, session_id, service, refusal)
        if session_id in plan.services.get(service, ()):
            return succeed(None)
        return self._change([ev.ServiceRegistered(service=service, **_about(session))])

    def unregister_service(self, session_id: str, service: str) -> Deferred[None]:
        """A session wants to provide a service no longer."""
        try:
            plan = self._plan()
            session = rules.open_session(plan, session_id)
            check_service_name(service)
            rules.may_unregister(plan, session_id, service)
        except Refused as refusal:
            return self._refuse(ev.ServiceRefused, session_id, service, refusal)
        return self._change([ev.ServiceUnregistered(service=service, **_about(session))])

    def subscribe(self, session_id: str, service: str, options: dict[str, Any] | None = None) -> Deferred[None]:
        """A session wants a service; again: the subscription is renewed."""
        try:
            plan = self._plan()
            session = rules.open_session(plan, session_id)
            check_service_name(service)
        except Refused as refusal:
            return self._refuse(ev.SubscriptionRefused, session_id, service, refusal)
        about = _about(session)
        if plan.subscription(session_id, service) is not None:
            return self._change([ev.SubscriptionRenewed(service=service, options=options, **about)])
        return self._change([ev.SubscriptionAdded(service=service, options=options, **about)])

    def unsubscribe(self, session_id: str, service: str) -> Deferred[None]:
        """A session wants a service no longer."""
        try:
            plan = self._plan()
            session = rules.open_session(plan, session_id)
            rules.may_unsubscribe(plan, session_id, service)
        except Refused as refusal:
            return fail(refusal)
        return self._change([ev.SubscriptionRemoved(service=service, **_about(session))])

    def refuse_subscription(self, session_id: str, service: str, reason: str) -> None:
        """Note that a wire format refused a subscription."""
        self._note_refusal(ev.SubscriptionRefused, session_id, service, reason)

    # The write-ahead rule.

    def _plan(self) -> RegistryState:
        """The state with everything that is on its way to the disk."""
        if self._planned is None:
            self._planned = self.state.copy()
            for stamped in [each for pending in self._pending for each in pending]:
                self._planned.apply(stamped.event, stamped.time)
        return self._planned

    def _change(self, changes: Sequence[ev.Event]) -> Deferred[None]:
        plan = self._plan()
        stamped = [self._stamp(event) for event in changes]
        for each in stamped:
            plan.apply(each.event, each.time)
        self._pending.append(stamped)
        written = self._journal.append(stamped)
        return written.addCallbacks(partial(self._written, stamped), partial(self._not_written, stamped))

    def _written(self, stamped: list[Stamped], _: list[Record]) -> None:
        self._pending.remove(stamped)
        session_id = stamped[0].event.session
        if session_id not in self.state.sessions:
            raise Refused("session-closed", "the session closed while its change was being written")
        for each in stamped:
            self.state.apply(each.event, each.time)
        self._tell(stamped)

    def _not_written(self, stamped: list[Stamped], failure: Failure) -> Failure:
        self._pending.remove(stamped)
        self._planned = None
        return failure

    def _happened(self, event: ev.Event) -> None:
        """Apply and write down what has happened already; observers hear of it unless they never knew the thing."""
        stamped = self._stamp(event)
        self._journal.note(stamped)
        self._plan().apply(event, stamped.time)
        known = not isinstance(event, ev.ServiceUnregistered) or event.session in self.state.services.get(
            event.service or "", ()
        )
        self.state.apply(event, stamped.time)
        if known:
            self._tell([stamped])

    def _tell(self, stamped: Sequence[Stamped]) -> None:
        for observer in self._observers:
            for each in stamped:
                observer.registry_changed(each)

    # Refusals.

    def _refuse(
        self, kind: type[ev.ServiceRefused | ev.SubscriptionRefused], session_id: str, service: Any, refusal: Refused
    ) -> Deferred[None]:
        self._note_refusal(kind, session_id, service, refusal.reason)
        return fail(refusal)

    def _note_refusal(
        self, kind: type[ev.ServiceRefused | ev.SubscriptionRefused], session_id: str, service: Any, reason: str
    ) -> None:
        session = self.state.sessions.get(session_id)
        if session is not None:
            self.note_from_stranger(kind(service=_excerpt(service), reason=reason, **_about(session)))

    def _stamp(self, event: ev.Event) -> Stamped:
        return Stamped(self._clock.utc(), self._clock.mono(), event)


def _about(session: Session) -> dict[str, Any]:
    return {
        "protocol": session.protocol,
        "session": session.id,
        "routing_id": session.routing_id,
        "actor": session.actor,
        "peer": session.peer,
    }


def _excerpt(service: Any) -> str:
    text = service if isinstance(service, str) else repr(service)
    return text.encode("utf-8", "replace").decode()[:255]
