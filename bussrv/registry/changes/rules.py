"""The rules of the registry. Each looks at a registry, and raises :class:`Refused` if it forbids a change. Pure.

Names that are reserved, and routing ids that are held, stand here, too: a rule asks whether a session may have them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container
from typing import Any

from msgspec import Struct

from bussrv.addresses import address_key
from bussrv.errors import OverLimit, Refused
from bussrv.registry.state.event_fold import EventFold
from bussrv.registry.state.session import SERVER_ROLE, Session
from bussrv.settings import Settings
from bussrv.values import OWN_PREFIXES, check_service_name, check_wanted_name, read_as


class ReservedNames:
    """The names that only the server itself may provide or publish on, in any spelling: those that begin with ``bus/``
    or ``$bus/``, those of the services that this server hosts, and those of its other topics.
    """

    def __init__(self) -> None:
        self._hosted: set[str] = set()
        self._prefixes: tuple[str, ...] = OWN_PREFIXES

    def add(self, name: str) -> None:
        """The server hosts a service of that name."""
        self._hosted.add(read_as(name))

    def add_prefix(self, prefix: str) -> None:
        """The server has topics whose names begin so."""
        self._prefixes = (*self._prefixes, read_as(prefix))

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        read = read_as(name)
        return read in self._hosted or read.startswith(self._prefixes)


class _Hold(Struct, frozen=True):
    """For which actor or address a routing id is held, and until when, in seconds."""

    actor: str | None
    address: str
    until: float


class HeldIds:
    """Routing ids that sessions of this server asked for and gave up. They are held for the clients that had them: no
    other client gets one right after its owner has left. They are not held across a restart.

    :param settings: for how long a routing id is held, and how many are; beyond that the oldest is free.
    :param server_id: the routing id of this server, which no client gets.
    :param seconds: a clock, in seconds, that never steps back.
    """

    def __init__(self, settings: Settings, server_id: str, seconds: Callable[[], float]) -> None:
        self._settings = settings
        self._server_id = server_id
        self._seconds = seconds
        self._asked: set[str] = set()
        self._held: OrderedDict[str, _Hold] = OrderedDict()

    def __len__(self) -> int:
        """How many are held, expired ones included."""
        return len(self._held)

    def granted(self, session: Session, wanted: str | None, routing_id: str) -> None:
        """Note that a session asked for a routing id, and was given one."""
        if wanted == routing_id and session.home is None:
            self._asked.add(session.id)

    def ended(self, session: Session) -> None:
        """Hold the routing id of a session that ended, if it asked for it."""
        if session.id not in self._asked:
            return
        self._asked.discard(session.id)
        seconds = self._settings.routing_id_hold
        if seconds > 0:
            hold = _Hold(session.actor, address_key(session.peer), self._seconds() + seconds)
            self._held[session.routing_id] = hold
            self._held.move_to_end(session.routing_id)
        most = self._settings.max_held_ids
        while self._held and (len(self._held) > most or self._first().until <= self._seconds()):
            self._held.popitem(last=False)

    def _first(self) -> _Hold:
        return next(iter(self._held.values()))

    def is_kept_from(self, session: Session, routing_id: str, role: str | None = None) -> bool:
        """Whether a routing id is this server's own, or held for another actor and another address than of ``session``.

        Held routing ids are given to servers, which may have several addresses, and to remote sessions.
        """
        if routing_id == self._server_id:
            return True
        hold = self._held.get(routing_id)
        if hold is None or hold.until <= self._seconds() or role == SERVER_ROLE or session.home is not None:
            return False
        is_same_actor = hold.actor is not None and hold.actor == session.actor
        return not is_same_actor and hold.address != address_key(session.peer)


def open_session(state: EventFold, session_id: str) -> Session:
    """The session of that id.

    :raises Refused: ``session-closed``.
    """
    session = state.session(session_id)
    if session is None:
        raise Refused("session-closed", "the session is closed")
    return session


def may_register(name: str, reserved: Container[str]) -> None:
    """Check that somebody may provide a service of that name.

    Others may provide it already: providers share a name, and
    :meth:`~bussrv.bus.routing.audience.Audience.next_of` says which of them is given the next request.

    :param reserved: the names that it may not have.
    :raises Refused: ``bad-service-name`` or ``reserved-name``.
    """
    check_service_name(name)
    if name in reserved:
        raise Refused(
            "reserved-name",
            f"names that begin with {' or '.join(OWN_PREFIXES)}, and those of services and topics of the server "
            "itself, belong to the server, in any spelling",
        )


def may_be_named(name: Any, *known: Container[str | None], or_pattern: bool = False) -> None:
    """Check that a name is in one of ``known``, or may be the name of a new service.

    :param or_pattern: whether it may also be a pattern over names.
    :raises Refused: ``bad-service-name``.
    """
    if not isinstance(name, str) or not any(name in each for each in known):
        (check_wanted_name if or_pattern else check_service_name)(name)


def may_have_more(count: int, most: int, reason: str, what: str, limit: str) -> None:
    """Check that a session that has ``count`` services, or subscriptions, may have one more.

    :raises OverLimit: for ``reason``.
    """
    if count >= most:
        raise OverLimit(reason, f"a session has at most {most} {what}", limit, most)


def may_be_more_services(count: int, most: int) -> None:
    """Check that the sessions of this server, which provide ``count`` services, may provide one more.

    :raises OverLimit: ``too-many-services-in-all``.
    """
    if count >= most:
        message = f"there are at most {most} services"
        raise OverLimit("too-many-services-in-all", message, "max-services-total", most)


def may_unregister(state: EventFold, session_id: str, name: str) -> None:
    """Check that a session provides the service that it unregisters.

    :raises Refused: ``not-registered``.
    """
    if not state.provides(session_id, name):
        raise Refused("not-registered", f"the service {name!r} is not registered by this session")


def may_unsubscribe(state: EventFold, session_id: str, name: str) -> None:
    """Check that a session has the subscription that it ends.

    :raises Refused: ``no-such-subscription``.
    """
    if state.subscription(session_id, name) is None:
        raise Refused("no-such-subscription", f"there is no subscription to {name!r}")


def grant_routing_id(
    state: EventFold,
    session: Session,
    wanted: str | None,
    is_kept: Callable[[Session, str, str | None], bool],
    role: str | None = None,
) -> str:
    """The routing id that a session gets: the one it wants if that is free, otherwise the one it has.

    A server gets its own even if it is a further routing id of another session.

    :param is_kept: whether a routing id is this server's own, or held for another client than that session.
    """
    if not wanted or wanted == session.routing_id:
        return session.routing_id
    is_shared = role != SERVER_ROLE and state.is_shared(wanted, session.id)
    if state.owner(wanted) is not None or is_shared or is_kept(session, wanted, role):
        return session.routing_id
    return wanted


def grant_routing_ids(
    state: EventFold,
    session: Session,
    wanted: tuple[str, ...],
    is_kept: Callable[[Session, str, str | None], bool],
    may_share: Callable[[str], bool],
) -> tuple[str, ...]:
    """The further routing ids that a session gets: each once, and none that is another's own or held for another.

    :param may_share: whether it may have one that others have as a further one, too. It keeps those that it has.
    """

    def is_granted(routing_id: str) -> bool:
        if not routing_id or state.owner(routing_id) not in (None, session.id) or is_kept(session, routing_id, None):
            return False
        is_new = routing_id not in session.routing_ids
        return not (is_new and state.is_shared(routing_id, session.id)) or may_share(routing_id)

    return tuple(filter(is_granted, dict.fromkeys(wanted)))


def renews_lease(state: EventFold, session_id: str, service: str) -> bool:
    """Whether a request to subscribe only renews a lease."""
    session = state.session(session_id)
    return session is not None and session.has_leases and state.subscription(session_id, service) is not None
