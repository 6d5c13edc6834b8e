"""What the registry allows: each rule looks at a state and raises :class:`Refused`, or does not. Pure."""

from __future__ import annotations

from bussrv.errors import OverLimit, Refused
from bussrv.registry.state import SERVER_ROLE, RegistryState, Session
from bussrv.values import RESERVED_PREFIX, check_service_name


def open_session(state: RegistryState, session_id: str) -> Session:
    """The session of that id.

    :raises Refused: ``session-closed``.
    """
    session = state.sessions.get(session_id)
    if session is None:
        raise Refused("session-closed", "the session is closed")
    return session


def may_register(name: str, *, hosted: bool = False) -> None:
    """Whether a client, or (``hosted``) the server itself, may provide a service of that name.

    :raises Refused: ``bad-service-name`` or ``reserved-name``.
    """
    check_service_name(name)
    if name.startswith(RESERVED_PREFIX) and not hosted:
        raise Refused("reserved-name", f"service names that begin with {RESERVED_PREFIX} belong to the server")


def may_have_more(count: int, most: int, reason: str, what: str, limit: str) -> None:
    """Whether a session that has so many services, or subscriptions, may have one more.

    :raises OverLimit: for ``reason``.
    """
    if count >= most:
        raise OverLimit(reason, f"a session has at most {most} {what}", limit, most)


def may_unregister(state: RegistryState, session_id: str, name: str) -> None:
    """Whether a session provides the service it wants to provide no longer.

    :raises Refused: ``not-registered``.
    """
    if session_id not in state.services.get(name, ()):
        raise Refused("not-registered", f"the service {name!r} is not registered by this session")


def may_unsubscribe(state: RegistryState, session_id: str, name: str) -> None:
    """Whether a session has the subscription it wants to end.

    :raises Refused: ``no-such-subscription``.
    """
    if state.subscription(session_id, name) is None:
        raise Refused("no-such-subscription", f"there is no subscription to {name!r}")


def grant_routing_id(
    state: RegistryState, session: Session, wanted: str | None, server_id: str, role: str | None = None
) -> str:
    """The routing id that a session gets: the one it wants when that is free, else the one it has.

    No further routing id of another session keeps a server from having its own.
    """
    if not wanted or wanted == session.routing_id:
        return session.routing_id
    is_shared = role != SERVER_ROLE and state.is_shared(wanted, session.id)
    if wanted == server_id or state.owner(wanted) is not None or is_shared:
        return session.routing_id
    return wanted


def grant_routing_ids(
    state: RegistryState, session: Session, wanted: tuple[str, ...], server_id: str
) -> tuple[str, ...]:
    """Which further routing ids a session gets: each once, none that is another session's own, or the server's."""
    return tuple(
        routing_id
        for routing_id in dict.fromkeys(wanted)
        if routing_id and routing_id != server_id and state.owner(routing_id) in (None, session.id)
    )
