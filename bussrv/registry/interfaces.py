"""The interfaces of the registry. All of them belong to the reactor's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from twisted.internet.defer import Deferred

    from bussrv.events import Event
    from bussrv.journal.record import Stamped
    from bussrv.registry.changes.rules import ReservedNames
    from bussrv.registry.journal_budget.spending import Spending
    from bussrv.registry.outcome import OnDone
    from bussrv.registry.state.session import Claims, Session
    from bussrv.registry.state.state import RegistryState
    from bussrv.values import Interest, Traffic


class IRegistryObserver(Interface):
    """Is told of every change of the registry, after it is durable and applied."""

    def registry_changed(stamped: Stamped) -> None:
        """A change was applied: a :class:`bussrv.journal.record.Stamped`, its event and its time. Must not raise."""


class IRegistry(Interface):
    """Every session, service and subscription.

    Invariant: the registry equals the fold of the journal, except for deferred openings. A change that is asked for
    waits for the journal's budget, is checked, written, durable, applied, and only then answered and announced. The
    methods that return a Deferred are such changes: it fires with ``None`` when the change may be answered, and fails
    with :class:`bussrv.errors.Refused` when it was not made. Three of them, which members ask for often, can be asked
    for without a Deferred: ``ask_to_…`` calls an :data:`bussrv.registry.outcome.OnDone` with the outcome. Losing a
    session is applied at once.

    Nothing here asks the policy. Wire formats of plugins use the methods of
    :class:`bussrv.net.session.protocol.StreamProtocol`, which do.
    """

    state: RegistryState = Attribute(
        "The :class:`bussrv.registry.state.state.RegistryState` that others see. To be read only."
    )
    changes: int = Attribute("``int``: how many changes observers were told of since the start.")
    spending: Spending = Attribute(
        "The :class:`bussrv.registry.journal_budget.spending.Spending`: whether changes have to wait."
    )

    reserved: ReservedNames = Attribute(
        "The :class:`bussrv.registry.changes.rules.ReservedNames`: no client may have them."
    )

    def open_session(
        protocol: str, peer: str, persistent: bool = False, *, expiry: int | None = None, actor: str | None = None
    ) -> Session:
        """Open a session for a client.

        :param persistent: whether it outlives a restart of the server.
        :param expiry: it is *durable*, and so persistent: it ends so many microseconds after it lost its connection.
        :param actor: the user that the client proved to be in an earlier session of its connection.
        :returns: its :class:`ISession`, with a fresh routing id.
        """

    def leave_session(session_id: str, reason: str, until: int) -> None:
        """A durable session has lost its connection, or the server that had it has stopped: its services end.

        Its wire format sees to it that it is closed when it is time.

        :param until: when it ends unless its client comes back, UTC microseconds.
        """

    def resume_session(session_id: str, peer: str, expiry: int) -> None:
        """The client of a durable session is back.

        :param peer: its address now.
        :param expiry: see :meth:`open_session`.
        """

    def close_session(session_id: str, reason: str, traffic: Traffic) -> None:
        """End a session with its services and subscriptions. Later calls for the same session do nothing.

        :param traffic: a :class:`bussrv.values.Traffic`.
        """

    def identify(
        claims: Claims,
        interest: Interest | None,
        may_share: Callable[[str], bool] = ...,
        services: Iterable[str] | None = None,
        check_service: Callable[[str], object] = ...,
    ) -> Deferred[Session]:
        """Replace the claims and the interest of a session, and its subscriptions to services.

        :param claims: a :class:`bussrv.registry.state.session.Claims`.
        :param interest: ``None`` for a remote session: its own server applies it.
        :param may_share: whether the session may have a further routing id that others have, too; by default any.
        :param services: those that it is subscribed to from now on; ``None``: its subscriptions stay.
        :param check_service: raises :class:`Refused` if it may not be subscribed to a service; by default it may.
        :returns: fires with the session. If the routing id that it asks for is taken, the session keeps its own.
        """

    def introduce(claims: Claims) -> Deferred[None]:
        """Replace the claims of a session that is no member of the object network: its user and its program."""

    def register_service(session_id: str, service: Any, *, hosted: bool = False) -> Deferred[None]:
        """Register a service of a session; does nothing if it provides the service already.

        :param hosted: whether the server itself provides it, so that reserved names are allowed.
        """

    def ask_to_register(session_id: str, service: Any, on_done: OnDone) -> None:
        """Do as :meth:`register_service` does, without a Deferred."""

    def ask_to_unregister(session_id: str, service: Any, on_done: OnDone) -> None:
        """Do as :meth:`unregister_service` does, without a Deferred."""

    def ask_to_unregister_all(session_id: str, on_done: OnDone) -> None:
        """Unregister all services of a session, without a Deferred."""

    def unregister_service(session_id: str, service: Any) -> Deferred[None]:
        """Unregister a service of a session."""

    def subscribe(
        session_id: str, service: str, options: dict[str, Any] | None = None, *, or_pattern: bool = False
    ) -> Deferred[None]:
        """Subscribe a session to a service, or renew its subscription.

        :param or_pattern: whether ``service`` may also be a pattern over names.
        """

    def unsubscribe(session_id: str, service: str) -> Deferred[None]:
        """End the subscription of a session to a service."""

    def lose_service(session_id: str, service: str, reason: str) -> None:
        """End a service of a session at once, for example because its lease ran out."""

    def lose_subscription(session_id: str, service: str, reason: str) -> None:
        """End a subscription at once, for example because its lease ran out."""

    def refuse_subscription(session_id: str, service: str, reason: str) -> None:
        """Record that a wire format refused a subscription."""

    def note(event: Event) -> None:
        """Journal an event that changes nothing in the registry, such as the start of the server."""

    def note_from_stranger(event: Event, times: int = 1) -> None:
        """Journal a refusal, or a limit that a client reached, at a limited rate per address.

        :param times: how often it happened.
        """

    def observe(observer: IRegistryObserver, kinds: Container[type[Event]] | None = None) -> None:
        """Tell ``observer``, an :class:`IRegistryObserver`, of every change from now on.

        :param kinds: only of changes whose events are of these classes; each observer costs every change it is told of.
        """
